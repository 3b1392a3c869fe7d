-- Every step of the Redis store that has to be atomic. One call is one step, named by ARGV[1]. This file has the keys and
-- what the steps share. _redis_jobs.lua, _redis_firing.lua, _redis_strays.lua and _redis_settling.lua have the steps; each
-- of them, with this file before it, is a script.
--
-- KEYS[1] is the prefix of all keys, "{name}:", so that all of them live in one slot of a cluster. Below it:
--
--   jobs              hash   job id → what defines the job
--   heads             hash   job id → what changes at every firing: a job head, see below
--   lives             hash   job id → [run count, last run, last success, last error, last outcome]
--   due               zset   lane → the earliest time in it
--   due:<lane>        zset   job id → when it is due; while one of several owners plans it: until when it is his
--   suspended         set    ids of suspended jobs
--   finished          zset   id of a job that was kept after it fired for the last time → when that was
--   broken            hash   job id → a head that could not be read
--   runs              hash   run id → the run as text
--   run_heads         hash   run id → a run head, see below
--   of:<job id>       hash   run id → L (live), W (pending, a fire time) or P (pending, anything else); a job without runs
--                            has no such key
--   ready             zset   lane → the earliest time in it
--   ready:<lane>      zset   id of a pending run → when it can be claimed, or until when somebody decides about it
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
local STAMP, LANE, DUE, NEXT, ZONE, FENCE, SUSPENDED, LIMITS, FINISHED = 1, 2, 3, 4, 5, 6, 7, 8, 10
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

-- Write at the end of the step, together with what else goes there: first all that is removed, then all that is added. So
-- whatever the order in a step, what was added stays. Not for what is looked at later in the same step, such as the heads
-- of runs; and what is removed so must not be added at once.
local REMOVALS_FIRST = {'HDEL', 'SREM', 'ZREM', 'HSET', 'SADD', 'ZADD'}
local gathered = {HDEL = {}, SREM = {}, ZREM = {}, HSET = {}, SADD = {}, ZADD = {}}
local function gather(command, key, first, second)
  local list = gathered[command][key]
  if not list then
    list = {}
    gathered[command][key] = list
  end
  list[#list + 1] = first
  list[#list + 1] = second
end

-- Write a list that stands as the command takes it. CHUNK is even, so that pairs stay together.
local function put_all(command, key, list)
  for first = 1, #list, CHUNK do
    call(command, P .. key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
  end
end

-- Heads of runs that this step has written; they are stored at its end.
local written_heads = {}
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
  put_all('ZADD', 'successes', scores)
  counted = {}
end

local function finish()
  for run_id, head in pairs(written_heads) do gather('HSET', 'run_heads', run_id, encode(head)) end
  written_heads = {}
  for _, command in ipairs(REMOVALS_FIRST) do
    for key, list in pairs(gathered[command]) do put_all(command, key, list) end
    gathered[command] = {}
  end
  for kind, lanes in pairs(touched) do
    for lane in pairs(lanes) do
      local first = call('ZRANGE', P .. kind .. ':' .. lane, 0, 0, 'WITHSCORES')
      if first[1] then call('ZADD', P .. kind, first[2], lane) else call('ZREM', P .. kind, lane) end
    end
    touched[kind] = {}
  end
  count_successes()
  if woken then
    call('PUBLISH', ARGV[2], ARGV[3])
  end
  woken = false
end

local function values(key, fields)
  if #fields > 0 and #fields <= CHUNK then return call('HMGET', P .. key, unpack(fields)) end
  local found = {}
  for first = 1, #fields, CHUNK do
    local part = call('HMGET', P .. key, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))
    for index = 1, #part do found[#found + 1] = part[index] end
  end
  return found
end

local function read_head(head, size)
  if not head then return nil end
  local fine, value = pcall(decode, head)
  if not fine or type(value) ~= 'table' or #value ~= size then return nil end
  for index = 1, size do
    if type(value[index]) ~= 'string' then return nil end
  end
  if not string.find(value[size == JOB_HEAD and FENCE or R_FENCE], '^%d+$') then return nil end
  if #value[size == JOB_HEAD and FENCE or R_FENCE] > 18 or #value[DUE] > 19 then return nil end
  return (value[DUE] == '' or string.find(value[DUE], '^-?%d+$')) and value or nil
end

local function job_head(job_id)
  return read_head(call('HGET', P .. 'heads', job_id), JOB_HEAD)
end

local function run_head(run_id)
  return written_heads[run_id] or read_head(call('HGET', P .. 'run_heads', run_id), RUN_HEAD)
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

-- How many runs of a job are live, and how many wait.
local function standing(job_id)
  local live, waiting = 0, 0
  for _, state in ipairs(call('HVALS', P .. 'of:' .. job_id)) do
    if state == 'L' then live = live + 1 elseif state == 'W' then waiting = waiting + 1 end
  end
  return live, waiting
end

-- The same of many jobs, as a function. Most jobs have no runs, which one command tells of all of them.
local function standings(job_ids)
  local keys, found = {}, 0
  for index, job_id in ipairs(job_ids) do keys[index] = P .. 'of:' .. job_id end
  for first = 1, #keys, CHUNK do
    found = found + call('EXISTS', unpack(keys, first, math.min(first + CHUNK - 1, #keys)))
  end
  return found > 0 and standing or function() return 0, 0 end
end

local function note_state(job_id, run_id, state)
  call('HSET', P .. 'of:' .. job_id, run_id, state)
end

local function forget_state(job_id, run_id)
  call('HDEL', P .. 'of:' .. job_id, run_id)
end

local function write_head(run_id, head)
  written_heads[run_id] = head
end

local function wait_in_line(run_id, head)
  call('ZADD', P .. 'ready:' .. head[LANE], head[DUE], run_id)
  touched.ready[head[LANE]] = true
end

local function become_live(run_id, head)
  note_state(head[JOB], run_id, 'L')
  gather('SADD', 'owned:' .. head[OWNER], run_id)
  for _, name in ipairs(names_of(head[R_LIMITS])) do call('SADD', P .. 'under:' .. name, run_id) end
  if head[CANCEL] ~= '' then call('SADD', P .. 'ending:' .. head[OWNER], run_id) end
  write_head(run_id, head)
end

local function become_pending(run_id, head)
  note_state(head[JOB], run_id, head[FIRING] == '1' and 'W' or 'P')
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
      write_head(first[1], head)
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
  gather('SREM', 'owned:' .. head[OWNER], run_id)
  for _, name in ipairs(names_of(head[R_LIMITS])) do call('SREM', P .. 'under:' .. name, run_id) end
  if head[CANCEL] ~= '' then call('SREM', P .. 'ending:' .. head[OWNER], run_id) end
end

local function erase(run_id, head)
  forget_state(head[JOB], run_id)
  written_heads[run_id] = nil
  gather('HDEL', 'run_heads', run_id)
  gather('HDEL', 'runs', run_id)
end

-- Drop a pending run; its turn, if it had one, goes to the next.
local function drop(run_id, head)
  erase(run_id, head)
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
  write_head(run_id, head)
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

-- A record is [run id, fence, end, the same in 20 digits, whether it succeeded, text].
local function remember(job_id, record)
  local place = place_of(record[1], record[2], record[4])
  gather('ZADD', record[5] == 1 and 'history:good' or 'history:other', record[3], place)
  gather('HSET', 'records', place, record[6])
  gather('ZADD', 'history:jobs', '0', place_in_job(job_id, place, record[4]))
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
  seen.to_cancel = call('EXISTS', P .. 'ending:' .. request.owner) == 1
  seen.blocked = call('EXISTS', P .. 'held') == 1
  return seen
end

local function before(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  if a[2] ~= b[2] then return a[2] < b[2] end
  return a[3] < b[3]
end

-- Return ids and lanes of what is due in some lanes, the lowest rank first.
local function ranked(kind, lanes, room, ageing)
  local waiting, ids, keys = {}, {}, {}
  for _, lane in ipairs(lanes) do
    local due = call('ZRANGEBYSCORE', P .. kind .. ':' .. lane.key, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, room)
    for index = 1, #due, 2 do
      local time = tonumber(due[index + 1])
      waiting[#waiting + 1] = {time + lane.priority * ageing, time, due[index], lane.key}
    end
  end
  table.sort(waiting, before)
  for index = 1, math.min(room, #waiting) do ids[index], keys[index] = waiting[index][3], waiting[index][4] end
  return ids, keys
end

-- Return ids and lanes of what is due, no more than there is room for, of the executors in the order in which they are
-- named. In one lane, it stands in order already.
local function pick(kind, request, most, ageing)
  local by_executor, ids, keys = {}, {}, {}
  for _, lane in ipairs(lanes_for(kind, request)) do
    if lane.time <= now then
      local lanes = by_executor[lane.executor] or {}
      by_executor[lane.executor] = lanes
      lanes[#lanes + 1] = lane
    end
  end
  for _, executor in ipairs(request.executors) do
    local lanes = by_executor[executor] or {}
    local room = #lanes > 0 and math.min(request.room[executor], most - #ids) or 0
    if room > 0 and #lanes == 1 then
      local key = lanes[1].key
      local due = call('ZRANGEBYSCORE', P .. kind .. ':' .. key, '-inf', text(now), 'LIMIT', 0, room)
      for _, id in ipairs(due) do ids[#ids + 1], keys[#keys + 1] = id, key end
    elseif room > 0 then
      local found, lanes_of_found = ranked(kind, lanes, room, ageing)
      for index, id in ipairs(found) do ids[#ids + 1], keys[#keys + 1] = id, lanes_of_found[index] end
    end
  end
  return ids, keys
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
  gather('ZADD', kind .. ':' .. head[LANE], head[DUE], id)
  touched[kind][head[LANE]] = true
end

local steps = {}
