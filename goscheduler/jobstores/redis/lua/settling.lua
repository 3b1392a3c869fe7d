-- The ends of runs, single runs, owners, history and dead letters.
--
--   settle owners items texts           writes how runs ended, and forgets lapsed owners; places of the items that were refused
--   add_run id job text lane due fence firing limits must_exist      done, or gone if the job is
--   cancel_run id state reason record   ends a pending run, or asks the owner of a live one to; done or changed
--   withdraw_cancel_requests owner (id reason)...    ids of the runs whose reason was still this one
--   put_aside reason id ...             live runs that cannot be read
--   discard job revoke                  deletes the pending runs of one job or of all; if revoke is 1, nothing follows live ones
--   runs kind job                       [id, state] of runs that are live or pending
--   limit_usage                         now, and live runs, blocked runs and latest starts by limit
--   to_cancel owner                     [id, state, text] of its runs that have a cancel request
--   adopt schema                        makes this the stored version: done, newer, or in use by living owners of an older one
--   renew owner lease information report      1, or 0 if its runs were recovered
--   retire owner                        its live runs become pending
--   owners                              now, and owner → [end of lease, information, report]
--   lost                                [owner, information, [run id, state, text]...] of owners whose lease has lapsed
--   prune items                         forgets records: [place, job id or nothing, end in 20 digits]
--   take_dead id letter arguments of add_run...    removes a dead letter, and adds the run that follows
--
-- An item of settle is a record, see add_record(), whose text stands in texts, with NUL between them; then follow-up and dead
-- letter, false where there is none, then the change of the statistics, if there is one: runs to add, last run, error and
-- outcome. A follow-up is [text, lane, due, 1 for a fire time, limits], a dead letter [run, reason].

local function follow(run_id, job_id, fence, next)
  gather('HSET', 'runs', run_id, next[1])
  become_pending(run_id, {job_id, next[2], next[3], '', fence, '', '', '', next[4], '', next[5]})
end

local function write_dead_letter(record, dead)
  local old = call('HGET', P .. 'dead', record[1])
  if old then call('ZREM', P .. 'dead:times', place_of(record[1], unpack(decode(old), 1, 2))) end
  call('HSET', P .. 'dead', record[1], encode({record[2], record[4], dead[1], record[6], dead[2]}))
  call('ZADD', P .. 'dead:times', record[3], place_of(record[1], record[2], record[4]))
end

local function settle(state, item, has_job)
  local run_id, job_id, next, dead = item[1], state[JOB], item[7], item[8]
  release_run(run_id, state)
  delete_run(run_id)
  if next and state[REVOKED] == '' and state[CANCEL] == '' then follow(run_id, job_id, item[2], next) end
  add_record(job_id, item)
  if dead then write_dead_letter(item, dead) end
  if has_job and item[9] and state[REVOKED] == '' then
    update_stats(job_id, item[5] == 1 and item[3] or '', unpack(item, 9))
  end
  unblock_others(state)
end

local function forget_owner(owner)
  call('HDEL', P .. 'owners', owner)
  call('SREM', P .. 'holders', owner)
  call('DEL', P .. 'owned:' .. owner, P .. 'ending:' .. owner)
end

function steps.settle()
  local items, texts, states, jobs, refused = decode(ARGV[6]), parts_of(ARGV[7]), {}, {}, {}
  for index, state in ipairs(values('run_heads', firsts(items))) do
    states[index] = read_state(state, RUN_STATE) or false
    jobs[index] = states[index] and states[index][JOB] or ''
  end
  local known, ended = values('heads', jobs), {}
  load_live_runs(jobs)
  for index, item in ipairs(items) do
    local state = not ended[item[1]] and states[index]
    if state and state[OWNER] ~= '' and state[R_FENCE] == item[2] then
      ended[item[1]] = true
      item[6] = texts[index]
      settle(state, item, known[index])
    else
      refused[#refused + 1] = index - 1
    end
  end
  finish()
  for _, owner in ipairs(decode(ARGV[5])) do
    if call('EXISTS', P .. 'owned:' .. owner) == 0 then forget_owner(owner) end
  end
  return #refused > 0 and encode(refused) or '[]'
end

function steps.add_run()
  local run_id = ARGV[5]
  if ARGV[13] == '1' and call('HEXISTS', P .. 'jobs', ARGV[6]) == 0 then return 'gone' end
  if call('HEXISTS', P .. 'run_heads', run_id) == 1 then return 'done' end
  call('HSET', P .. 'runs', run_id, ARGV[7])
  become_pending(run_id, {ARGV[6], ARGV[8], ARGV[9], '', ARGV[10], '', '', '', ARGV[11], '', ARGV[12]})
  finish()
  return 'done'
end

function steps.cancel_run()
  local run_id = ARGV[5]
  local stored = call('HGET', P .. 'run_heads', run_id)
  if stored ~= ARGV[6] then return 'changed' end
  local state = read_state(stored, RUN_STATE)
  if state[OWNER] ~= '' then
    request_cancel(run_id, state, ARGV[7])
  else
    discard_pending(run_id, state)
    local record = decode(ARGV[8])
    while call('HEXISTS', P .. 'records', place_of(record[1], record[2], record[4])) == 1 do
      record[2] = record[2] .. '.'  -- this run was cancelled before with the same fence and end
    end
    add_record(state[JOB], record)
  end
  finish()
  return 'done'
end

function steps.withdraw_cancel_requests()
  local taken = {}
  for index = 6, #ARGV, 2 do
    local run_id, state = ARGV[index], run_state(ARGV[index])
    if state and state[OWNER] == ARGV[5] and state[CANCEL] == ARGV[index + 1] then
      state[CANCEL] = ''
      write_state(run_id, state)
      call('SREM', P .. 'ending:' .. state[OWNER], run_id)
      taken[#taken + 1] = run_id
    end
  end
  return #taken > 0 and encode(taken) or '[]'
end

function steps.put_aside()
  for index = 6, #ARGV do
    local state = run_state(ARGV[index])
    if state and state[OWNER] ~= '' then
      release_run(ARGV[index], state)
      state[OWNER], state[BLOCKED_ON], state[CANCEL] = '', UNREADABLE, ARGV[5]
      call('HSET', P .. 'pending:' .. state[JOB], ARGV[index], 'P')
      write_state(ARGV[index], state)
      unblock_others(state)
    end
  end
  finish()
  return 'done'
end

local function ids_of(job_id)
  if job_id == '' then return call('HKEYS', P .. 'run_heads') end
  local ids = call('HKEYS', P .. 'pending:' .. job_id)
  for run_id in string.gmatch(live_runs_of(job_id), '%Z+') do ids[#ids + 1] = run_id end
  return ids
end

function steps.discard()
  local gone = 0
  for _, run_id in ipairs(ids_of(ARGV[5])) do
    local state = run_state(run_id)  -- read one by one: each that goes may let another one try
    if state and state[OWNER] == '' then
      discard_pending(run_id, state)
      gone = gone + 1
    elseif state and ARGV[6] == '1' then
      state[REVOKED] = '1'
      write_state(run_id, state)
    end
  end
  finish()
  return gone
end

function steps.runs()
  local wanted, job_id, ids = ARGV[5], ARGV[6], {}
  if job_id == '' and wanted == 'live' then
    for _, owner in ipairs(call('SMEMBERS', P .. 'holders')) do
      for _, run_id in ipairs(call('SMEMBERS', P .. 'owned:' .. owner)) do ids[#ids + 1] = run_id end
    end
  else
    ids = ids_of(job_id)
  end
  local found, states = {}, values('run_heads', ids)
  for index, run_id in ipairs(ids) do
    local state = read_state(states[index], RUN_STATE)
    if state and (state[OWNER] ~= '') == (wanted == 'live') then found[#found + 1] = {run_id, states[index]} end
  end
  return encode(found)
end

function steps.limit_usage()
  local live, waiting = {}, {}
  for _, owner in ipairs(call('SMEMBERS', P .. 'holders')) do
    for _, state in ipairs(values('run_heads', call('SMEMBERS', P .. 'owned:' .. owner))) do
      state = read_state(state, RUN_STATE)
      for _, name in ipairs(state and names_of(state[R_LIMITS]) or {}) do
        live[name] = live[name] or call('SCARD', P .. 'under:' .. name)
      end
    end
  end
  for _, key in ipairs(call('SMEMBERS', P .. 'held')) do
    local name = string.match(key, '^limit:(.*)$')
    for _, lane in ipairs(name and call('SMEMBERS', P .. 'held:' .. key) or {}) do
      waiting[name] = (waiting[name] or 0) + call('ZCARD', P .. 'holds:' .. lane .. key)
    end
  end
  return encode({now = text(now), live = live, waiting = waiting, rates = call('HGETALL', P .. 'rates')})
end

function steps.to_cancel()
  local ids = call('SMEMBERS', P .. 'ending:' .. ARGV[5])
  local found, states, texts = {}, values('run_heads', ids), values('runs', ids)
  for index, run_id in ipairs(ids) do
    if states[index] then found[#found + 1] = {run_id, states[index], texts[index] or ''} end
  end
  return encode(found)
end

local function list_with_job(run_id, state)
  call('DEL', P .. 'of:' .. state[JOB])
  if state[OWNER] ~= '' then
    add_live(state[JOB], run_id)
  else
    call('HSET', P .. 'pending:' .. state[JOB], run_id, state[FIRING] == '1' and 'W' or 'P')
  end
end

-- Versions 1 and 2 kept the runs of a job in of:<job id>; version 2 kept the only run of a job in lone instead.
local function rewrite_runs()
  local stored_states = call('HGETALL', P .. 'run_heads')
  for index = 1, #stored_states, 2 do
    local run_id, state = stored_states[index], read_state(stored_states[index + 1], RUN_STATE)
    if state then list_with_job(run_id, state) end
  end
  call('DEL', P .. 'lone', P .. 'several', P .. 'edition')
  finish()
end

function steps.adopt()
  local ours, stored = tonumber(ARGV[5]), tonumber(call('HGET', P .. 'meta', 'schema') or ARGV[5])
  if stored > ours then return 'newer' end
  if stored < ours then
    for _, owner_info in ipairs(call('HVALS', P .. 'owners')) do
      local fine, value = pcall(decode, owner_info)
      if fine and tonumber(value[1]) > now then return 'in use' end
    end
    if stored < 3 then rewrite_runs() end
    call('HSET', P .. 'meta', 'unindexed', 1)  -- until every job of version 3 has facts and labels
  end
  call('HSET', P .. 'meta', 'schema', ours)
  return 'done'
end

function steps.renew()
  local owner = ARGV[5]
  if call('ZSCORE', P .. 'given_up', owner) then return 0 end
  call('HSET', P .. 'owners', owner, encode({text(now + tonumber(ARGV[6])), ARGV[7], ARGV[8]}))
  return 1
end

function steps.retire()
  local owner = ARGV[5]
  local ids = call('SMEMBERS', P .. 'owned:' .. owner)
  local states = values('run_heads', ids)
  for index, run_id in ipairs(ids) do
    local state = read_state(states[index], RUN_STATE)
    if state then
      release_run(run_id, state)
      state[OWNER] = ''
      if state[REVOKED] == '' then become_pending(run_id, state) else delete_run(run_id) end
      unblock_others(state)
    end
  end
  finish()
  forget_owner(owner)
  return 'done'
end

function steps.owners()
  return encode({now = text(now), owners = call('HGETALL', P .. 'owners')})
end

local function lapsed_owners()
  local known, owner_infos, lapsed = call('HGETALL', P .. 'owners'), {}, {}
  for index = 1, #known, 2 do
    local fine, value = pcall(decode, known[index + 1])
    owner_infos[known[index]] = fine and value[2] or ''
    if not fine or tonumber(value[1]) <= now then lapsed[#lapsed + 1] = known[index] end
  end
  for _, owner in ipairs(call('SMEMBERS', P .. 'holders')) do
    if not owner_infos[owner] then
      if call('EXISTS', P .. 'owned:' .. owner) == 1 then lapsed[#lapsed + 1] = owner else forget_owner(owner) end
    end
  end
  return lapsed, owner_infos
end

function steps.lost()
  local lapsed, owner_infos = lapsed_owners()
  local found = {}
  for _, owner in ipairs(lapsed) do
    call('ZADD', P .. 'given_up', text(now), owner)
    local ids = call('SMEMBERS', P .. 'owned:' .. owner)
    local states, texts, runs = values('run_heads', ids), values('runs', ids), {}
    for index, run_id in ipairs(ids) do
      if states[index] then
        runs[#runs + 1] = {run_id, states[index], texts[index] or ''}
      else
        call('SREM', P .. 'owned:' .. owner, run_id)
      end
    end
    if #runs == 0 then forget_owner(owner) else found[#found + 1] = {owner, owner_infos[owner] or '', runs} end
  end
  call('ZREMRANGEBYRANK', P .. 'given_up', 0, -1001)
  return encode(found)
end

function steps.prune()
  local gone = 0
  for _, item in ipairs(decode(ARGV[5])) do
    local place, job_id = item[1], item[2]
    local good = call('ZREM', P .. 'history:good', place)
    gone = gone + good + call('ZREM', P .. 'history:other', place)
    call('HDEL', P .. 'records', place)
    if job_id ~= '' then
      call('ZREM', P .. 'history:jobs', place_in_job(job_id, place, item[3]))
      if good == 1 and tonumber(call('ZINCRBY', P .. 'successes', -1, job_id)) <= 0 then
        call('ZREM', P .. 'successes', job_id)
      end
    end
  end
  return gone
end

function steps.take_dead()
  local run_id = ARGV[5]
  local letter = call('HGET', P .. 'dead', run_id)
  if not letter or letter ~= ARGV[6] then return 0 end
  call('HDEL', P .. 'dead', run_id)
  call('ZREM', P .. 'dead:times', place_of(run_id, unpack(decode(letter), 1, 2)))
  if #ARGV > 6 then
    call('HSET', P .. 'runs', run_id, ARGV[8])
    become_pending(run_id, {ARGV[7], ARGV[9], ARGV[10], '', ARGV[11], '', '', '', ARGV[12], '', ARGV[13]})
  end
  finish()
  return 1
end
