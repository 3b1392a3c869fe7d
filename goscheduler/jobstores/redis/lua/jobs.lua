-- Jobs: added, changed, removed.
--
--   put_job how id state definition stats facts expected     how is add, replace or edit; answers done, taken, missing or
--                                                      changed
--   edit_jobs rows                                     the same for [id, state, definition, facts, expected] of each; words
--   find_taken ids                                     the first id that a job has, or an empty string
--   add_jobs jobs                                      adds all jobs, or none: then answers the first id that is taken
--   undo_add_jobs stamp ids                            removes the jobs whose stamps begin so
--   remove_jobs id ...                                 ids of those that were there
--   clear_jobs
--   release_job id                                     1 if the job was suspended
--   prune_jobs (id state) ...                          removes jobs that have these states still and have no runs; their ids
--
--   take_inbox rows most                               moves entries of the inbox: [entry, reason] to those that were refused,
--                                                      [entry, reason, id, state, definition, stats, facts] to the jobs, if
--                                                      the id is free; answers done, refused, or gone if the entry is
--   index_jobs (id facts)...                           gives facts and labels to jobs of an earlier goscheduler
--
-- jobs are lists in the order of the commands' arguments: ids, states, definitions, stats, facts (without their first line,
-- by that), due (by lane), suspended, finished, idle (by list).

local function put_job(how, job_id, state, definition, stats, facts, expected)
  local stored = call('HGET', P .. 'heads', job_id)
  if how == 'add' then
    if stored then return 'taken' end
    if stats ~= '' then
      call('HSET', P .. 'lives', job_id, stats)
      change_outcome(job_id, '', outcome_of(stats))
    end
  else
    if not stored then return 'missing' end
    if how == 'edit' and stored ~= expected then return 'changed' end
    local old = read_state(stored, JOB_STATE)
    if old then
      unschedule(job_id, old)
      state[FENCE] = old[FENCE]
    end
  end
  call('HSET', P .. 'jobs', job_id, definition)
  call('HSET', P .. 'heads', job_id, encode(state))
  put_facts(job_id, facts)
  schedule(job_id, state)
  woken = true
  return 'done'
end

function steps.put_job()
  return put_job(ARGV[5], ARGV[6], decode(ARGV[7]), unpack(ARGV, 8, 11))
end

function steps.edit_jobs()
  local words = {}
  for index, row in ipairs(decode(ARGV[5])) do
    words[index] = put_job('edit', row[1], decode(row[2]), row[3], '', row[4], row[5])
  end
  return encode(words)
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
  for index = 1, #jobs.stats, 2 do change_outcome(jobs.stats[index], '', outcome_of(jobs.stats[index + 1])) end
  for lane, due in pairs(jobs.due) do
    put_all('ZADD', 'due:' .. lane, due)
    touched.due[lane] = true
  end
  put_all('SADD', 'suspended', jobs.suspended)
  put_all('ZADD', 'finished', jobs.finished)
  for list, ids in pairs(jobs.idle) do
    put_all('ZADD', list, ids)
    touched_lists[list] = 'idle'
  end
  for line, facts in pairs(jobs.facts) do
    local ids = {}
    for index = 1, #facts, 2 do
      ids[index], ids[index + 1] = '0', facts[index]
      facts[index + 1] = line .. '\n' .. facts[index + 1]
    end
    put_all('HSET', 'facts', facts)
    for _, label in ipairs(labels_of(line)) do
      put_all('ZADD', label, ids)
      touched_lists[label] = names_of_labels(label)
    end
  end
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
  local removed = {}
  for index = 5, #ARGV do
    if remove_job(ARGV[index]) > 0 then removed[#removed + 1] = ARGV[index] end
  end
  return #removed > 0 and encode(removed) or '[]'
end

function steps.clear_jobs()
  for _, lane in ipairs(call('ZRANGE', P .. 'due', 0, -1)) do call('UNLINK', P .. 'due:' .. lane) end
  for _, names in ipairs({'kinds', 'labels', 'idle'}) do
    for _, list in ipairs(call('SMEMBERS', P .. names)) do call('UNLINK', P .. list) end
    call('UNLINK', P .. names)
  end
  for _, key in ipairs({'jobs', 'heads', 'lives', 'facts', 'due', 'suspended', 'finished', 'broken'}) do
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

function steps.index_jobs()
  for index = 5, #ARGV, 2 do
    local job_id, state = ARGV[index], job_state(ARGV[index])
    if state and state[DUE] == '' then change_idle('ZADD', job_id, state) end
    if state and call('HEXISTS', P .. 'facts', job_id) == 0 then
      put_facts(job_id, ARGV[index + 1])
      change_outcome(job_id, '', outcome_of(call('HGET', P .. 'lives', job_id)))
    end
  end
  return 'done'
end

local function refuse(entry, reason, most)
  local fields = {'entry', entry[1], 'reason', reason}
  for _, value in ipairs(entry[2]) do fields[#fields + 1] = value end
  call('XADD', P .. 'inbox:refused', 'MAXLEN', '~', most, '*', unpack(fields))
end

local function take_entry(row, most)
  local entry = call('XRANGE', P .. 'inbox', row[1], row[1])[1]
  if not entry then return 'gone' end
  call('XDEL', P .. 'inbox', row[1])
  if row[3] and put_job('add', row[3], decode(row[4]), unpack(row, 5)) == 'done' then return 'done' end
  refuse(entry, row[2], most)
  return 'refused'
end

function steps.take_inbox()
  local words = {}
  for index, row in ipairs(decode(ARGV[5])) do words[index] = take_entry(row, ARGV[6]) end
  return encode(words)
end
