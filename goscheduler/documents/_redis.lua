-- The steps of the Redis document store. Each is atomic.
--
-- KEYS[1]  index   sorted set: id of a document -> its sleepUntil; what is in it is looked at, the hash decides
-- KEYS[2]  bad     set: ids of documents whose sleepUntil is no number; taken out by whoever sees that it is one
-- <prefix><id>     hash: a document of the user's; sleepUntil is seconds since 1970 as decimal text, '' for null
--
-- ARGV: step, prefix, field, then what the step needs: an id or two times, and so on; for the steps that look for
-- documents the fields and values of the condition come last

local index, bad = KEYS[1], KEYS[2]
local step, prefix, field = ARGV[1], ARGV[2], ARGV[3]
local LOOKED_AT_ONCE, COUNTED_AT_ONCE = 200, 1000
local FIRST, LAST = -62135510400, 253402214400

local function held_by(id)
  if redis.call('TYPE', prefix .. id).ok ~= 'hash' then
    return nil
  end
  local value = redis.call('HGET', prefix .. id, field)
  return value and value ~= '' and value or nil
end

-- A number beyond the years 1 to 9999 is no time; milliseconds, for example, are not seconds.
local function number_in(text)
  local number = text and #text < 20 and string.match(text, '^%-?%d+%.?%d*$') and tonumber(text)
  return number and number > FIRST and number < LAST and number or nil
end

-- Make the index agree with the hash; returns the time if there is one.
local function indexed(id)
  local value = held_by(id)
  local at = number_in(value)
  if at then
    redis.call('ZADD', index, at, id)
    redis.call('SREM', bad, id)
    return at
  end
  redis.call('ZREM', index, id)
  redis.call(value and 'SADD' or 'SREM', bad, id)
  return nil
end

-- Whether a document has the values that ARGV names from a place on; a field that it lacks is ''.
local function is_wanted(id, place)
  for each = place, #ARGV, 2 do
    if (redis.call('HGET', prefix .. id, ARGV[each]) or '') ~= ARGV[each + 1] then
      return false
    end
  end
  return true
end

-- Lock the first document that is due and wanted, passing over those at the head of the index that were passed over
-- before; returns how many those are if there may be more behind them.
local function lock_next(now, lock, passed)
  for _ = 1, LOOKED_AT_ONCE do
    local id, score = unpack(redis.call('ZRANGE', index, passed, passed, 'WITHSCORES'))
    if not id or tonumber(score) > now then
      return {}
    end
    local at = indexed(id)
    if at and at <= now and is_wanted(id, 7) then
      local content = redis.call('HGETALL', prefix .. id)
      redis.call('HSET', prefix .. id, field, lock)
      redis.call('ZADD', index, lock, id)
      return {id, content}
    elseif at and at <= tonumber(score) then
      passed = passed + 1
    end
  end
  return {passed}
end

-- The documents behind a number of places of the index, with what is in their other three fields; the first entry is
-- how many places were looked at. Nothing is mended, so that no place changes between two calls.
local function upcoming(passed)
  local ids = redis.call('ZRANGE', index, passed, passed + LOOKED_AT_ONCE - 1)
  local found = {#ids}
  for _, id in ipairs(ids) do
    local value = held_by(id)
    if number_in(value) and is_wanted(id, 8) then
      local others = redis.call('HMGET', prefix .. id, ARGV[5], ARGV[6], ARGV[7])
      found[#found + 1] = {id, value, others[1] or '', others[2] or '', others[3] or ''}
    end
  end
  return found
end

-- How many of the places behind a number of them were looked at that the index says are due, and how many of them are.
local function count_due(now, passed)
  local ids = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', passed, COUNTED_AT_ONCE)
  local due = 0
  for _, id in ipairs(ids) do
    local at = number_in(held_by(id))
    if at and at <= tonumber(now) and is_wanted(id, 6) then due = due + 1 end
  end
  return {#ids, due}
end

-- A few documents without a time, at random if there are many.
local function malformed(limit)
  local found = {}
  for _, id in ipairs(redis.call('SRANDMEMBER', bad, math.max(LOOKED_AT_ONCE, limit))) do
    if not indexed(id) and #found < limit and held_by(id) and is_wanted(id, 5) then
      found[#found + 1] = {id, held_by(id)}
    end
  end
  return found
end

if step == 'lock_next' then
  return lock_next(tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]))
elseif step == 'malformed' then
  return malformed(tonumber(ARGV[4]))
elseif step == 'upcoming' then
  return upcoming(tonumber(ARGV[4]))
elseif step == 'count_due' then
  return count_due(ARGV[4], tonumber(ARGV[5]))
elseif step == 'index' then
  return indexed(ARGV[4]) and 1 or 0
elseif held_by(ARGV[4]) ~= ARGV[5] then
  return 0
elseif step == 'update' then
  redis.call('HSET', prefix .. ARGV[4], field, ARGV[6])
  indexed(ARGV[4])
  return 1
elseif step == 'remove' then
  redis.call('DEL', prefix .. ARGV[4])
  redis.call('ZREM', index, ARGV[4])
  return 1
end
return redis.error_reply('unknown step')
