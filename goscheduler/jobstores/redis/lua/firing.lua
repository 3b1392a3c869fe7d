-- Firing and claiming: take what is due, let the client decide, write the decisions.
--
--   take_due request most hidden_us priority_step_us      takes due jobs; answers taken, definitions, limits, work
--   write_due request limits rates reason items runs      fires them; answers refused (ids), work
--   take_ready request most hidden_us priority_step_us    takes pending runs; answers taken, limits, work
--   write_ready request limits rates items                claims them; answers refused (ids), work
--
-- request has owner, room (executor → how many), executors (in their order) and tasks. limits are as limits_known() returns
-- them, and come back with the write. work is what peek() returns.
--
-- taken has the fields of the state of each job, then [id, number of the definition, live runs, waiting runs]; or [id, state,
-- text, live runs of its job] of each run. While there are other owners, they do not see what was taken for hidden_us.
-- Without that, the first writer would still win; the others would plan in vain.
--
-- An item of write_due is [job id; stamp, fence, due time and number of live runs that the decision is based on; fence of the
-- runs; how many runs start, and how many wait; fate of the job: moved, gone, finished, waits or suspended] and, unless the job is
-- gone and nothing else happens, [next time, zone, reason, records, whether live runs get a cancel request, key on which the
-- pending runs are blocked or null, time until which they are put off]. The runs of all items are one text, with NUL between
-- its parts; each run has three: id, text without the definition of its job, due time.
--
-- An item of write_ready is [run id, live runs of its job, fate: start, hold, later or aside; fence; key, time or reason;
-- [fence, due time] that the decision is based on].

local function are_others()
  return call('HLEN', P .. 'owners') > 1
end

function steps.take_due()
  local request = decode(ARGV[5])
  local hidden_until = text(now + tonumber(ARGV[7]))
  local ids, lanes = pick('due', request, tonumber(ARGV[6]), tonumber(ARGV[8]))
  local states, stored, definitions, numbers = values('heads', ids), values('jobs', ids), {}, {}
  local taken, names, hides, pending = {}, {}, are_others(), any_pending(ids)
  load_live_runs(ids)
  for index, job_id in ipairs(ids) do
    local lane, state = lanes[index], read_state(states[index], JOB_STATE)
    if state and state[LANE] == lane and state[DUE] ~= '' then
      if hides then gather('ZADD', 'due:' .. lane, hidden_until, job_id) end
      if state[LIMITS] ~= '' then
        for _, name in ipairs(names_of(state[LIMITS])) do names[name] = true end
      end
      local definition = stored[index] or ''
      if not numbers[definition] then
        numbers[definition] = #definitions
        definitions[#definitions + 1] = definition
      end
      state[JOB_STATE + 1], state[JOB_STATE + 2] = job_id, numbers[definition]
      state[JOB_STATE + 3], state[JOB_STATE + 4] = count_live(job_id), pending and count_waiting(job_id) or 0
      taken[#taken + 1] = state
    else
      call('ZREM', P .. 'due:' .. lane, job_id)
      if not state then set_aside(job_id, states[index]) end
    end
    touched.due[lane] = true
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, definitions = definitions, limits = limits, work = peek(request)})
end

-- Ids of the jobs that this step removes.
local gone = {}

local function move_on(job_id, state, item)
  local fate = item[9]
  touched.due[state[LANE]] = true
  if fate ~= 'moved' then gather('ZREM', 'due:' .. state[LANE], job_id) end
  if fate == 'gone' then
    if state[FINISHED] ~= '' then call('ZREM', P .. 'finished', job_id) end
    gone[#gone + 1] = job_id
    return
  end
  if fate == 'suspended' then
    state[SUSPENDED], state[DUE] = item[12], ''
    call('SADD', P .. 'suspended', job_id)
  else
    state[DUE], state[NEXT], state[ZONE], state[FENCE], state[FINISHED] = item[10], item[10], item[11], item[6], ''
    if fate == 'finished' then
      state[FINISHED] = text(now)
      call('ZADD', P .. 'finished', state[FINISHED], job_id)
    elseif fate == 'moved' then
      gather('ZADD', 'due:' .. state[LANE], state[DUE], job_id)
    end
  end
  if fate ~= 'moved' then change_idle('ZADD', job_id, state) end
  gather('HSET', 'heads', job_id, encode(state))
end

local function cancel_live_runs(job_id, reason)
  for run_id in string.gmatch(live_runs_of(job_id), '%Z+') do
    local state = run_state(run_id)
    if state and state[CANCEL] == '' then request_cancel(run_id, state, reason) end
  end
end

-- Write a pending run of a job that fires; blocked at once, where that may be.
local function leave_pending(run_id, state, key, until_time, may_block)
  if until_time and until_time ~= '' and tonumber(until_time) > tonumber(state[DUE]) then state[DUE] = until_time end
  if not may_block[key] then
    become_pending(run_id, state)
    return
  end
  call('HSET', P .. 'pending:' .. state[JOB], run_id, 'W')
  block(run_id, state, key)
  write_state(run_id, state)
end

-- Fire a job. Its runs begin at this place of the list.
local function fire(job_id, state, item, runs, place, definition, owner, reason, may_block)
  if item[14] then cancel_live_runs(job_id, reason) end
  for number = 1, item[7] + item[8] do
    local run_id, due = runs[place], runs[place + 2]
    gather('HSET', 'runs', run_id, runs[place + 1] .. definition)
    if number <= item[7] then
      become_live(run_id, {job_id, state[LANE], due, owner, item[6], '', '', '', '1', '', state[LIMITS]})
    else
      local pending = {job_id, state[LANE], due, '', '0', '', '', '', '1', '', state[LIMITS]}
      leave_pending(run_id, pending, item[15], item[16], may_block)
    end
    place = place + 3
  end
  if item[13] then
    for _, record in ipairs(item[13]) do add_record(job_id, record) end
  end
  move_on(job_id, state, item)
end

function steps.write_due()
  local request, reason, items, runs = decode(ARGV[5]), ARGV[8], decode(ARGV[9]), parts_of(ARGV[10])
  local compared = comparison(decode(ARGV[6]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local refused, started, ids, place = {}, false, firsts(items), 1
  local states, definitions = values('heads', ids), values('jobs', ids)
  load_live_runs(ids)
  for index, item in ipairs(items) do
    local job_id, state = item[1], read_state(states[index], JOB_STATE)
    local starts, before = item[7] > 0, #refused
    if not state or state[STAMP] ~= item[2] or state[FENCE] ~= item[3] or state[DUE] ~= item[4] then
      refused[#refused + 1] = job_id
    elseif lapsed or (starts and (count_live(job_id) > item[5] or not allows(compared, state[LIMITS]))) then
      refused[#refused + 1] = job_id
      give_back('due', job_id, state)
    else
      fire(job_id, state, item, runs, place, definitions[index] or '', request.owner, reason, compared.may_block)
      started = started or starts
    end
    if starts and #refused > before then compared.may_block = {} end  -- what follows may wait for a run that does not start
    place = place + 3 * (item[7] + item[8])
  end
  if started then call('SADD', P .. 'holders', request.owner) end
  if #gone > 0 then
    put_all('HDEL', 'heads', gone)
    put_all('HDEL', 'jobs', gone)
    forget_jobs(gone)
  end
  write_rates(compared, decode(ARGV[7]))
  finish()
  return encode({refused = refused, work = peek(request)})
end

function steps.take_ready()
  local request = decode(ARGV[5])
  local hidden_until = text(now + tonumber(ARGV[7]))
  local ids, lanes = pick('ready', request, tonumber(ARGV[6]), tonumber(ARGV[8]))
  local states, texts = values('run_heads', ids), values('runs', ids)
  local taken, names, live, hides = {}, {}, {}, are_others()
  for index, run_id in ipairs(ids) do
    local lane, state = lanes[index], read_state(states[index], RUN_STATE)
    if not state or state[LANE] ~= lane or state[OWNER] ~= '' or state[BLOCKED_ON] ~= '' then
      call('ZREM', P .. 'ready:' .. lane, run_id)
      touched.ready[lane] = true
    else
      if hides then
        gather('ZADD', 'ready:' .. lane, hidden_until, run_id)
        touched.ready[lane] = true
      end
      for _, name in ipairs(names_of(state[R_LIMITS])) do names[name] = true end
      live[state[JOB]] = live[state[JOB]] or count_live(state[JOB])
      taken[#taken + 1] = {run_id, state, texts[index] or '', live[state[JOB]]}
    end
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, definitions = {}, limits = limits, work = peek(request)})
end

local function decide(run_id, state, item, owner)
  local fate = item[3]
  local turn = state[UNBLOCKED_BY]
  state[UNBLOCKED_BY] = ''
  touched.ready[state[LANE]] = true
  if fate ~= 'later' then call('ZREM', P .. 'ready:' .. state[LANE], run_id) end
  if fate == 'start' then
    state[OWNER], state[R_FENCE] = owner, item[4]
    call('HDEL', P .. 'pending:' .. state[JOB], run_id)
    become_live(run_id, state)
    return
  end
  if fate == 'hold' then
    block(run_id, state, item[5])
  elseif fate == 'later' then
    state[DUE] = item[5]
    wait_in_line(run_id, state)
  else
    state[BLOCKED_ON], state[CANCEL] = UNREADABLE, item[5]
  end
  write_state(run_id, state)
  if turn ~= '' and turn ~= state[BLOCKED_ON] then unblock_next(turn) end
end

function steps.write_ready()
  local request, items = decode(ARGV[5]), decode(ARGV[8])
  local compared = comparison(decode(ARGV[6]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local read, states, refused, started = values('run_heads', firsts(items)), {}, {}, false
  for index, item in ipairs(items) do
    local state = read_state(read[index], RUN_STATE)
    states[index] = state
    if state and compared.may_start['job:' .. state[JOB]] == nil then
      local live = count_live(state[JOB])
      compared.may_start['job:' .. state[JOB]] = live <= item[2]
      compared.may_block['job:' .. state[JOB]] = live >= item[2]
    end
  end
  for index, item in ipairs(items) do
    local run_id, state, fate = item[1], states[index], item[3]
    local ours = state and state[OWNER] == '' and state[BLOCKED_ON] == '' and state[R_FENCE] == item[6][1]
      and state[DUE] == item[6][2]
    local fine = ours and not lapsed
      and (fate ~= 'start' or (compared.may_start['job:' .. state[JOB]] and allows(compared, state[R_LIMITS])))
      and (fate ~= 'hold' or compared.may_block[item[5]])
    if fine then
      decide(run_id, state, item, request.owner)
      started = started or fate == 'start'
    else
      refused[#refused + 1] = run_id
      if state then distrust(compared, state[JOB], state[R_LIMITS]) end
      if ours then give_back('ready', run_id, state) end
    end
  end
  if started then call('SADD', P .. 'holders', request.owner) end
  write_rates(compared, decode(ARGV[7]))
  finish()
  return encode({refused = refused, work = peek(request)})
end
