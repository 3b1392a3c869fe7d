-- Orphans: jobs and runs that are missing from the lists in which processes find them. No step leaves an orphan; an earlier
-- goscheduler may have, or a change by hand.
--
--   requeue_jobs cursor count      looks at about so many jobs, and puts orphans back into their lists
--   requeue_runs cursor count      the same of runs
--
-- Both answer [next cursor, how many were looked at, ids of the orphans]; the cursor is 0 after the last page.

local known_lanes = {due = {}, ready = {}}

-- Tell whether the lane has this entry, and is listed itself.
local function stands_in_line(kind, lane, id)
  local lanes = known_lanes[kind]
  if lanes[lane] == nil then lanes[lane] = call('ZSCORE', P .. kind, lane) and true or false end
  return lanes[lane] and call('ZSCORE', P .. kind .. ':' .. lane, id)
end

local function requeue_some(key, requeue)
  local page, ids = call('HSCAN', P .. key, ARGV[5], 'COUNT', ARGV[6]), {}
  local found = page[2]
  for index = 1, #found, 2 do
    if requeue(found[index], found[index + 1]) then ids[#ids + 1] = found[index] end
  end
  woken = #ids > 0
  return encode({page[1], #found / 2, ids})
end

local function is_job_orphaned(job_id, state)
  return (state[DUE] ~= '' and not stands_in_line('due', state[LANE], job_id))
    or (state[DUE] == '' and not call('ZSCORE', P .. idle_list(state), job_id))
    or (state[SUSPENDED] ~= '' and call('SISMEMBER', P .. 'suspended', job_id) == 0)
    or (state[FINISHED] ~= '' and not call('ZSCORE', P .. 'finished', job_id))
end

function steps.requeue_jobs()
  return requeue_some('heads', function(job_id, stored)
    local state = read_state(stored, JOB_STATE)
    if not state or not is_job_orphaned(job_id, state) then return false end
    schedule(job_id, state)
    return true
  end)
end

local function is_blocked(run_id, state)
  return call('ZSCORE', P .. 'holds:' .. state[LANE] .. state[BLOCKED_ON], run_id)
    and call('SISMEMBER', P .. 'held:' .. state[BLOCKED_ON], state[LANE]) == 1
    and call('SISMEMBER', P .. 'held', state[BLOCKED_ON]) == 1
end

-- Only the runs of holders are recovered after the lease of their owner has lapsed.
local function requeue_live(run_id, state)
  local owned = call('SISMEMBER', P .. 'owned:' .. state[OWNER], run_id)
  if owned == 1 and call('SISMEMBER', P .. 'holders', state[OWNER]) == 1 then return false end
  become_live(run_id, state)
  call('SADD', P .. 'holders', state[OWNER])
  return true
end

-- A blocked orphan tries again, because no run may be left to unblock it; if it has to wait, it is blocked once more.
local function requeue_pending(run_id, state)
  if state[BLOCKED_ON] == UNREADABLE then return false end
  if state[BLOCKED_ON] == '' and stands_in_line('ready', state[LANE], run_id) then return false end
  if state[BLOCKED_ON] ~= '' then
    if is_blocked(run_id, state) then return false end
    call('ZREM', P .. 'holds:' .. state[LANE] .. state[BLOCKED_ON], run_id)
    tidy_blocked(state[BLOCKED_ON], state[LANE])
    state[BLOCKED_ON] = ''
  end
  become_pending(run_id, state)
  return true
end

function steps.requeue_runs()
  return requeue_some('run_heads', function(run_id, stored)
    local state = read_state(stored, RUN_STATE)
    if not state then return false end
    if state[OWNER] ~= '' then return requeue_live(run_id, state) end
    return requeue_pending(run_id, state)
  end)
end
