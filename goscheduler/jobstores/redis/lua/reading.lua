-- What people ask for. No call looks at more than about a thousand jobs, because the server does nothing else meanwhile.
--
--   survey names                        lanes, kinds, idle, as far as named, and how many jobs have a live run
--   sizes lists                         how many jobs are in each
--   walk lists size wanted filters      goes on in some sorted sets; answers [ids, times, [time, id] of the last or false]
--                                       of each, without those that a filter refuses
--   sift ids wanted filters             [ids, times] of these jobs, without those that a filter refuses
--   attempts run job newest             places of the records of a run, and from where on to go on in those of its job
--   find_record run history first       a place of a record of a run or false, and the rank from which to go on or null
--
-- A list is [key, time, id, end]: it is read behind this time and id, or from the beginning if they are false, and to this
-- time, which is not read any more, or to its own end if it is false. wanted is count (the answer has numbers for ids),
-- place (times are those of the list) or due (times are those at which the jobs are due, -1 if they are not).
--
-- A filter is one of [any, keys], [none, keys]: some or none of these sorted sets has the job; [live]: a run is live;
-- [executor, name]; [due, time]: it is due before that time, or at all if that is false; [text, part]: its id, name or
-- function has this part.

-- Tell whether a text comes before another in the order of sorted sets, whatever the language of the server.
local function is_before(one, other)
  for index = 1, math.min(#one, #other) do
    local a, b = string.byte(one, index), string.byte(other, index)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Return the rank of the first member behind this score and id.
local function rank_behind(key, score, id)
  if call('ZSCORE', key, id) == score then return call('ZRANK', key, id) + 1 end
  local low, high = call('ZCOUNT', key, '-inf', '(' .. score), call('ZCOUNT', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(id, call('ZRANGE', key, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end

-- Read the next portion of a list: ids, and the last score and id, or false if nothing follows.
local function portion_of(list, size)
  local key = P .. list[1]
  local first = list[2] and rank_behind(key, list[2], list[3]) or 0
  local stop = math.min(first + size, list[4] and call('ZCOUNT', key, '-inf', '(' .. list[4]) or math.huge)
  local ids = first < stop and call('ZRANGE', key, first, stop - 1) or {}
  return ids, #ids == size and {call('ZSCORE', key, ids[size]), ids[size]}
end

-- Each filter returns a list that has a true value for each id that passes.
local filters = {}

function filters.any(ids, keys)
  if #keys == 1 then return call('ZMSCORE', P .. keys[1], unpack(ids)) end
  local members = {}
  for _, key in ipairs(keys) do
    for index, score in ipairs(call('ZMSCORE', P .. key, unpack(ids))) do members[index] = score or members[index] end
  end
  return members
end

function filters.none(ids, keys)
  local others, members = filters.any(ids, keys), {}
  for index = 1, #ids do members[index] = not others[index] end
  return members
end

function filters.live(ids)
  return values('live', ids)
end

local lanes_read = {}
local function executor_of(state)
  local lane = state and string.match(state, '^%["[^"]*","(%[.-%])","')
  if not lane then return nil end
  if lanes_read[lane] == nil then
    local fine, read = pcall(function() return decode(decode('["' .. lane .. '"]')[1])[1] end)
    lanes_read[lane] = fine and read or false
  end
  return lanes_read[lane]
end

function filters.executor(ids, name)
  local members = {}
  for index, state in ipairs(values('heads', ids)) do members[index] = executor_of(state) == name end
  return members
end

-- Return when jobs are due, as their states tell: while an owner plans a job, its lane has another time. -1 if they are not.
local function due_times(ids)
  local times = {}
  for index, state in ipairs(values('heads', ids)) do
    local due = state and string.match(state, '^%["[^"]*","%[.-%]","(%-?%d+)","')
    times[index] = due or '-1'
  end
  return times
end

function filters.due(ids, stop)
  local members, before = {}, tonumber(stop or nil)
  for index, due in ipairs(due_times(ids)) do
    members[index] = due ~= '-1' and (not before or tonumber(due) < before)
  end
  return members
end

function filters.text(ids, part)
  local members = {}
  local lower = string.lower
  for index, facts in ipairs(values('facts', ids)) do
    if find(lower(ids[index]), part, 1, true) then
      members[index] = true
    elseif facts and find(facts, part, 1, true) then
      local labels = find(facts, '\n', 1, true) or 0
      members[index] = find(facts, part, (find(facts, '\n', labels + 1, true) or 0) + 1, true)
    end
  end
  return members
end

local function sifted(ids, asked)
  for _, filter in ipairs(asked) do
    if #ids == 0 then break end
    local members, kept, size = filters[filter[1]](ids, filter[2]), {}, 0
    for index = 1, #ids do
      if members[index] then
        size = size + 1
        kept[size] = ids[index]
      end
    end
    ids = kept
  end
  return ids
end

-- Return what is wanted of ids: how many they are, or they and their times.
local function told(ids, wanted, key)
  if wanted == 'count' then return #ids, {} end
  if wanted == 'due' then return ids, due_times(ids) end
  return ids, #ids > 0 and call('ZMSCORE', P .. key, unpack(ids)) or {}
end

function steps.walk()
  local size, wanted, asked, portions = tonumber(ARGV[6]), ARGV[7], decode(ARGV[8]), {}
  for index, list in ipairs(decode(ARGV[5])) do
    local ids, last = portion_of(list, size)
    local kept, times = told(sifted(ids, asked), wanted, list[1])
    portions[index] = {kept, times, last}
  end
  return encode(portions)
end

function steps.sift()
  return encode({told(sifted(decode(ARGV[5]), decode(ARGV[7])), ARGV[6])})
end

function steps.survey()
  local found = {}
  for _, name in ipairs(decode(ARGV[5])) do
    found[name] = name == 'due' and call('ZRANGE', P .. 'due', 0, -1) or call('SMEMBERS', P .. name)
  end
  return encode({found, call('HLEN', P .. 'live')})
end

-- Each list is [key, end]: only what comes before that time counts, if it is not false.
function steps.sizes()
  local sizes = {}
  for index, list in ipairs(decode(ARGV[5])) do
    sizes[index] = call('ZCOUNT', P .. list[1], '-inf', list[2] and '(' .. list[2] or '+inf')
  end
  return encode(sizes)
end

function steps.attempts()
  local run_id, job_id, newest, places = ARGV[5], ARGV[6], ARGV[7], {}
  if newest == '' then newest = job_id .. '\0\255' end
  local found = call('ZREVRANGEBYLEX', P .. 'history:jobs', '(' .. newest, '[' .. job_id .. '\0', 'LIMIT', 0, 1000)
  local first = #job_id + 23  -- behind job id, NUL, end, NUL
  for _, member in ipairs(found) do
    if string.sub(member, first, first + #run_id) == run_id .. '\0' then
      places[#places + 1] = string.sub(member, first) .. '\0' .. string.sub(member, #job_id + 2, first - 2)
    end
  end
  return encode({places, #found == 1000 and found[1000]})
end

function steps.find_record()
  local run_id, first = ARGV[5], tonumber(ARGV[7])
  local found = call('ZREVRANGE', P .. ARGV[6], first, first + 999)
  for index, place in ipairs(found) do
    if string.sub(place, 1, #run_id + 1) == run_id .. '\0' then return encode({place, first + index}) end
  end
  return encode({false, #found == 1000 and first + 1000 or cjson.null})
end
