-- Firing and claiming. _redis.lua comes before it.

-- Firing: take_due request most reserved_for ageing. If there are others, what is due is hidden from them until it is
-- planned, or for a while. It would be safe without, because whoever writes first wins; but the others would plan in vain.
-- The answer is JSON, then the definitions, each once, then id, head and number of its definition of each job, all with
-- NUL between them.

-- Tell whether a head names a lane and no limits, as most do, without reading it: both stand in it as quoted lists.
local quoted_lanes = {}
local function is_plain(head, lane)
  local quoted = quoted_lanes[lane]
  if not quoted then
    quoted = ',' .. encode(lane) .. ',"'
    quoted_lanes[lane] = quoted
  end
  local _, last = string.find(head, quoted, 1, true)
  return last and not string.find(head, '"[\\"', last, true) and not has_nul(head)
end

local function are_others()
  return call('HLEN', P .. 'owners') > 1
end

local function answer_with(facts, ids, heads)
  local different, numbers, jobs = {''}, {}, {}
  for index, definition in ipairs(values('jobs', ids)) do
    definition = definition and not has_nul(definition) and definition or ''  -- what holds NUL cannot be read either
    if not numbers[definition] then
      numbers[definition] = text(#different - 1)
      different[#different + 1] = definition
    end
    local place = #jobs
    jobs[place + 1], jobs[place + 2], jobs[place + 3] = ids[index], heads[index], numbers[definition]
  end
  facts.definitions = #different - 1
  different[1] = encode(facts)
  return table.concat(different, '\0') .. '\0' .. table.concat(jobs, '\0')
end

function steps.take_due()
  local request = decode(ARGV[5])
  local hidden_until = text(now + tonumber(ARGV[7]))
  local ids, lanes = pick('due', request, tonumber(ARGV[6]), tonumber(ARGV[8]))
  local taken, heads, names, hides = {}, {}, {}, are_others()
  for index, stored in ipairs(values('heads', ids)) do
    local job_id, lane = ids[index], lanes[index]
    local plain = stored and is_plain(stored, lane)
    local head = not plain and read_head(stored, JOB_HEAD)
    if (plain or (head and head[LANE] == lane and head[DUE] ~= '')) and not has_nul(job_id) then
      if hides then
        gather('ZADD', 'due:' .. lane, hidden_until, job_id)
        touched.due[lane] = true
      end
      if head then
        for _, name in ipairs(names_of(head[LIMITS])) do names[name] = true end
      end
      taken[#taken + 1], heads[#heads + 1] = job_id, stored
    else
      call('ZREM', P .. 'due:' .. lane, job_id)
      touched.due[lane] = true
      if not head then set_aside(job_id, stored) end
    end
  end
  local standing_of = {}
  for index, known in pairs(standings(taken)) do standing_of[taken[index]] = known end
  local limits = limits_known(names)
  finish()
  local facts = {limits = limits, standings = standing_of, seen = look(request)}
  return answer_with(facts, taken, heads)
end

-- put_jobs_aside id ...: jobs that were taken and have no head, or none that can fire

function steps.put_jobs_aside()
  for index = 5, #ARGV do
    local job_id = ARGV[index]
    local stored = call('HGET', P .. 'heads', job_id)
    local head = read_head(stored, JOB_HEAD)
    if not head or head[DUE] == '' then
      for _, lane in ipairs(call('ZRANGE', P .. 'due', 0, -1)) do
        call('ZREM', P .. 'due:' .. lane, job_id)
        touched.due[lane] = true
      end
      if stored and not head then set_aside(job_id, stored) end
    end
  end
  return 'done'
end

-- write_due request limits rates displaced groups table... items. Groups are explained below. An item is [job id, live
-- runs, what becomes of the job, next time, zone, fence, reason, runs that start, runs that wait, records, whether live runs
-- are told to end, what this is based on: stamp, fence and due time]; a run is [id, number of its text, due].

local function move_on(job_id, head, item)
  local fate = item[3]
  touched.due[head[LANE]] = true
  if fate ~= 'moved' then call('ZREM', P .. 'due:' .. head[LANE], job_id) end
  if fate == 'gone' then
    call('HDEL', P .. 'heads', job_id)
    call('HDEL', P .. 'jobs', job_id)
    call('HDEL', P .. 'lives', job_id)
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
      gather('ZADD', 'due:' .. head[LANE], head[DUE], job_id)
    end
  end
  gather('HSET', 'heads', job_id, encode(head))
end

local function displace(job_id, reason)
  local states = states_of(job_id)
  for index = 1, #states, 2 do
    local head = states[index + 1] == 'L' and run_head(states[index])
    if head and head[CANCEL] == '' then tell_to_end(states[index], head, reason) end
  end
end

local function fire(job_id, head, item, owner, reason)
  if item[11] == 1 then displace(job_id, reason) end
  for _, run in ipairs(item[8]) do
    gather('HSET', 'runs', run[1], text_of(run[2]))
    become_live(run[1], {job_id, head[LANE], run[3], owner, item[6], '', '', '', '1', '', head[LIMITS]})
  end
  for _, run in ipairs(item[9]) do
    gather('HSET', 'runs', run[1], text_of(run[2]))
    become_pending(run[1], {job_id, head[LANE], run[3], '', '0', '', '', '', '1', '', head[LIMITS]})
  end
  for _, record in ipairs(item[10]) do remember(job_id, record) end
  move_on(job_id, head, item)
end

-- A group is of jobs in one lane and without limits, of which one run each starts and nothing else happens. Its table has
-- the columns job, head that this is based on, run, due time, number of the definition; and, of jobs that go on, new head
-- and next time. Nothing in it is read; what is alike in all its runs comes once, beside it.
local function fire_group(group, request, in_vain, refused)
  local owner = request.owner
  local cells = columns(ARGV[group.table], group.goes_on and 7 or 5)
  local jobs, based_on, runs, dues, numbers, new_heads, next_times = unpack(cells)
  local heads, standing_of, crossed = values('heads', jobs), standings(jobs), {}
  for row, job_id in ipairs(jobs) do
    local changed = heads[row] ~= based_on[row]
    local busy = standing_of[row] and standing_of[row][1] > 0
    if changed or in_vain or busy then
      crossed[row] = true
      refused[#refused + 1] = job_id
      local head = not changed and read_head(heads[row], JOB_HEAD)
      if head then give_back('due', job_id, head) end
    end
  end
  local lane, zone, opening, closing = ',' .. encode(group.lane) .. ',"', ',' .. encode(group.zone), unpack(group.started)
  local ending = '",' .. encode(owner) .. ',"' .. group.fence .. UNTOUCHED
  local run_heads, texts, ours, lone = {}, {}, {}, {}
  for row, run_id in ipairs(runs) do
    if not crossed[row] then
      local job_id, due, place = encode(jobs[row]), dues[row], #texts
      local time = ',' .. due .. zone
      run_heads[place + 1], run_heads[place + 2] = run_id, '[' .. job_id .. lane .. due .. ending
      texts[place + 1] = run_id
      texts[place + 2] = opening .. job_id .. time .. time .. closing .. group.definitions[tonumber(numbers[row])]
      ours[#ours + 1] = run_id
      if standing_of[row] then
        note_state(jobs[row], run_id, 'L')
      else
        lone[#lone + 1] = jobs[row]
        lone[#lone + 1] = run_id
      end
    end
  end
  put_all('SADD', 'owned:' .. owner, ours)
  put_all('HSET', 'runs', texts)
  put_all('HSET', 'run_heads', run_heads)
  put_all('HSET', 'lone', lone)
  if group.goes_on then
    put_all('HSET', 'heads', paired(jobs, new_heads, crossed))
    put_all('ZADD', 'due:' .. group.lane, paired(next_times, jobs, crossed))
  else
    local gone = without(jobs, crossed)
    put_all('ZREM', 'due:' .. group.lane, gone)
    for _, key in ipairs({'heads', 'jobs', 'lives'}) do put_all('HDEL', key, gone) end
  end
  touched.due[group.lane] = true
  return #ours > 0
end

function steps.write_due()
  local request, reason, groups = decode(ARGV[5]), ARGV[8], decode(ARGV[9])
  local items = items_from(10 + #groups)
  local compared = comparison(decode(ARGV[6]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local refused, started = {}, false
  for index, group in ipairs(groups) do
    group.table = 9 + index
    started = fire_group(group, request, lapsed, refused) or started
  end
  local heads = values('heads', firsts(items))
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
  return answer_with({refused = refused, seen = look(request)}, {}, {})
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
