-- Every step of the Redis store that has to be atomic. One call is one step, named by ARGV[1].
--
-- KEYS[1] is the prefix of all keys, "{name}:", so that all of them live in one slot of a cluster. Below it:
--
--   jobs              hash   job id → what defines the job
--   heads             hash   job id → what changes at every firing: a job head, see below
--   lives             hash   job id → [run count, last run, last success, last error, last outcome]
--   due               zset   lane → the earliest time in it
--   due:<lane>        zset   job id → when it is due; while somebody plans it: until when it is his
--   due_taken         hash   job id → the token of who plans it
--   suspended         set    ids of suspended jobs
--   finished          zset   id of a job that was kept after it fired for the last time → when that was
--   broken            hash   job id → a head that could not be read
--   runs              hash   run id → the run as text
--   run_heads         hash   run id → a run head, see below
--   of:<job id>       hash   run id → L (live), W (pending, a fire time) or P (pending, anything else)
--   ready             zset   lane → the earliest time in it
--   ready:<lane>      zset   id of a pending run → when it can be claimed, or until when somebody decides about it
--   ready_taken       hash   run id → the token of who decides about it
--   held              set    keys under which runs are held
--   held:<key>        set    lanes that have runs held under the key
--   holds:<lane><key> zset   id of a held run → when it was due
--   under:<limit>     set    ids of the live runs that count under a limit
--   rates             hash   limit → its latest starts
--   owners            hash   owner → [until when it lives, its account of itself]
--   owned:<owner>     set    ids of its live runs
--   ending:<owner>    set    ids of those that it is to end
--   holders           set    owners that have or had live runs
--   given_up          zset   owner that was lost → when that was found
--   records           hash   place in the history (run id, NUL, fence, NUL, end) → a record
--   history:good      zset   place → when it ended, of what succeeded
--   history:other     zset   place → when it ended, of everything else
--   history:jobs      zset   job id, NUL, end, NUL, run id, NUL, fence: all with score 0, in the order of their letters
--   successes         zset   job id → how many records of its successes are kept
--   dead              hash   run id → [fence, end, run, record, reason]
--   dead:times        zset   place → when it ended
--   meta              hash   the version of all this
--
-- A lane is [executor, priority, task] as text. Times are whole microseconds since 1970. Heads are arrays of strings,
-- an empty one where there is nothing; numbers are strings, because the JSON of Lua rounds them.

-- A job head begins with what its last writer made up, so that no two are the same; who paused it stands between limits
-- and the time at which it has finished. A lane and a due time are at the same place in both.
local LANE, DUE, NEXT, ZONE, FENCE, SUSPENDED, LIMITS, FINISHED = 2, 3, 4, 5, 6, 7, 8, 10
local JOB_HEAD = 10
local JOB, OWNER, R_FENCE, HELD, FREED, CANCEL, FIRING, REVOKED, R_LIMITS = 1, 4, 5, 6, 7, 8, 9, 10, 11
local RUN_HEAD = 11

local UNREADABLE = 'unreadable'
local CHUNK = 4000

local P = KEYS[1]
local call = redis.call
local encode, decode = cjson.encode, cjson.decode

local function text(number)
  return string.format('%.0f', number)
end

local now = tonumber(ARGV[4])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Reading and writing many at once

local buckets, in_order = {}, {}

-- Write at the end of the step, together with what else goes the same way.
local function put(command, key, first, second)
  local by_key = buckets[command]
  if not by_key then
    by_key = {}
    buckets[command] = by_key
  end
  local bucket = by_key[key]
  if not bucket then
    bucket = {command = command, key = P .. key}
    by_key[key] = bucket
    in_order[#in_order + 1] = bucket
  end
  bucket[#bucket + 1] = first
  if second then bucket[#bucket + 1] = second end
end

local touched = {due = {}, ready = {}}
local counted = {}
local woken = false

local function count_successes()
  local ids, scores = {}, {}
  for job_id in pairs(counted) do ids[#ids + 1] = job_id end
  for first = 1, #ids, CHUNK do
    local last = math.min(first + CHUNK - 1, #ids)
    local known = call('ZMSCORE', P .. 'successes', unpack(ids, first, last))
    for index = first, last do
      scores[#scores + 1] = (tonumber(known[index - first + 1] or 0)) + counted[ids[index]]
      scores[#scores + 1] = ids[index]
    end
  end
  for first = 1, #scores, CHUNK do
    call('ZADD', P .. 'successes', unpack(scores, first, math.min(first + CHUNK - 1, #scores)))
  end
  counted = {}
end

local function finish()
  for _, bucket in ipairs(in_order) do
    for first = 1, #bucket, CHUNK do
      call(bucket.command, bucket.key, unpack(bucket, first, math.min(first + CHUNK - 1, #bucket)))
    end
  end
  buckets, in_order = {}, {}
  for kind, lanes in pairs(touched) do
    for lane in pairs(lanes) do
      local first = call('ZRANGE', P .. kind .. ':' .. lane, 0, 0, 'WITHSCORES')
      if first[1] then call('ZADD', P .. kind, first[2], lane) else call('ZREM', P .. kind, lane) end
    end
    touched[kind] = {}
  end
  count_successes()
  if woken then call('PUBLISH', ARGV[2], ARGV[3]) end
  woken = false
end

local function values(key, fields)
  local found = {}
  for first = 1, #fields, CHUNK do
    local part = call('HMGET', P .. key, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))
    for index = 1, #part do found[#found + 1] = part[index] end
  end
  return found
end

-- Items are one argument; the long texts that they speak of by number follow it.
local texts_after = 0
local function items_from(first)
  texts_after = first
  return decode(ARGV[first])
end

local function text_of(number)
  return ARGV[texts_after + number]
end

local function read_head(head, size)
  if not head then return nil end
  local fine, value = pcall(decode, head)
  if not fine or type(value) ~= 'table' or #value ~= size then return nil end
  for index = 1, size do
    if type(value[index]) ~= 'string' then return nil end
  end
  return (value[DUE] == '' or tonumber(value[DUE])) and value or nil
end

local function job_head(job_id)
  return read_head(call('HGET', P .. 'heads', job_id), JOB_HEAD)
end

local function run_head(run_id)
  return read_head(call('HGET', P .. 'run_heads', run_id), RUN_HEAD)
end

local function names_of(limits)
  if limits == '' then return {} end
  local fine, names = pcall(decode, limits)
  return fine and type(names) == 'table' and names or {}
end

-- Jobs

local function enlist(job_id, head)
  if head[DUE] ~= '' then
    call('ZADD', P .. 'due:' .. head[LANE], head[DUE], job_id)
    touched.due[head[LANE]] = true
  end
  if head[SUSPENDED] ~= '' then call('SADD', P .. 'suspended', job_id) end
  if head[FINISHED] ~= '' then call('ZADD', P .. 'finished', head[FINISHED], job_id) end
end

local function strike(job_id, head)
  call('ZREM', P .. 'due:' .. head[LANE], job_id)
  touched.due[head[LANE]] = true
  if head[SUSPENDED] ~= '' then call('SREM', P .. 'suspended', job_id) end
  if head[FINISHED] ~= '' then call('ZREM', P .. 'finished', job_id) end
end

local function remove_job(job_id)
  local head = job_head(job_id)
  if head then
    strike(job_id, head)
  else
    call('SREM', P .. 'suspended', job_id)
    call('HDEL', P .. 'broken', job_id)
  end
  call('HDEL', P .. 'lives', job_id)
  call('HDEL', P .. 'due_taken', job_id)
  return call('HDEL', P .. 'jobs', job_id) + call('HDEL', P .. 'heads', job_id)
end

-- Keep a job whose head cannot be read, as one that is suspended.
local function set_aside(job_id, head)
  if head then call('HSET', P .. 'broken', job_id, head) end
  local reason = encode('its record cannot be read: its head is broken')
  local new = {'', '["default",5,""]', '', '', 'Z', '0', reason, '', '', ''}
  call('HSET', P .. 'heads', job_id, encode(new))
  call('SADD', P .. 'suspended', job_id)
end

-- Runs

local function standing(job_id)
  local live, waiting = 0, 0
  for _, state in ipairs(call('HVALS', P .. 'of:' .. job_id)) do
    if state == 'L' then live = live + 1 elseif state == 'W' then waiting = waiting + 1 end
  end
  return live, waiting
end

local function write_head(run_id, head)
  put('HSET', 'run_heads', run_id, encode(head))
end

local function wait_in_line(run_id, head)
  put('ZADD', 'ready:' .. head[LANE], head[DUE], run_id)
  touched.ready[head[LANE]] = true
end

local function become_live(run_id, head)
  call('HSET', P .. 'of:' .. head[JOB], run_id, 'L')
  put('SADD', 'owned:' .. head[OWNER], run_id)
  for _, name in ipairs(names_of(head[R_LIMITS])) do put('SADD', 'under:' .. name, run_id) end
  if head[CANCEL] ~= '' then put('SADD', 'ending:' .. head[OWNER], run_id) end
  write_head(run_id, head)
end

local function become_pending(run_id, head)
  call('HSET', P .. 'of:' .. head[JOB], run_id, head[FIRING] == '1' and 'W' or 'P')
  wait_in_line(run_id, head)
  write_head(run_id, head)
  woken = true
end

local function hold(run_id, head, key)
  head[HELD] = key
  call('ZADD', P .. 'holds:' .. head[LANE] .. key, head[DUE], run_id)
  call('SADD', P .. 'held:' .. key, head[LANE])
  call('SADD', P .. 'held', key)
end

local function tidy_holds(key, lane)
  if call('EXISTS', P .. 'holds:' .. lane .. key) == 1 then return end
  call('SREM', P .. 'held:' .. key, lane)
  if call('EXISTS', P .. 'held:' .. key) == 0 then call('SREM', P .. 'held', key) end
end

-- Let one run of each lane that is held under a key try again: who has room for one lane need not have it for another.
local function let_try(key)
  for _, lane in ipairs(call('SMEMBERS', P .. 'held:' .. key)) do
    local first = call('ZPOPMIN', P .. 'holds:' .. lane .. key)
    local head = first[1] and run_head(first[1])
    if head then
      head[HELD], head[FREED] = '', key
      call('HSET', P .. 'run_heads', first[1], encode(head))
      call('ZADD', P .. 'ready:' .. lane, head[DUE], first[1])
      touched.ready[lane] = true
      woken = true
    end
    tidy_holds(key, lane)
  end
end

local any_held
local function let_others_try(head)
  if any_held == nil then any_held = call('EXISTS', P .. 'held') == 1 end
  if not any_held then return end
  let_try('job:' .. head[JOB])
  for _, name in ipairs(names_of(head[R_LIMITS])) do let_try('limit:' .. name) end
end

-- Take a live run from its owner.
local function let_go(run_id, head)
  put('SREM', 'owned:' .. head[OWNER], run_id)
  for _, name in ipairs(names_of(head[R_LIMITS])) do call('SREM', P .. 'under:' .. name, run_id) end
  if head[CANCEL] ~= '' then put('SREM', 'ending:' .. head[OWNER], run_id) end
end

local function erase(run_id, head)
  call('HDEL', P .. 'of:' .. head[JOB], run_id)
  put('HDEL', 'run_heads', run_id)
  put('HDEL', 'runs', run_id)
end

-- Drop a pending run; its turn, if it had one, goes to the next.
local function drop(run_id, head)
  call('HDEL', P .. 'of:' .. head[JOB], run_id)
  call('HDEL', P .. 'run_heads', run_id)
  call('HDEL', P .. 'runs', run_id)
  call('HDEL', P .. 'ready_taken', run_id)
  if head[HELD] == '' then
    call('ZREM', P .. 'ready:' .. head[LANE], run_id)
    touched.ready[head[LANE]] = true
  elseif head[HELD] ~= UNREADABLE then
    call('ZREM', P .. 'holds:' .. head[LANE] .. head[HELD], run_id)
    tidy_holds(head[HELD], head[LANE])
  end
  if head[FREED] ~= '' then let_try(head[FREED]) end
end

local function tell_to_end(run_id, head, reason)
  head[CANCEL] = reason
  call('HSET', P .. 'run_heads', run_id, encode(head))
  call('SADD', P .. 'ending:' .. head[OWNER], run_id)
  woken = true
end

-- The history

-- The place of a record: run id, NUL, fence, NUL, end; both in 20 digits, so that they sort as numbers do.
local function place_of(run_id, fence, finished)
  return run_id .. '\0' .. string.rep('0', 20 - #fence) .. fence .. '\0' .. finished
end

local function place_in_job(job_id, place, finished)
  return job_id .. '\0' .. finished .. '\0' .. string.sub(place, 1, -22)
end

-- A record is [run id, fence, end, the same in 20 digits, whether it succeeded, number of its text].
local function remember(job_id, record)
  local place = place_of(record[1], record[2], record[4])
  if record[7] then  -- called off in the very moment in which the same run was put back: the fence has not grown
    while call('HEXISTS', P .. 'records', place) == 1 do
      record[2] = record[2] .. '.'
      place = place_of(record[1], record[2], record[4])
    end
  end
  put('ZADD', record[5] == 1 and 'history:good' or 'history:other', record[3], place)
  put('HSET', 'records', place, text_of(record[6]))
  put('ZADD', 'history:jobs', '0', place_in_job(job_id, place, record[4]))
  if record[5] == 1 then counted[job_id] = (counted[job_id] or 0) + 1 end
end

local function live_on(job_id, change)
  local stored = call('HGET', P .. 'lives', job_id)
  local fine, life = pcall(decode, stored or '["0","","","",""]')
  if not fine then return end
  life[1] = text(tonumber(life[1]) + tonumber(change[1]))
  for index = 2, 5 do
    if change[index] ~= '' then life[index] = change[index] end
  end
  call('HSET', P .. 'lives', job_id, encode(life))
end

-- Looking

local function lanes_for(kind, request)
  local found, tasks = {}, {}
  for _, name in ipairs(request.tasks) do tasks[name] = true end
  local all = call('ZRANGE', P .. kind, 0, -1, 'WITHSCORES')
  for index = 1, #all, 2 do
    local fine, lane = pcall(decode, all[index])
    local ours = fine and type(lane) == 'table' and lane[2] and request.room[lane[1]]
    if ours and (lane[3] == '' or tasks[lane[3]]) then
      found[#found + 1] = {key = all[index], executor = lane[1], priority = lane[2], time = tonumber(all[index + 1])}
    end
  end
  return found
end

local function look(request)
  local seen = {now = text(now), due = {}, ready = {}}
  for _, kind in ipairs({'due', 'ready'}) do
    for _, lane in ipairs(lanes_for(kind, request)) do
      local known = seen[kind][lane.executor]
      if not known or lane.time < tonumber(known) then seen[kind][lane.executor] = text(lane.time) end
    end
  end
  seen.ending = call('EXISTS', P .. 'ending:' .. request.owner) == 1
  seen.held = call('EXISTS', P .. 'held') == 1
  return seen
end

local function before(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  if a[2] ~= b[2] then return a[2] < b[2] end
  return a[3] < b[3]
end

-- Return {id, lane} of what is due, the lowest rank first, no more than there is room for.
local function pick(kind, request, most, ageing)
  local by_executor, picked = {}, {}
  for _, lane in ipairs(lanes_for(kind, request)) do
    local room = math.min(request.room[lane.executor], most)
    if room > 0 and lane.time <= now then
      local waiting = by_executor[lane.executor] or {lanes = 0}
      waiting.lanes = waiting.lanes + 1
      by_executor[lane.executor] = waiting
      local due = call('ZRANGEBYSCORE', P .. kind .. ':' .. lane.key, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, room)
      for index = 1, #due, 2 do
        local time = tonumber(due[index + 1])
        waiting[#waiting + 1] = {time + lane.priority * ageing, time, due[index], lane.key}
      end
    end
  end
  for executor, waiting in pairs(by_executor) do
    if waiting.lanes > 1 then table.sort(waiting, before) end
    local room = math.min(request.room[executor], most - #picked)
    for index = 1, math.min(room, #waiting) do picked[#picked + 1] = {waiting[index][3], waiting[index][4]} end
  end
  return picked
end

local function firsts(list)
  local found = {}
  for index, item in ipairs(list) do found[index] = item[1] end
  return found
end

-- What is known about limits: [name, live runs, latest starts].
local function limits_known(names)
  local known = {}
  for name in pairs(names) do
    known[#known + 1] = {name, call('SCARD', P .. 'under:' .. name), call('HGET', P .. 'rates', name) or ''}
  end
  return known
end

-- How limits and jobs stand in comparison with what a decision was based on. Something may start if no more is live
-- than was thought, and something may be held if no less is. Where a start is called off, what was to wait for it must
-- not be held: nobody might wake it.
local function comparison(known)
  local compared = {may_start = {}, may_hold = {}}
  for _, limit in ipairs(known) do
    local name, live = 'limit:' .. limit[1], call('SCARD', P .. 'under:' .. limit[1])
    local same_rate = (call('HGET', P .. 'rates', limit[1]) or '') == limit[3]
    compared.may_start[name] = same_rate and live <= limit[2]
    compared.may_hold[name] = same_rate and live >= limit[2]
  end
  return compared
end

local function allows(compared, job_id, limits)
  if compared.may_start['job:' .. job_id] == false then return false end
  for _, name in ipairs(names_of(limits)) do
    if not compared.may_start['limit:' .. name] then return false end
  end
  return true
end

local function distrust(compared, job_id, limits)
  compared.may_hold['job:' .. job_id] = false
  for _, name in ipairs(names_of(limits)) do compared.may_hold['limit:' .. name] = false end
end

local function write_rates(compared, rates)
  for _, rate in ipairs(rates) do
    if compared.may_start['limit:' .. rate[1]] then call('HSET', P .. 'rates', rate[1], rate[2]) end
  end
end

local function give_back(kind, id, head)
  put('HDEL', kind .. '_taken', id)
  put('ZADD', kind .. ':' .. head[LANE], head[DUE], id)
  touched[kind][head[LANE]] = true
end

local steps = {}

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
    call('HDEL', P .. 'due_taken', job_id)
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
  for _, key in ipairs({'jobs', 'heads', 'lives', 'due', 'due_taken', 'suspended', 'finished', 'broken'}) do
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

-- Firing: take_due token request most reserved_for ageing. What is due is ours until it is planned, or for a while.

function steps.take_due()
  local token, request = ARGV[5], decode(ARGV[6])
  local reserved_until = text(now + tonumber(ARGV[8]))
  local picked = pick('due', request, tonumber(ARGV[7]), tonumber(ARGV[9]))
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
      put('HSET', 'due_taken', job_id, token)
      put('ZADD', 'due:' .. lane, reserved_until, job_id)
      for _, name in ipairs(names_of(head[LIMITS])) do names[name] = true end
      local live, waiting = standing(job_id)
      taken[#taken + 1] = {job_id, heads[index], definitions[index] or '', lives[index] or '', live, waiting}
    end
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, limits = limits, seen = look(request)})
end

-- write_due token request limits rates items. An item is [job id, live runs, what becomes of the job, next time, zone,
-- fence, reason, runs that start, runs that wait, records, whether live runs are told to end]; a run is [id, number of its
-- text, due].

local function move_on(job_id, head, item)
  local fate = item[3]
  put('ZREM', 'due:' .. head[LANE], job_id)
  put('HDEL', 'due_taken', job_id)
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
  local token, request, reason, items = ARGV[5], decode(ARGV[6]), ARGV[9], items_from(10)
  local compared = comparison(decode(ARGV[7]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local ids, started = firsts(items), false
  local heads, tokens, refused = values('heads', ids), values('due_taken', ids), {}
  for index, item in ipairs(items) do
    local job_id, head = item[1], read_head(heads[index], JOB_HEAD)
    local starts = #item[8] > 0
    if not head or tokens[index] ~= token then
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
  write_rates(compared, decode(ARGV[8]))
  finish()
  return encode({refused = refused, seen = look(request)})
end

-- Claiming, in the same way: take_ready token request most reserved_for ageing

function steps.take_ready()
  local token, request = ARGV[5], decode(ARGV[6])
  local reserved_until = text(now + tonumber(ARGV[8]))
  local picked = pick('ready', request, tonumber(ARGV[7]), tonumber(ARGV[9]))
  local ids = firsts(picked)
  local heads, texts = values('run_heads', ids), values('runs', ids)
  local taken, names, live = {}, {}, {}
  for index, run_id in ipairs(ids) do
    local lane, head = picked[index][2], read_head(heads[index], RUN_HEAD)
    touched.ready[lane] = true
    if not head or head[LANE] ~= lane or head[OWNER] ~= '' or head[HELD] ~= '' then
      call('ZREM', P .. 'ready:' .. lane, run_id)
    else
      put('HSET', 'ready_taken', run_id, token)
      put('ZADD', 'ready:' .. lane, reserved_until, run_id)
      for _, name in ipairs(names_of(head[R_LIMITS])) do names[name] = true end
      live[head[JOB]] = live[head[JOB]] or standing(head[JOB])
      taken[#taken + 1] = {run_id, heads[index], texts[index] or '', live[head[JOB]]}
    end
  end
  local limits = limits_known(names)
  finish()
  return encode({taken = taken, limits = limits, seen = look(request)})
end

-- write_ready token request limits rates items. An item is [run id, live runs of its job, what becomes of it, fence,
-- key or time]; it starts, is held, waits until later, or is put aside because it cannot be read.

local function decide(run_id, head, item, owner)
  local fate = item[3]
  local turn = head[FREED]
  head[FREED] = ''
  put('ZREM', 'ready:' .. head[LANE], run_id)
  put('HDEL', 'ready_taken', run_id)
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
  local token, request, items = ARGV[5], decode(ARGV[6]), items_from(9)
  local compared = comparison(decode(ARGV[7]))
  local lapsed = call('ZSCORE', P .. 'given_up', request.owner)
  local ids, started = firsts(items), false
  local read, tokens, heads, refused = values('run_heads', ids), values('ready_taken', ids), {}, {}
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
    local ours = head and tokens[index] == token
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
  write_rates(compared, decode(ARGV[8]))
  finish()
  return encode({refused = refused, seen = look(request)})
end

-- give_back kind token ids: what was taken and is not going to be decided about

function steps.give_back()
  local kind, token, ids = ARGV[5], ARGV[6], {}
  for index = 7, #ARGV do ids[#ids + 1] = ARGV[index] end
  local of_jobs = kind == 'due'
  local heads, tokens = values(of_jobs and 'heads' or 'run_heads', ids), values(kind .. '_taken', ids)
  for index, id in ipairs(ids) do
    local head = read_head(heads[index], of_jobs and JOB_HEAD or RUN_HEAD)
    if head and tokens[index] == token then give_back(kind, id, head) end
  end
  woken = #ids > 0
  finish()
  return 'done'
end

function steps.look()
  return encode(look(decode(ARGV[5])))
end

-- settle owners items. An item is [record, follow-up, dead letter, change of the job's life, whether it may have been
-- written before]. A follow-up is [text, lane, due, whether it is a fire time, limits], a dead letter [run, reason].

local function follow(run_id, job_id, fence, next)
  put('HSET', 'runs', run_id, next[1])
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

function steps.settle()
  local items, ids, heads, jobs, refused = items_from(6), {}, {}, {}, {}
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
  return encode(refused)
end

-- Single runs: add_run id job text lane due fence firing limits

function steps.add_run()
  local run_id = ARGV[5]
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

function steps.put_aside()
  for index = 6, #ARGV do
    local head = run_head(ARGV[index])
    if head and head[OWNER] ~= '' then
      let_go(ARGV[index], head)
      head[OWNER], head[HELD], head[CANCEL] = '', UNREADABLE, ARGV[5]
      call('HSET', P .. 'of:' .. head[JOB], ARGV[index], 'P')
      write_head(ARGV[index], head)
      let_others_try(head)
    end
  end
  finish()
  return 'done'
end

-- discard job: its pending runs, or all; revoke job: and nothing follows its live ones

local function pending_ids(job_id)
  return call('HKEYS', P .. (job_id == '' and 'run_heads' or 'of:' .. job_id))
end

function steps.discard()
  local gone = 0
  for _, run_id in ipairs(pending_ids(ARGV[5])) do
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
    ids = pending_ids(job_id)
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

local answer = steps[ARGV[1]]()
finish()
return answer
