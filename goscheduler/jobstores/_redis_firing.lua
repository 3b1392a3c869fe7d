-- Jobs, firing and claiming. One script with _redis.lua, which comes before, and _redis_settling.lua.

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

-- Firing: take_due request most reserved_for ageing. What is due is hidden from others until it is planned, or for a while.

function steps.take_due()
  local request = decode(ARGV[5])
  local hidden_until = text(now + tonumber(ARGV[7]))
  local picked = pick('due', request, tonumber(ARGV[6]), tonumber(ARGV[8]))
  local ids = firsts(picked)
  local heads, definitions, lives = values('heads', ids), values('jobs', ids), values('lives', ids)
  local taken, names = {}, {}
  for index, job_id in ipairs(ids) do
    local lane, head = picked[index][2], read_head(heads[index], JOB_HEAD)
    touched.due[lane] = true
    if not head or head[LANE] ~= lane or head[DUE] == '' then
      call('ZREM', P .. 'due:' .. lane, job_id)
      if not head then set_aside(job_id, heads[index]) end
    else
      put('ZADD', 'due:' .. lane, hidden_until, job_id)
      for _, name in ipairs(names_of(head[LIMITS])) do names[name] = true end
      local live, waiting = standing(job_id)
      taken[#taken + 1] = {job_id, heads[index], definitions[index] or '', lives[index] or '', live, waiting}
    end
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, limits = limits, seen = look(request)})
end

-- write_due request limits rates displaced items. An item is [job id, live runs, what becomes of the job, next time, zone,
-- fence, reason, runs that start, runs that wait, records, whether live runs are told to end,
-- what this is based on: stamp, fence and due time]; a run is [id, number of its text, due].

local function move_on(job_id, head, item)
  local fate = item[3]
  put('ZREM', 'due:' .. head[LANE], job_id)
  touched.due[head[LANE]] = true
  if fate == 'gone' then
    put('HDEL', 'heads', job_id)
    put('HDEL', 'jobs', job_id)
    put('HDEL', 'lives', job_id)
    if head[FINISHED] ~= '' then call('ZREM', P .. 'finished', job_id) end
    return
  end
  if fate == 'suspended' then
    head[SUSPENDED], head[DUE] = item[7], ''
    call('SADD', P .. 'suspended', job_id)
  else
    head[DUE], head[NEXT], head[ZONE], head[FENCE], head[FINISHED] = item[4], item[4], item[5], item[6], ''
    if fate == 'finished' then
      head[FINISHED] = text(now)
      call('ZADD', P .. 'finished', head[FINISHED], job_id)
    else
      put('ZADD', 'due:' .. head[LANE], head[DUE], job_id)
    end
  end
  put('HSET', 'heads', job_id, encode(head))
end

local function displace(job_id, reason)
  local states = call('HGETALL', P .. 'of:' .. job_id)
  for index = 1, #states, 2 do
    local head = states[index + 1] == 'L' and run_head(states[index])
    if head and head[CANCEL] == '' then tell_to_end(states[index], head, reason) end
  end
end

local function fire(job_id, head, item, owner, reason)
  if item[11] == 1 then displace(job_id, reason) end
  for _, run in ipairs(item[8]) do
    put('HSET', 'runs', run[1], text_of(run[2]))
    become_live(run[1], {job_id, head[LANE], run[3], owner, item[6], '', '', '', '1', '', head[LIMITS]})
  end
  for _, run in ipairs(item[9]) do
    put('HSET', 'runs', run[1], text_of(run[2]))
    become_pending(run[1], {job_id, head[LANE], run[3], '', '0', '', '', '', '1', '', head[LIMITS]})
  end
  for _, record in ipairs(item[10]) do remember(job_id, record) end
  move_on(job_id, head, item)
end

function steps.write_due()
  local request, reason, items = decode(ARGV[5]), ARGV[8], items_from(9)
  local compared = comparison(decode(ARGV[6]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local heads, refused, started = values('heads', firsts(items)), {}, false
  for index, item in ipairs(items) do
    local job_id, head = item[1], read_head(heads[index], JOB_HEAD)
    local starts = #item[8] > 0
    local base = item[12]
    if not head or head[STAMP] ~= base[1] or head[FENCE] ~= base[2] or head[DUE] ~= base[3] then
      refused[#refused + 1] = job_id
    elseif lapsed or (starts and (standing(job_id) > item[2] or not allows(compared, job_id, head[LIMITS]))) then
      refused[#refused + 1] = job_id
      give_back('due', job_id, head)
    else
      fire(job_id, head, item, request.owner, reason)
      started = started or starts
    end
  end
  if started then call('SADD', P .. 'holders', request.owner) end
  write_rates(compared, decode(ARGV[7]))
  finish()
  return encode({refused = refused, seen = look(request)})
end

-- Claiming, in the same way: take_ready request most reserved_for ageing

function steps.take_ready()
  local request = decode(ARGV[5])
  local hidden_until = text(now + tonumber(ARGV[7]))
  local picked = pick('ready', request, tonumber(ARGV[6]), tonumber(ARGV[8]))
  local ids = firsts(picked)
  local heads, texts = values('run_heads', ids), values('runs', ids)
  local taken, names, live = {}, {}, {}
  for index, run_id in ipairs(ids) do
    local lane, head = picked[index][2], read_head(heads[index], RUN_HEAD)
    touched.ready[lane] = true
    if not head or head[LANE] ~= lane or head[OWNER] ~= '' or head[HELD] ~= '' then
      call('ZREM', P .. 'ready:' .. lane, run_id)
    else
      put('ZADD', 'ready:' .. lane, hidden_until, run_id)
      for _, name in ipairs(names_of(head[R_LIMITS])) do names[name] = true end
      live[head[JOB]] = live[head[JOB]] or standing(head[JOB])
      taken[#taken + 1] = {run_id, heads[index], texts[index] or '', live[head[JOB]]}
    end
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, limits = limits, seen = look(request)})
end

-- write_ready request limits rates items. An item is [run id, live runs of its job, what becomes of it, fence, key or time,
-- what this is based on: fence and due time]; it starts, is held, waits until later, or is put aside because it cannot be read.

local function decide(run_id, head, item, owner)
  local fate = item[3]
  local turn = head[FREED]
  head[FREED] = ''
  put('ZREM', 'ready:' .. head[LANE], run_id)
  touched.ready[head[LANE]] = true
  if fate == 'start' then
    head[OWNER], head[R_FENCE] = owner, item[4]
    become_live(run_id, head)
    return
  end
  if fate == 'hold' then
    hold(run_id, head, item[5])
  elseif fate == 'later' then
    head[DUE] = item[5]
    wait_in_line(run_id, head)
  else
    head[HELD], head[CANCEL] = UNREADABLE, item[5]
  end
  write_head(run_id, head)
  if turn ~= '' and turn ~= head[HELD] then let_try(turn) end
end

function steps.write_ready()
  local request, items = decode(ARGV[5]), items_from(8)
  local compared = comparison(decode(ARGV[6]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local read, heads, refused, started = values('run_heads', firsts(items)), {}, {}, false
  for index, item in ipairs(items) do
    local head = read_head(read[index], RUN_HEAD)
    heads[index] = head
    if head and compared.may_start['job:' .. head[JOB]] == nil then
      local live = standing(head[JOB])
      compared.may_start['job:' .. head[JOB]] = live <= item[2]
      compared.may_hold['job:' .. head[JOB]] = live >= item[2]
    end
  end
  for index, item in ipairs(items) do
    local run_id, head, fate = item[1], heads[index], item[3]
    local ours = head and head[OWNER] == '' and head[HELD] == '' and head[R_FENCE] == item[6][1]
      and head[DUE] == item[6][2]
    local fine = ours and not lapsed
      and (fate ~= 'start' or allows(compared, head[JOB], head[R_LIMITS]))
      and (fate ~= 'hold' or compared.may_hold[item[5]])
    if fine then
      decide(run_id, head, item, request.owner)
      started = started or fate == 'start'
    else
      refused[#refused + 1] = run_id
      if head then distrust(compared, head[JOB], head[R_LIMITS]) end
      if ours then give_back('ready', run_id, head) end
    end
  end
  if started then call('SADD', P .. 'holders', request.owner) end
  write_rates(compared, decode(ARGV[7]))
  finish()
  return encode({refused = refused, seen = look(request)})
end

-- void kind items: what was decided about these, [id, fence], is not to be written any more, should it still come

function steps.void()
  local kind, items = ARGV[5], items_from(6)
  local of_jobs = kind == 'due'
  local name, fence_at = of_jobs and 'heads' or 'run_heads', of_jobs and FENCE or R_FENCE
  local heads = values(name, firsts(items))
  for index, item in ipairs(items) do
    local head = read_head(heads[index], of_jobs and JOB_HEAD or RUN_HEAD)
    if head and head[fence_at] == item[2] and head[DUE] ~= '' and (of_jobs or head[OWNER] .. head[HELD] == '') then
      head[fence_at] = text((tonumber(item[2]) or 0) + 1)
      call('HSET', P .. name, item[1], encode(head))
      give_back(kind, item[1], head)
    end
  end
  woken = true
  finish()
  return 'done'
end

function steps.look()
  return encode(look(decode(ARGV[5])))
end
