-- Jobs: added, changed, removed.
--
--   put_job how id state definition stats expected     how is add, replace or edit; answers done, taken, missing or changed
--   find_taken ids                                     the first id that a job has, or an empty string
--   add_jobs jobs                                      adds all jobs, or none: then answers the first id that is taken
--   undo_add_jobs stamp ids                            removes the jobs whose stamps begin so
--   remove_jobs id ...                                 how many were there
--   clear_jobs
--   release_job id                                     1 if the job was suspended
--   prune_jobs (id state) ...                          removes jobs that have these states still and have no runs; their ids
--
-- jobs are lists in the order of the commands' arguments: ids, states, definitions, stats,
-- due (by lane), suspended, finished.

function steps.put_job()
  local how, job_id, definition, stats = ARGV[5], ARGV[6], ARGV[8], ARGV[9]
  local state = decode(ARGV[7])
  local stored = call('HGET', P .. 'heads', job_id)
  if how == 'add' then
    if stored then return 'taken' end
    if stats ~= '' then call('HSET', P .. 'lives', job_id, stats) end
  else
    if not stored then return 'missing' end
    if how == 'edit' and stored ~= ARGV[10] then return 'changed' end
    local old = read_state(stored, JOB_STATE)
    if old then
      unschedule(job_id, old)
      state[FENCE] = old[FENCE]
    end
  end
  call('HSET', P .. 'jobs', job_id, definition)
  call('HSET', P .. 'heads', job_id, encode(state))
  schedule(job_id, state)
  woken = true
  return 'done'
end

local function first_taken(ids)
  local stored = values('heads', ids)
  for index, job_id in ipairs(ids) do
    if stored[index] then return job_id end
  end
end

function steps.find_taken()
  return first_taken(decode(ARGV[5])) or ''
end

function steps.add_jobs()
  local jobs = decode(ARGV[5])
  local taken = first_taken(jobs.ids)
  if taken then return taken end
  put_all('HSET', 'heads', jobs.states)
  put_all('HSET', 'jobs', jobs.definitions)
  put_all('HSET', 'lives', jobs.stats)
  for lane, due in pairs(jobs.due) do
    put_all('ZADD', 'due:' .. lane, due)
    touched.due[lane] = true
  end
  put_all('SADD', 'suspended', jobs.suspended)
  put_all('ZADD', 'finished', jobs.finished)
  woken = true
  return ''
end

function steps.undo_add_jobs()
  local beginning = '["' .. ARGV[5]
  local ids = decode(ARGV[6])
  for index, state in ipairs(values('heads', ids)) do
    if state and string.sub(state, 1, #beginning) == beginning then remove_job(ids[index]) end
  end
  return 'done'
end

function steps.remove_jobs()
  local removed = 0
  for index = 5, #ARGV do
    if remove_job(ARGV[index]) > 0 then removed = removed + 1 end
  end
  return removed
end

function steps.clear_jobs()
  for _, lane in ipairs(call('ZRANGE', P .. 'due', 0, -1)) do call('UNLINK', P .. 'due:' .. lane) end
  for _, key in ipairs({'jobs', 'heads', 'lives', 'due', 'suspended', 'finished', 'broken'}) do
    call('UNLINK', P .. key)
  end
  return 'done'
end

function steps.release_job()
  local job_id = ARGV[5]
  if call('SREM', P .. 'suspended', job_id) == 0 then return 0 end
  local state = job_state(job_id)
  if not state then return 0 end
  unschedule(job_id, state)
  state[SUSPENDED], state[DUE] = '', state[NEXT]
  call('HSET', P .. 'heads', job_id, encode(state))
  schedule(job_id, state)
  woken = true
  return 1
end

function steps.prune_jobs()
  local removed = {}
  for index = 5, #ARGV, 2 do
    local job_id = ARGV[index]
    local same = call('HGET', P .. 'heads', job_id) == ARGV[index + 1]
    local has_runs = count_live(job_id) > 0 or call('EXISTS', P .. 'pending:' .. job_id) == 1
    if same and not has_runs and remove_job(job_id) > 0 then
      removed[#removed + 1] = job_id
    end
  end
  return encode(removed)
end
