-- Firing and claiming. common.lua comes before it.

-- Firing: take_due request most reserved_for ageing. If there are others, what is due is hidden from them until it is
-- planned, or for a while. It would be safe without, because whoever writes first wins; but the others would plan in vain.
-- The answer has [id, head, number of its definition, live runs, waiting runs] of each job, and each definition once.

local function are_others()
  return call('HLEN', P .. 'owners') > 1
end

function steps.take_due()
  local request = decode(ARGV[5])
  local hidden_until = text(now + tonumber(ARGV[7]))
  local ids, lanes = pick('due', request, tonumber(ARGV[6]), tonumber(ARGV[8]))
  local heads, stored, definitions, numbers = values('heads', ids), values('jobs', ids), {}, {}
  local taken, names, hides, runs_of = {}, {}, are_others(), standings(ids)
  for index, job_id in ipairs(ids) do
    local lane, head = lanes[index], read_head(heads[index], JOB_HEAD)
    if head and head[LANE] == lane and head[DUE] ~= '' then
      if hides then gather('ZADD', 'due:' .. lane, hidden_until, job_id) end
      for _, name in ipairs(names_of(head[LIMITS])) do names[name] = true end
      local definition = stored[index] or ''
      if not numbers[definition] then
        numbers[definition] = #definitions
        definitions[#definitions + 1] = definition
      end
      taken[#taken + 1] = {job_id, head, numbers[definition], runs_of(job_id)}
    else
      call('ZREM', P .. 'due:' .. lane, job_id)
      if not head then set_aside(job_id, heads[index]) end
    end
    touched.due[lane] = true
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, definitions = definitions, limits = limits, seen = look(request)})
end

-- write_due request limits rates reason items. An item is [job id; stamp, fence, due time and number of live runs that this
-- is based on; what becomes of the job, next time, zone, fence, reason; runs that start] and, if there is any of it, [runs
-- that wait, records, whether live runs get a cancel request]. Of each run there is, in turn, id, text without the definition
-- of its job, due time.

local function move_on(job_id, head, item)
  local fate = item[6]
  touched.due[head[LANE]] = true
  if fate ~= 'moved' then gather('ZREM', 'due:' .. head[LANE], job_id) end
  if fate == 'gone' then
    for _, key in ipairs({'heads', 'jobs', 'lives'}) do gather('HDEL', key, job_id) end
    if head[FINISHED] ~= '' then call('ZREM', P .. 'finished', job_id) end
    return
  end
  if fate == 'suspended' then
    head[SUSPENDED], head[DUE] = item[10], ''
    call('SADD', P .. 'suspended', job_id)
  else
    head[DUE], head[NEXT], head[ZONE], head[FENCE], head[FINISHED] = item[7], item[7], item[8], item[9], ''
    if fate == 'finished' then
      head[FINISHED] = text(now)
      call('ZADD', P .. 'finished', head[FINISHED], job_id)
    else
      gather('ZADD', 'due:' .. head[LANE], head[DUE], job_id)
    end
  end
  gather('HSET', 'heads', job_id, encode(head))
end

local function cancel_live_runs(job_id, reason)
  local states = call('HGETALL', P .. 'of:' .. job_id)
  for index = 1, #states, 2 do
    local head = states[index + 1] == 'L' and run_head(states[index])
    if head and head[CANCEL] == '' then tell_to_end(states[index], head, reason) end
  end
end

local function fire(job_id, head, item, definition, owner, reason)
  local starting, waiting = item[11], item[12] or {}
  if item[14] then cancel_live_runs(job_id, reason) end
  for index = 1, #starting, 3 do
    local run_id = starting[index]
    gather('HSET', 'runs', run_id, starting[index + 1] .. definition)
    become_live(run_id, {job_id, head[LANE], starting[index + 2], owner, item[9], '', '', '', '1', '', head[LIMITS]})
  end
  for index = 1, #waiting, 3 do
    local run_id = waiting[index]
    gather('HSET', 'runs', run_id, waiting[index + 1] .. definition)
    become_pending(run_id, {job_id, head[LANE], waiting[index + 2], '', '0', '', '', '', '1', '', head[LIMITS]})
  end
  for _, record in ipairs(item[13] or {}) do remember(job_id, record) end
  move_on(job_id, head, item)
end

function steps.write_due()
  local request, reason, items = decode(ARGV[5]), ARGV[8], decode(ARGV[9])
  local compared = comparison(decode(ARGV[6]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local refused, started, ids = {}, false, firsts(items)
  local heads, definitions, runs_of = values('heads', ids), values('jobs', ids), standings(ids)
  for index, item in ipairs(items) do
    local job_id, head = item[1], read_head(heads[index], JOB_HEAD)
    local starts = #item[11] > 0
    if not head or head[STAMP] ~= item[2] or head[FENCE] ~= item[3] or head[DUE] ~= item[4] then
      refused[#refused + 1] = job_id
    elseif lapsed or (starts and (runs_of(job_id) > item[5] or not allows(compared, job_id, head[LIMITS]))) then
      refused[#refused + 1] = job_id
      give_back('due', job_id, head)
    else
      fire(job_id, head, item, definitions[index] or '', request.owner, reason)
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
  local ids, lanes = pick('ready', request, tonumber(ARGV[6]), tonumber(ARGV[8]))
  local heads, texts = values('run_heads', ids), values('runs', ids)
  local taken, names, live, hides = {}, {}, {}, are_others()
  for index, run_id in ipairs(ids) do
    local lane, head = lanes[index], read_head(heads[index], RUN_HEAD)
    if not head or head[LANE] ~= lane or head[OWNER] ~= '' or head[HELD] ~= '' then
      call('ZREM', P .. 'ready:' .. lane, run_id)
      touched.ready[lane] = true
    else
      if hides then
        gather('ZADD', 'ready:' .. lane, hidden_until, run_id)
        touched.ready[lane] = true
      end
      for _, name in ipairs(names_of(head[R_LIMITS])) do names[name] = true end
      live[head[JOB]] = live[head[JOB]] or standing(head[JOB])
      taken[#taken + 1] = {run_id, head, texts[index] or '', live[head[JOB]]}
    end
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, definitions = {}, limits = limits, seen = look(request)})
end

-- write_ready request limits rates items. An item is [run id, live runs of its job, what becomes of it, fence, key or time,
-- what this is based on: fence and due time]; it starts, is held, waits until later, or is put aside because it cannot be read.

local function decide(run_id, head, item, owner)
  local fate = item[3]
  local turn = head[FREED]
  head[FREED] = ''
  touched.ready[head[LANE]] = true
  if fate ~= 'later' then call('ZREM', P .. 'ready:' .. head[LANE], run_id) end
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
  local request, items = decode(ARGV[5]), decode(ARGV[8])
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
