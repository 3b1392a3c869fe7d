-- What all scripts of the Redis store share. scripts.py puts this file before each of the others; each result is one script.
-- One call of a script runs one step, and is atomic.
--
-- ARGV[1] is the name of the step, ARGV[2] the channel on which other processes are woken, ARGV[3] the id of the sender,
-- ARGV[4] the time of the client (empty: the time of the server counts). The arguments of the step begin with ARGV[5].
--
-- KEYS[1] is the prefix of all keys, "{name}:". The braces keep all keys in one slot of a cluster. The keys are:
--
--   jobs              hash   job id → the definition of the job
--   heads             hash   job id → job state, see below: what changes when the job fires
--   lives             hash   job id → statistics: [run count, last run, last success, last error, last outcome]
--   due               zset   lane → the earliest time in it
--   due:<lane>        zset   job id → when it is due; while an owner plans it, the end of the time for which others
--                            do not see it
--   suspended         set    ids of suspended jobs
--   finished          zset   id of a job that was kept after it fired for the last time → when that was
--   broken            hash   job id → a job state that could not be read
--   runs              hash   run id → the run as text
--   run_heads         hash   run id → run state, see below
--   live              hash   job id → the ids of its live runs, with NUL before and after each
--   pending:<job id>  hash   id of a pending run → W (a fire time) or P (anything else)
--   ready             zset   lane → the earliest time in it
--   ready:<lane>      zset   id of a pending run → when it can be claimed; while an owner decides about it, as for due
--   held              set    keys on which runs are blocked: job:<job id> or limit:<limit>
--   held:<key>        set    lanes that have runs blocked on the key
--   holds:<lane><key> zset   id of a blocked run → when it was due
--   under:<limit>     set    ids of the live runs that count under a limit
--   rates             hash   limit → its latest starts
--   owners            hash   owner → [end of its lease, information about it, its report]
--   owned:<owner>     set    ids of its live runs
--   ending:<owner>    set    ids of those that have a cancel request
--   holders           set    owners that have or had live runs
--   given_up          zset   owner whose lease has lapsed → when its runs were recovered
--   records           hash   place in the history (run id, NUL, fence, NUL, end) → a record
--   history:good      zset   place → when it ended, of successes
--   history:other     zset   place → when it ended, of all other outcomes
--   history:jobs      zset   job id, NUL, end, NUL, run id, NUL, fence: all with score 0, in the order of their letters
--   successes         zset   job id → how many records of its successes are kept
--   dead              hash   run id → [fence, end, run, record, reason]
--   dead:times        zset   place → when it ended
--   facts             hash   job id → three lines: its labels, how it was made and paused, what a search looks through
--   kind:<kind>       zset   ids of the jobs of an executor and function
--   tag:<tag>         zset   ids of the jobs that have a tag; so have the next two
--   pause:<id>        zset   ids of the jobs that a bulk operation has paused
--   follows:          zset   ids of the jobs that the ends of other jobs make fire
--   outcome:<outcome> zset   ids of the jobs whose last attempt ended so
--   idle:<why>:<lane> zset   ids of the jobs that wait for no time, because they are paused, suspended or ended
--   kinds             set    the labels that begin with kind:
--   labels            set    all others that any job has
--   idle              set    the lists that begin with idle:
--   notes:<kind>      hash   key → text of a note
--   noted:<kind>      zset   the keys of these notes
--   inbox             stream what other programs ask for: request
--   inbox:refused     stream what was refused of it: entry, request, reason
--   show              string the text of show.lua, for programs in other languages
--   meta              hash   schema: the version of this list; unindexed: 1 until all older jobs have facts and labels
--
-- A zset of ids or keys has the score 0 for all, so that it is in the order of their bytes. A label is the name of such a
-- zset; each job has one kind.
--
-- A lane is [executor, priority, task] as text. Times are whole microseconds since 1970. A state is an array of strings, an
-- empty one where there is no value; numbers are strings, because the JSON of Lua rounds them.

-- A job state begins with a stamp that its last writer made up, so that no two writes leave the same state. Its ninth field
-- says who paused the job. Lane and due time have the same places in both kinds of state.
local STAMP, LANE, DUE, NEXT, ZONE, FENCE, SUSPENDED, LIMITS, FINISHED = 1, 2, 3, 4, 5, 6, 7, 8, 10
local JOB_STATE = 10
local JOB, OWNER, R_FENCE, BLOCKED_ON, UNBLOCKED_BY, CANCEL, FIRING, REVOKED, R_LIMITS = 1, 4, 5, 6, 7, 8, 9, 10, 11
local RUN_STATE = 11

local UNREADABLE = 'unreadable'
local CHUNK = 4000

local P = KEYS[1]
local call = redis.call
local encode, decode = cjson.encode, cjson.decode
local find, pcall, type, unpack = string.find, pcall, type, unpack

local function text(number)
  return string.format('%.0f', number)
end

local now = tonumber(ARGV[4])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Gather a write for the end of the step: finish() sends one command for all of a kind, removals before additions. A value
-- that the same step reads again must not be gathered.
local REMOVALS_FIRST = {'HDEL', 'SREM', 'ZREM', 'HSET', 'SADD', 'ZADD'}
local gathered = {HDEL = {}, SREM = {}, ZREM = {}, HSET = {}, SADD = {}, ZADD = {}}
local function gather(command, key, first, second)
  local list = gathered[command][key]
  if not list then
    list = {size = 0}
    gathered[command][key] = list
  end
  local size = list.size + 1
  list[size] = first
  if second then
    size = size + 1
    list[size] = second
  end
  list.size = size
end

-- Write a list that has the order of the command's arguments. CHUNK is even, so that pairs stay together.
local function put_all(command, key, list)
  for first = 1, #list, CHUNK do
    call(command, P .. key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
  end
end

-- Run states that this step has changed, and live runs of jobs that it has read or changed; finish() stores the changes.
local written_states = {}
local live_runs, changed_live = {}, {}
local touched = {due = {}, ready = {}}
local touched_lists = {}
-- Job id → how its last attempt had ended before this step, and how it has now.
local new_outcomes = {}
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
  for run_id, state in pairs(written_states) do gather('HSET', 'run_heads', run_id, encode(state)) end
  written_states = {}
  for job_id in pairs(changed_live) do
    local ids = live_runs[job_id]
    if ids == '' then gather('HDEL', 'live', job_id) else gather('HSET', 'live', job_id, ids) end
  end
  changed_live = {}
  for job_id, outcomes in pairs(new_outcomes) do
    local before, after = 'outcome:' .. outcomes[1], 'outcome:' .. outcomes[2]
    if before ~= after and outcomes[1] ~= '' then gather('ZREM', before, job_id) end
    if before ~= after and outcomes[2] ~= '' then gather('ZADD', after, 0, job_id) end
    touched_lists[before], touched_lists[after] = 'labels', 'labels'
  end
  new_outcomes = {}
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
  for list, names in pairs(touched_lists) do
    call(call('EXISTS', P .. list) == 1 and 'SADD' or 'SREM', P .. names, list)
  end
  touched_lists = {}
  count_successes()
  if woken then call('PUBLISH', ARGV[2], ARGV[3]) end
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

local function read_state(state, size)
  if not state then return nil end
  local fine, value = pcall(decode, state)
  if not fine or type(value) ~= 'table' or #value ~= size then return nil end
  for index = 1, size do
    if type(value[index]) ~= 'string' then return nil end
  end
  local fence, due = value[size == JOB_STATE and FENCE or R_FENCE], value[DUE]
  if #fence > 18 or #due > 19 or not find(fence, '^%d+$') then return nil end
  return (due == '' or find(due, '^-?%d+$')) and value or nil
end

-- Return the parts of a text that has NUL between them.
local function parts_of(joined)
  local parts, size, first = {}, 0, 1
  local stop = find(joined, '\0', 1, true)
  while stop do
    size = size + 1
    parts[size] = string.sub(joined, first, stop - 1)
    first = stop + 1
    stop = find(joined, '\0', first, true)
  end
  parts[size + 1] = string.sub(joined, first)
  return parts
end

local function job_state(job_id)
  return read_state(call('HGET', P .. 'heads', job_id), JOB_STATE)
end

local function run_state(run_id)
  return written_states[run_id] or read_state(call('HGET', P .. 'run_heads', run_id), RUN_STATE)
end

local function names_of(limits)
  if limits == '' then return {} end
  local fine, names = pcall(decode, limits)
  return fine and type(names) == 'table' and names or {}
end

-- Jobs

-- Return in which list of jobs that wait for no time a job with this state stands.
local function idle_list(state)
  local why = state[SUSPENDED] ~= '' and 'suspended' or state[FINISHED] ~= '' and 'ended' or 'paused'
  return 'idle:' .. why .. ':' .. state[LANE]
end

local function change_idle(command, job_id, state)
  local list = idle_list(state)
  if command == 'ZADD' then call('ZADD', P .. list, 0, job_id) else call('ZREM', P .. list, job_id) end
  touched_lists[list] = 'idle'
end

local function schedule(job_id, state)
  if state[DUE] ~= '' then
    call('ZADD', P .. 'due:' .. state[LANE], state[DUE], job_id)
    touched.due[state[LANE]] = true
  else
    change_idle('ZADD', job_id, state)
  end
  if state[SUSPENDED] ~= '' then call('SADD', P .. 'suspended', job_id) end
  if state[FINISHED] ~= '' then call('ZADD', P .. 'finished', state[FINISHED], job_id) end
end

local function unschedule(job_id, state)
  call('ZREM', P .. 'due:' .. state[LANE], job_id)
  touched.due[state[LANE]] = true
  if state[DUE] == '' then change_idle('ZREM', job_id, state) end
  if state[SUSPENDED] ~= '' then call('SREM', P .. 'suspended', job_id) end
  if state[FINISHED] ~= '' then call('ZREM', P .. 'finished', job_id) end
end

-- Labels

local labels_read = {}
local function labels_of(facts)
  if not facts then return {} end
  local line = string.sub(facts, 1, (find(facts, '\n', 1, true) or 0) - 1)
  if not labels_read[line] then
    local fine, labels = pcall(decode, line)
    labels_read[line] = fine and type(labels) == 'table' and labels or {}
  end
  return labels_read[line]
end

local function names_of_labels(label)
  return string.sub(label, 1, 5) == 'kind:' and 'kinds' or 'labels'
end

local function put_facts(job_id, facts)
  local old = call('HGET', P .. 'facts', job_id)
  if old == facts then return end
  call('HSET', P .. 'facts', job_id, facts)
  for _, label in ipairs(labels_of(old)) do
    gather('ZREM', label, job_id)
    touched_lists[label] = names_of_labels(label)
  end
  for _, label in ipairs(labels_of(facts)) do
    gather('ZADD', label, 0, job_id)
    touched_lists[label] = names_of_labels(label)
  end
end

local function outcome_of(stats)
  return stats and string.match(stats, '"([%l ]+)"%]$') or ''
end

-- Note that the last attempt of a job ended otherwise than the one before; either may be an empty string.
local function change_outcome(job_id, before, after)
  local known = new_outcomes[job_id]
  new_outcomes[job_id] = {known and known[1] or before, after}
end

-- Remove what is known of jobs that go, but for their states, and what people find them by.
local function forget_jobs(job_ids)
  local by_label, with_stats = {}, {}
  for index, facts in ipairs(values('facts', job_ids)) do
    for _, label in ipairs(labels_of(facts)) do
      local ids = by_label[label]
      if ids then ids[#ids + 1] = job_ids[index] else by_label[label] = {job_ids[index]} end
    end
  end
  for label, ids in pairs(by_label) do
    put_all('ZREM', label, ids)
    touched_lists[label] = names_of_labels(label)
  end
  put_all('HDEL', 'facts', job_ids)
  if call('EXISTS', P .. 'lives') == 1 then
    for index, stats in ipairs(values('lives', job_ids)) do
      if stats then
        with_stats[#with_stats + 1] = job_ids[index]
        change_outcome(job_ids[index], outcome_of(stats), '')
      end
    end
    put_all('HDEL', 'lives', with_stats)
  end
end

local function remove_job(job_id)
  local state = job_state(job_id)
  forget_jobs({job_id})
  if state then
    unschedule(job_id, state)
  else
    call('SREM', P .. 'suspended', job_id)
    call('HDEL', P .. 'broken', job_id)
    for _, list in ipairs(call('SMEMBERS', P .. 'idle')) do
      if call('ZREM', P .. list, job_id) == 1 then touched_lists[list] = 'idle' end
    end
  end
  return call('HDEL', P .. 'jobs', job_id) + call('HDEL', P .. 'heads', job_id)
end

-- Suspend a job whose state cannot be read, and keep that state.
local function set_aside(job_id, state)
  if state then call('HSET', P .. 'broken', job_id, state) end
  local reason = encode('its record cannot be read: its state is broken')
  local new = {'', '["default",5,""]', '', '', 'Z', '0', reason, '', '', ''}
  call('HSET', P .. 'heads', job_id, encode(new))
  schedule(job_id, new)
end

-- Runs

-- Read the live runs of these jobs with one command.
local function load_live_runs(job_ids)
  for index, ids in ipairs(values('live', job_ids)) do
    if not live_runs[job_ids[index]] then live_runs[job_ids[index]] = ids or '' end
  end
end

-- Return the ids of the live runs of a job, with NUL before and after each.
local function live_runs_of(job_id)
  if not live_runs[job_id] then live_runs[job_id] = call('HGET', P .. 'live', job_id) or '' end
  return live_runs[job_id]
end

local function count_live(job_id)
  local ids = live_runs_of(job_id)
  if ids == '' then return 0 end
  return select(2, string.gsub(ids, '%z', '')) - 1
end

local function add_live(job_id, run_id)
  local ids, wanted = live_runs_of(job_id), '\0' .. run_id .. '\0'
  if ids == '' then
    live_runs[job_id] = wanted
  elseif not find(ids, wanted, 1, true) then
    live_runs[job_id] = ids .. run_id .. '\0'
  end
  changed_live[job_id] = true
end

local function remove_live(job_id, run_id)
  local ids, wanted = live_runs_of(job_id), '\0' .. run_id .. '\0'
  if ids == wanted then
    live_runs[job_id] = ''
  else
    local first, last = find(ids, wanted, 1, true)
    if first then live_runs[job_id] = string.sub(ids, 1, first) .. string.sub(ids, last + 1) end
  end
  changed_live[job_id] = true
end

-- Tell whether any of these jobs has pending runs.
local function any_pending(job_ids)
  local keys, found = {}, 0
  for index, job_id in ipairs(job_ids) do keys[index] = P .. 'pending:' .. job_id end
  for first = 1, #keys, CHUNK do
    found = found + call('EXISTS', unpack(keys, first, math.min(first + CHUNK - 1, #keys)))
  end
  return found > 0
end

-- Return how many fire times of a job are pending.
local function count_waiting(job_id)
  local waiting = 0
  for _, kind in ipairs(call('HVALS', P .. 'pending:' .. job_id)) do
    if kind == 'W' then waiting = waiting + 1 end
  end
  return waiting
end

local function write_state(run_id, state)
  written_states[run_id] = state
end

local function wait_in_line(run_id, state)
  call('ZADD', P .. 'ready:' .. state[LANE], state[DUE], run_id)
  touched.ready[state[LANE]] = true
end

local function become_live(run_id, state)
  add_live(state[JOB], run_id)
  gather('SADD', 'owned:' .. state[OWNER], run_id)
  if state[R_LIMITS] ~= '' then
    for _, name in ipairs(names_of(state[R_LIMITS])) do call('SADD', P .. 'under:' .. name, run_id) end
  end
  if state[CANCEL] ~= '' then call('SADD', P .. 'ending:' .. state[OWNER], run_id) end
  write_state(run_id, state)
end

local function become_pending(run_id, state)
  call('HSET', P .. 'pending:' .. state[JOB], run_id, state[FIRING] == '1' and 'W' or 'P')
  wait_in_line(run_id, state)
  write_state(run_id, state)
  woken = true
end

local function block(run_id, state, key)
  state[BLOCKED_ON] = key
  call('ZADD', P .. 'holds:' .. state[LANE] .. key, state[DUE], run_id)
  call('SADD', P .. 'held:' .. key, state[LANE])
  call('SADD', P .. 'held', key)
end

local function tidy_blocked(key, lane)
  if call('EXISTS', P .. 'holds:' .. lane .. key) == 1 then return end
  call('SREM', P .. 'held:' .. key, lane)
  if call('EXISTS', P .. 'held:' .. key) == 0 then call('SREM', P .. 'held', key) end
end

-- Let one run of each lane that is blocked on a key try again: a process may have room for one lane and none for another.
local function unblock_next(key)
  for _, lane in ipairs(call('SMEMBERS', P .. 'held:' .. key)) do
    local first = call('ZPOPMIN', P .. 'holds:' .. lane .. key)
    local state = first[1] and run_state(first[1])
    if state then
      state[BLOCKED_ON], state[UNBLOCKED_BY] = '', key
      write_state(first[1], state)
      call('ZADD', P .. 'ready:' .. lane, state[DUE], first[1])
      touched.ready[lane] = true
      woken = true
    end
    tidy_blocked(key, lane)
  end
end

local any_blocked
local function unblock_others(state)
  if any_blocked == nil then any_blocked = call('EXISTS', P .. 'held') == 1 end
  if not any_blocked then return end
  unblock_next('job:' .. state[JOB])
  for _, name in ipairs(names_of(state[R_LIMITS])) do unblock_next('limit:' .. name) end
end

-- Take a live run away from its owner.
local function release_run(run_id, state)
  remove_live(state[JOB], run_id)
  gather('SREM', 'owned:' .. state[OWNER], run_id)
  if state[R_LIMITS] ~= '' then
    for _, name in ipairs(names_of(state[R_LIMITS])) do call('SREM', P .. 'under:' .. name, run_id) end
  end
  if state[CANCEL] ~= '' then call('SREM', P .. 'ending:' .. state[OWNER], run_id) end
end

local function delete_run(run_id)
  written_states[run_id] = nil
  gather('HDEL', 'run_heads', run_id)
  gather('HDEL', 'runs', run_id)
end

-- Delete a pending run. If it was unblocked, the next blocked run is unblocked instead.
local function discard_pending(run_id, state)
  delete_run(run_id)
  call('HDEL', P .. 'pending:' .. state[JOB], run_id)
  if state[BLOCKED_ON] == '' then
    call('ZREM', P .. 'ready:' .. state[LANE], run_id)
    touched.ready[state[LANE]] = true
  elseif state[BLOCKED_ON] ~= UNREADABLE then
    call('ZREM', P .. 'holds:' .. state[LANE] .. state[BLOCKED_ON], run_id)
    tidy_blocked(state[BLOCKED_ON], state[LANE])
  end
  if state[UNBLOCKED_BY] ~= '' then unblock_next(state[UNBLOCKED_BY]) end
end

local function request_cancel(run_id, state, reason)
  state[CANCEL] = reason
  write_state(run_id, state)
  call('SADD', P .. 'ending:' .. state[OWNER], run_id)
  woken = true
end

-- The history

-- Return the place of a record: run id, NUL, fence, NUL, end. Both numbers have 20 digits, so that they sort as text.
local fences = {}
local function place_of(run_id, fence, finished)
  local padded = fences[fence]
  if not padded then
    padded = '\0' .. string.rep('0', 20 - #fence) .. fence .. '\0'
    fences[fence] = padded
  end
  return run_id .. padded .. finished
end

local function place_in_job(job_id, place, finished)
  return job_id .. '\0' .. finished .. '\0' .. string.sub(place, 1, -22)
end

-- Write a record: [run id, fence, end, end in 20 digits, 1 if it succeeded, text].
local function add_record(job_id, record)
  local place = place_of(record[1], record[2], record[4])
  gather('ZADD', record[5] == 1 and 'history:good' or 'history:other', record[3], place)
  gather('HSET', 'records', place, record[6])
  gather('ZADD', 'history:jobs', '0', place_in_job(job_id, place, record[4]))
  if record[5] == 1 then counted[job_id] = (counted[job_id] or 0) + 1 end
end

-- Change the statistics of a job by the end of a run; what is empty in it leaves a field as it is.
local function update_stats(job_id, succeeded_at, count, last_run, last_error, outcome)
  local stored = call('HGET', P .. 'lives', job_id)
  local fine, stats = pcall(decode, stored or '["0","","","",""]')
  if not fine then return end
  stats[1] = text(tonumber(stats[1]) + tonumber(count))
  if outcome ~= '' and outcome ~= stats[5] then change_outcome(job_id, stats[5], outcome) end
  for index, value in ipairs({last_run, succeeded_at, last_error, outcome}) do
    if value ~= '' then stats[index + 1] = value end
  end
  call('HSET', P .. 'lives', job_id, encode(stats))
end

-- Due work

-- Return the lanes that have something due or pending and that the request may take from.
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

local function peek(request)
  local work = {now = text(now), due = {}, ready = {}}
  for _, kind in ipairs({'due', 'ready'}) do
    for _, lane in ipairs(lanes_for(kind, request)) do
      local known = work[kind][lane.executor]
      if not known or lane.time < tonumber(known) then work[kind][lane.executor] = text(lane.time) end
    end
  end
  work.to_cancel = call('EXISTS', P .. 'ending:' .. request.owner) == 1
  work.blocked = call('EXISTS', P .. 'held') == 1
  return work
end

local function before(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  if a[2] ~= b[2] then return a[2] < b[2] end
  return a[3] < b[3]
end

-- Return ids and lanes of what is due in some lanes, the lowest rank first. The rank is that of runs/plan.py: rank().
local function ranked(kind, lanes, room, priority_step_us)
  local waiting, ids, keys = {}, {}, {}
  for _, lane in ipairs(lanes) do
    local due = call('ZRANGEBYSCORE', P .. kind .. ':' .. lane.key, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, room)
    for index = 1, #due, 2 do
      local time = tonumber(due[index + 1])
      waiting[#waiting + 1] = {time + lane.priority * priority_step_us, time, due[index], lane.key}
    end
  end
  table.sort(waiting, before)
  for index = 1, math.min(room, #waiting) do ids[index], keys[index] = waiting[index][3], waiting[index][4] end
  return ids, keys
end

-- Return ids and lanes of what is due, no more than there is room for. Executors are served in the order of the request.
-- A lane is in order already.
local function pick(kind, request, most, priority_step_us)
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
      local found, lanes_of_found = ranked(kind, lanes, room, priority_step_us)
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

-- Return [name, number of live runs, latest starts] of each limit.
local function limits_known(names)
  local known = {}
  for name in pairs(names) do
    known[#known + 1] = {name, call('SCARD', P .. 'under:' .. name), call('HGET', P .. 'rates', name) or ''}
  end
  return known
end

-- Compare limits and jobs with what a decision was based on. A run may start if no more runs are live than at that time, and
-- may be blocked if no fewer are. After a start was refused, a run that waits for it must not be blocked: no run would
-- unblock it.
local function comparison(known)
  local compared = {may_start = {}, may_block = {}}
  for _, limit in ipairs(known) do
    local name, live = 'limit:' .. limit[1], call('SCARD', P .. 'under:' .. limit[1])
    local same_rate = (call('HGET', P .. 'rates', limit[1]) or '') == limit[3]
    compared.may_start[name] = same_rate and live <= limit[2]
    compared.may_block[name] = same_rate and live >= limit[2]
  end
  return compared
end

local function allows(compared, limits)
  if limits == '' then return true end
  for _, name in ipairs(names_of(limits)) do
    if not compared.may_start['limit:' .. name] then return false end
  end
  return true
end

local function distrust(compared, job_id, limits)
  compared.may_block['job:' .. job_id] = false
  for _, name in ipairs(names_of(limits)) do compared.may_block['limit:' .. name] = false end
end

local function write_rates(compared, rates)
  for _, rate in ipairs(rates) do
    if compared.may_start['limit:' .. rate[1]] then call('HSET', P .. 'rates', rate[1], rate[2]) end
  end
end

local function give_back(kind, id, state)
  gather('ZADD', kind .. ':' .. state[LANE], state[DUE], id)
  touched[kind][state[LANE]] = true
end

local steps = {}
