-- The ends of runs, owners, history and dead letters. _redis.lua comes before it.

-- settle owners owner groups table... items. Groups are explained below. An item is [record, follow-up, dead letter, change
-- of the job's life, whether it may have been written before]. A follow-up is [text, lane, due, whether it is a fire time,
-- limits], a dead letter [run, reason].

local function follow(run_id, job_id, fence, next)
  gather('HSET', 'runs', run_id, next[1])
  become_pending(run_id, {job_id, next[2], next[3], '', fence, '', '', '', next[4], '', next[5]})
end

local function bury(record, dead)
  local old = call('HGET', P .. 'dead', record[1])
  if old then call('ZREM', P .. 'dead:times', place_of(record[1], unpack(decode(old), 1, 2))) end
  call('HSET', P .. 'dead', record[1], encode({record[2], record[4], dead[1], text_of(record[6]), dead[2]}))
  call('ZADD', P .. 'dead:times', record[3], place_of(record[1], record[2], record[4]))
end

local function settle(head, item, has_job)
  local record, job_id = item[1], head[JOB]
  let_go(record[1], head)
  erase(record[1], head)
  if type(item[2]) == 'table' and head[REVOKED] == '' and head[CANCEL] == '' then
    follow(record[1], job_id, record[2], item[2])
  end
  remember(job_id, record)
  if type(item[3]) == 'table' then bury(record, item[3]) end
  if has_job and type(item[4]) == 'table' and head[REVOKED] == '' then live_on(job_id, item[4]) end
  let_others_try(head)
end

local function forget_owner(owner)
  call('HDEL', P .. 'owners', owner)
  call('SREM', P .. 'holders', owner)
  call('DEL', P .. 'owned:' .. owner, P .. 'ending:' .. owner)
end

-- A group is of ends of runs of one owner and one fence, that have succeeded, at one time. Its table has the columns run,
-- job, start, record; only the heads of the runs are looked at. What somebody has touched is told, to come again as items.
local function end_group(owner, group, packed, touched_runs)
  local runs, jobs, starts, records = unpack(columns(packed, 4))
  local ending = ',' .. encode(owner) .. ',"' .. group.fence
  local untouched, untouched_other, size = ending .. UNTOUCHED, ending .. UNTOUCHED_OTHER, #ending + #UNTOUCHED
  local behind, lone = place_of('', group.fence, group.digits), values('lone', jobs)
  local crossed, good, places, in_jobs, left = {}, {}, {}, {}, {}
  for row, head in ipairs(values('run_heads', runs)) do
    local run_id, job_id = runs[row], jobs[row]
    local tail = head and string.sub(head, -size)
    if tail == untouched or tail == untouched_other then
      local place, at = run_id .. behind, #places
      good[at + 1], good[at + 2] = group.ended, place
      places[at + 1], places[at + 2] = place, records[row]
      in_jobs[at + 1], in_jobs[at + 2] = '0', place_in_job(job_id, place, group.digits)
      if lone[row] == run_id then left[#left + 1] = job_id else forget_state(job_id, run_id) end
    else
      crossed[row] = true
      touched_runs[#touched_runs + 1] = run_id
    end
  end
  local ended = without(runs, crossed)
  put_all('HDEL', 'lone', left)
  put_all('SREM', 'owned:' .. owner, ended)
  put_all('HDEL', 'run_heads', ended)
  put_all('HDEL', 'runs', ended)
  put_all('ZADD', 'history:good', good)
  put_all('HSET', 'records', places)
  put_all('ZADD', 'history:jobs', in_jobs)
  local known, are_held = values('heads', jobs), call('EXISTS', P .. 'held') == 1
  for row, job_id in ipairs(jobs) do
    if not crossed[row] then
      counted[job_id] = (counted[job_id] or 0) + 1
      if known[row] then live_on(job_id, {'1', starts[row], group.ended, '', 'succeeded'}) end
      if are_held then let_try('job:' .. job_id) end
    end
  end
end

function steps.settle()
  local touched_runs, groups = {}, decode(ARGV[7])
  for index, group in ipairs(groups) do end_group(ARGV[6], group, ARGV[7 + index], touched_runs) end
  local items, ids, heads, jobs, refused = items_from(8 + #groups), {}, {}, {}, {}
  for index, item in ipairs(items) do ids[index] = item[1][1] end
  for index, head in ipairs(values('run_heads', ids)) do
    heads[index] = read_head(head, RUN_HEAD) or false
    jobs[index] = heads[index] and heads[index][JOB] or ''
  end
  local known, ended = values('heads', jobs), {}
  for index, item in ipairs(items) do
    local record = item[1]
    local head = not ended[record[1]] and heads[index]
    if head and head[OWNER] ~= '' and head[R_FENCE] == record[2] then
      ended[record[1]] = true
      settle(head, item, known[index])
    elseif item[5] ~= 1
      or call('HGET', P .. 'records', place_of(record[1], record[2], record[4])) ~= text_of(record[6]) then
      refused[#refused + 1] = index - 1
    end
  end
  finish()
  for _, owner in ipairs(decode(ARGV[5])) do
    if call('EXISTS', P .. 'owned:' .. owner) == 0 then forget_owner(owner) end
  end
  return encode({refused = refused, touched = touched_runs})
end

-- Single runs: add_run id job text lane due fence firing limits must_exist

function steps.add_run()
  local run_id = ARGV[5]
  if ARGV[13] == '1' and call('HEXISTS', P .. 'jobs', ARGV[6]) == 0 then return 'gone' end
  call('HSET', P .. 'runs', run_id, ARGV[7])
  become_pending(run_id, {ARGV[6], ARGV[8], ARGV[9], '', ARGV[10], '', '', '', ARGV[11], '', ARGV[12]})
  finish()
  return 'done'
end

-- call_off id head reason items: the end of a pending run, of which the item is the record; or a word to the owner of a
-- live one

function steps.call_off()
  local run_id = ARGV[5]
  local stored = call('HGET', P .. 'run_heads', run_id)
  if stored ~= ARGV[6] then return 'changed' end
  local head = read_head(stored, RUN_HEAD)
  if head[OWNER] ~= '' then
    tell_to_end(run_id, head, ARGV[7])
  else
    drop(run_id, head)
    local record = items_from(8)[1]
    record[7] = true
    remember(head[JOB], record)
  end
  finish()
  return 'done'
end

-- withdraw_cancel_requests owner (id reason)...: runs of the owner are not to end any more, where that is still the reason; their ids

function steps.withdraw_cancel_requests()
  local taken = {}
  for index = 6, #ARGV, 2 do
    local run_id, head = ARGV[index], run_head(ARGV[index])
    if head and head[OWNER] == ARGV[5] and head[CANCEL] == ARGV[index + 1] then
      head[CANCEL] = ''
      call('HSET', P .. 'run_heads', run_id, encode(head))
      call('SREM', P .. 'ending:' .. head[OWNER], run_id)
      taken[#taken + 1] = run_id
    end
  end
  return #taken > 0 and encode(taken) or '[]'
end

function steps.put_aside()
  for index = 6, #ARGV do
    local head = run_head(ARGV[index])
    if head and head[OWNER] ~= '' then
      let_go(ARGV[index], head)
      head[OWNER], head[HELD], head[CANCEL] = '', UNREADABLE, ARGV[5]
      note_state(head[JOB], ARGV[index], 'P')
      write_head(ARGV[index], head)
      let_others_try(head)
    end
  end
  finish()
  return 'done'
end

-- discard job: its pending runs, or all; revoke job: and nothing follows its live ones

local function ids_of(job_id)
  if job_id == '' then return call('HKEYS', P .. 'run_heads') end
  local ids, states = {}, states_of(job_id)
  for index = 1, #states, 2 do ids[#ids + 1] = states[index] end
  return ids
end

function steps.discard()
  local gone = 0
  for _, run_id in ipairs(ids_of(ARGV[5])) do
    local head = run_head(run_id)  -- read one by one: each that goes may let another one try
    if head and head[OWNER] == '' then
      drop(run_id, head)
      gone = gone + 1
    elseif head and ARGV[6] == '1' then
      head[REVOKED] = '1'
      call('HSET', P .. 'run_heads', run_id, encode(head))
    end
  end
  finish()
  return gone
end

-- runs state job: [id, head] of what is live or pending

function steps.runs()
  local wanted, job_id, ids = ARGV[5], ARGV[6], {}
  if job_id == '' and wanted == 'live' then
    for _, owner in ipairs(call('SMEMBERS', P .. 'holders')) do
      for _, run_id in ipairs(call('SMEMBERS', P .. 'owned:' .. owner)) do ids[#ids + 1] = run_id end
    end
  else
    ids = ids_of(job_id)
  end
  local found, heads = {}, values('run_heads', ids)
  for index, run_id in ipairs(ids) do
    local head = read_head(heads[index], RUN_HEAD)
    if head and (head[OWNER] ~= '') == (wanted == 'live') then found[#found + 1] = {run_id, heads[index]} end
  end
  return encode(found)
end

function steps.ending()
  local ids = call('SMEMBERS', P .. 'ending:' .. ARGV[5])
  local found, heads, texts = {}, values('run_heads', ids), values('runs', ids)
  for index, run_id in ipairs(ids) do
    if heads[index] then found[#found + 1] = {run_id, heads[index], texts[index] or ''} end
  end
  return encode(found)
end

-- adopt schema: write in this version from now on, unless there is a newer one, or owners of an older one that live

function steps.adopt()
  local ours, stored = tonumber(ARGV[5]), tonumber(call('HGET', P .. 'meta', 'schema') or ARGV[5])
  if stored > ours then return 'newer' end
  if stored < ours then
    for _, account in ipairs(call('HVALS', P .. 'owners')) do
      local fine, value = pcall(decode, account)
      if fine and tonumber(value[1]) > now then return 'in use' end
    end
    for _, stored_head in ipairs(call('HVALS', P .. 'run_heads')) do
      local head = read_head(stored_head, RUN_HEAD)
      if head then call('SADD', P .. 'several', head[JOB]) end
    end
  end
  call('DEL', P .. 'edition')  -- of no use any more
  call('HSET', P .. 'meta', 'schema', ours)
  return 'done'
end

-- Owners

function steps.renew()
  local owner = ARGV[5]
  if call('ZSCORE', P .. 'given_up', owner) then return 0 end
  call('HSET', P .. 'owners', owner, encode({text(now + tonumber(ARGV[6])), ARGV[7]}))
  return 1
end

function steps.retire()
  local owner = ARGV[5]
  local ids = call('SMEMBERS', P .. 'owned:' .. owner)
  local heads = values('run_heads', ids)
  for index, run_id in ipairs(ids) do
    local head = read_head(heads[index], RUN_HEAD)
    if head then
      let_go(run_id, head)
      head[OWNER] = ''
      if head[REVOKED] == '' then become_pending(run_id, head) else erase(run_id, head) end
      let_others_try(head)
    end
  end
  finish()
  forget_owner(owner)
  return 'done'
end

function steps.owners()
  return encode({now = text(now), owners = call('HGETALL', P .. 'owners')})
end

-- lost: [owner, account, [run id, head, text]...] of every owner that has lapsed; each is given up by this

local function lapsed_owners()
  local known, accounts, lapsed = call('HGETALL', P .. 'owners'), {}, {}
  for index = 1, #known, 2 do
    local fine, value = pcall(decode, known[index + 1])
    accounts[known[index]] = fine and value[2] or ''
    if not fine or tonumber(value[1]) <= now then lapsed[#lapsed + 1] = known[index] end
  end
  for _, owner in ipairs(call('SMEMBERS', P .. 'holders')) do
    if not accounts[owner] then
      if call('EXISTS', P .. 'owned:' .. owner) == 1 then lapsed[#lapsed + 1] = owner else forget_owner(owner) end
    end
  end
  return lapsed, accounts
end

function steps.lost()
  local lapsed, accounts = lapsed_owners()
  local found = {}
  for _, owner in ipairs(lapsed) do
    call('ZADD', P .. 'given_up', text(now), owner)
    local ids = call('SMEMBERS', P .. 'owned:' .. owner)
    local heads, texts, runs = values('run_heads', ids), values('runs', ids), {}
    for index, run_id in ipairs(ids) do
      if heads[index] then
        runs[#runs + 1] = {run_id, heads[index], texts[index] or ''}
      else
        call('SREM', P .. 'owned:' .. owner, run_id)
      end
    end
    if #runs == 0 then forget_owner(owner) else found[#found + 1] = {owner, accounts[owner] or '', runs} end
  end
  call('ZREMRANGEBYRANK', P .. 'given_up', 0, -1001)
  return encode(found)
end

-- History and dead letters: prune items of [place, job id or nothing, end in 20 digits]

function steps.prune()
  local gone = 0
  for _, item in ipairs(items_from(5)) do
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

-- take_dead id letter, and the arguments of add_run where a run takes its place

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
