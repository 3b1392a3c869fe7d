-- Jobs: added, changed, removed. _redis.lua comes before it.

-- Jobs: put_job how id head definition life expected

function steps.put_job()
  local how, job_id, definition, life = ARGV[5], ARGV[6], ARGV[8], ARGV[9]
  local head = decode(ARGV[7])
  local stored = call('HGET', P .. 'heads', job_id)
  if how == 'add' then
    if stored then return 'taken' end
    if life ~= '' then call('HSET', P .. 'lives', job_id, life) end
  else
    if not stored then return 'missing' end
    if how == 'edit' and stored ~= ARGV[10] then return 'changed' end
    local old = read_head(stored, JOB_HEAD)
    if old then
      strike(job_id, old)
      head[FENCE] = old[FENCE]
    end
  end
  call('HSET', P .. 'jobs', job_id, definition)
  call('HSET', P .. 'heads', job_id, encode(head))
  enlist(job_id, head)
  woken = true
  return 'done'
end

-- find_taken ids: the first of them that a job has

local function first_taken(ids)
  local stored = values('heads', ids)
  for index, job_id in ipairs(ids) do
    if stored[index] then return job_id end
  end
end

function steps.find_taken()
  return first_taken(decode(ARGV[5])) or ''
end

-- add_jobs jobs: all of them, or none and the first id that is taken. They come as lists that the commands take: heads,
-- definitions, lives, lanes with their due times, ids of suspended ones, times at which some have finished.

function steps.add_jobs()
  local jobs = decode(ARGV[5])
  local taken = first_taken(jobs.ids)
  if taken then return taken end
  put_all('HSET', 'heads', jobs.heads)
  put_all('HSET', 'jobs', jobs.definitions)
  put_all('HSET', 'lives', jobs.lives)
  for lane, due in pairs(jobs.due) do
    put_all('ZADD', 'due:' .. lane, due)
    touched.due[lane] = true
  end
  put_all('SADD', 'suspended', jobs.suspended)
  put_all('ZADD', 'finished', jobs.finished)
  woken = true
  return ''
end

-- take_back_jobs stamp ids: remove those of the jobs whose heads begin with a stamp

function steps.take_back_jobs()
  local beginning = '["' .. ARGV[5]
  local ids = decode(ARGV[6])
  for index, head in ipairs(values('heads', ids)) do
    if head and string.sub(head, 1, #beginning) == beginning then remove_job(ids[index]) end
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
  local head = job_head(job_id)
  if not head then return 0 end
  strike(job_id, head)
  head[SUSPENDED], head[DUE] = '', head[NEXT]
  call('HSET', P .. 'heads', job_id, encode(head))
  enlist(job_id, head)
  woken = true
  return 1
end

-- Jobs that are over, if nothing has changed: id and head of each

function steps.prune_jobs()
  local removed = {}
  for index = 5, #ARGV, 2 do
    local job_id = ARGV[index]
    local same = call('HGET', P .. 'heads', job_id) == ARGV[index + 1]
    if same and call('EXISTS', P .. 'of:' .. job_id) == 0 and remove_job(job_id) > 0 then
      removed[#removed + 1] = job_id
    end
  end
  return encode(removed)
end
