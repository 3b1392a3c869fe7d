-- The ends of runs, owners, history and dead letters. _redis.lua comes before it.

-- settle owners items. An item is [record, follow-up, dead letter, change of the job's life]. A follow-up is [text, lane, due,
-- whether it is a fire time, limits], a dead letter [run, reason]. The answer has the places of the items that were refused.

local function follow(run_id, job_id, fence, next)
  gather('HSET', 'runs', run_id, next[1])
  become_pending(run_id, {job_id, next[2], next[3], '', fence, '', '', '', next[4], '', next[5]})
end

local function bury(record, dead)
  local old = call('HGET', P .. 'dead', record[1])
  if old then call('ZREM', P .. 'dead:times', place_of(record[1], unpack(decode(old), 1, 2))) end
  call('HSET', P .. 'dead', record[1], encode({record[2], record[4], dead[1], record[6], dead[2]}))
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

function steps.settle()
  local items, ids, heads, jobs, refused = decode(ARGV[6]), {}, {}, {}, {}
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

-- Single runs: add_run id job text lane due fence firing limits must_exist

function steps.add_run()
  local run_id = ARGV[5]
  if ARGV[13] == '1' and call('HEXISTS', P .. 'jobs', ARGV[6]) == 0 then return 'gone' end
  call('HSET', P .. 'runs', run_id, ARGV[7])
  become_pending(run_id, {ARGV[6], ARGV[8], ARGV[9], '', ARGV[10], '', '', '', ARGV[11], '', ARGV[12]})
  finish()
  return 'done'
end

-- call_off id head reason record: the end of a pending run, or a word to the owner of a live one

function steps.call_off()
  local run_id = ARGV[5]
  local stored = call('HGET', P .. 'run_heads', run_id)
  if stored ~= ARGV[6] then return 'changed' end
  local head = read_head(stored, RUN_HEAD)
  if head[OWNER] ~= '' then
    tell_to_end(run_id, head, ARGV[7])
  else
    drop(run_id, head)
    local record = decode(ARGV[8])
    while call('HEXISTS', P .. 'records', place_of(record[1], record[2], record[4])) == 1 do
      record[2] = record[2] .. '.'  -- it was put back at this very moment: its fence has not grown since
    end
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
      write_head(run_id, head)
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
  return call('HKEYS', P .. 'of:' .. job_id)
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
      write_head(run_id, head)
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
    local lone = call('HGETALL', P .. 'lone')  -- version 2 kept the run of a job that has one live run apart
    for index = 1, #lone, 2 do call('HSET', P .. 'of:' .. lone[index], lone[index + 1], 'L') end
    call('DEL', P .. 'lone', P .. 'several', P .. 'edition')
  end
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
