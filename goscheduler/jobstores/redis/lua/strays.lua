-- Jobs and runs that are in none of the lists in which somebody would find them. No step leaves such a thing; what lost
-- it may have been an earlier goscheduler, or somebody's hand. _redis.lua comes before it.

-- put_back_jobs, put_back_runs cursor count: looks at about so many, and puts back in line what is in no list. The answer is
-- [cursor to go on from, how many were looked at, ids of what was put back]; the cursor is 0 after the last ones.

local known_lanes = {due = {}, ready = {}}

-- Tell whether something is in the list of its lane, and the lane itself among those that are looked at.
local function stands_in_line(kind, lane, id)
  local lanes = known_lanes[kind]
  if lanes[lane] == nil then lanes[lane] = call('ZSCORE', P .. kind, lane) and true or false end
  return lanes[lane] and call('ZSCORE', P .. kind .. ':' .. lane, id)
end

local function put_back_some(key, put_back)
  local page, ids = call('HSCAN', P .. key, ARGV[5], 'COUNT', ARGV[6]), {}
  local found = page[2]
  for index = 1, #found, 2 do
    if put_back(found[index], found[index + 1]) then ids[#ids + 1] = found[index] end
  end
  woken = #ids > 0
  return encode({page[1], #found / 2, ids})
end

local function is_job_astray(job_id, head)
  return (head[DUE] ~= '' and not stands_in_line('due', head[LANE], job_id))
    or (head[SUSPENDED] ~= '' and call('SISMEMBER', P .. 'suspended', job_id) == 0)
    or (head[FINISHED] ~= '' and not call('ZSCORE', P .. 'finished', job_id))
end

function steps.put_back_jobs()
  return put_back_some('heads', function(job_id, stored)
    local head = read_head(stored, JOB_HEAD)
    if not head or not is_job_astray(job_id, head) then return false end
    enlist(job_id, head)
    return true
  end)
end

local function is_held(run_id, head)
  return call('ZSCORE', P .. 'holds:' .. head[LANE] .. head[HELD], run_id)
    and call('SISMEMBER', P .. 'held:' .. head[HELD], head[LANE]) == 1
    and call('SISMEMBER', P .. 'held', head[HELD]) == 1
end

-- An owner that is among the holders is given up, and its runs are, when it lives no more.
local function put_back_live(run_id, head)
  local owned = call('SISMEMBER', P .. 'owned:' .. head[OWNER], run_id)
  if owned == 1 and call('SISMEMBER', P .. 'holders', head[OWNER]) == 1 then return false end
  become_live(run_id, head)
  call('SADD', P .. 'holders', head[OWNER])
  return true
end

-- What was held tries again, because nobody may be left who would wake it; if it has to, it is held once more.
local function put_back_pending(run_id, head)
  if head[HELD] == UNREADABLE then return false end
  if head[HELD] == '' and stands_in_line('ready', head[LANE], run_id) then return false end
  if head[HELD] ~= '' then
    if is_held(run_id, head) then return false end
    call('ZREM', P .. 'holds:' .. head[LANE] .. head[HELD], run_id)
    tidy_holds(head[HELD], head[LANE])
    head[HELD] = ''
  end
  become_pending(run_id, head)
  return true
end

function steps.put_back_runs()
  return put_back_some('run_heads', function(run_id, stored)
    local head = read_head(stored, RUN_HEAD)
    if not head then return false end
    if head[OWNER] ~= '' then return put_back_live(run_id, head) end
    return put_back_pending(run_id, head)
  end)
end
