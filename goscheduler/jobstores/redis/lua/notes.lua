-- Notes: small texts by kind and key.
--
--   put_note kind key text how expected      how is any, none or same: what may be there; 1, or 0 if something else is
--   remove_note kind key
--   newest_notes kind before limit           key and text of each, descending by key; before is false or a text, as JSON
--   prune_notes kind before limit            removes the first ones; how many

function steps.put_note()
  local kind, key, how = ARGV[5], ARGV[6], ARGV[8]
  local stored = how ~= 'any' and call('HGET', P .. 'notes:' .. kind, key)
  if (how == 'none' and stored) or (how == 'same' and stored ~= ARGV[9]) then return 0 end
  call('HSET', P .. 'notes:' .. kind, key, ARGV[7])
  call('ZADD', P .. 'noted:' .. kind, 0, key)
  return 1
end

function steps.remove_note()
  call('HDEL', P .. 'notes:' .. ARGV[5], ARGV[6])
  return call('ZREM', P .. 'noted:' .. ARGV[5], ARGV[6])
end

function steps.newest_notes()
  local before = decode(ARGV[6])[1]
  local keys = call(
    'ZREVRANGEBYLEX', P .. 'noted:' .. ARGV[5], before and '(' .. before or '+', '-', 'LIMIT', 0, ARGV[7]
  )
  local found = {}
  for index, note in ipairs(values('notes:' .. ARGV[5], keys)) do found[index] = {keys[index], note} end
  return #found > 0 and encode(found) or '[]'
end

function steps.prune_notes()
  local keys = call('ZRANGEBYLEX', P .. 'noted:' .. ARGV[5], '-', '(' .. ARGV[6], 'LIMIT', 0, ARGV[7])
  for _, key in ipairs(keys) do
    call('HDEL', P .. 'notes:' .. ARGV[5], key)
    call('ZREM', P .. 'noted:' .. ARGV[5], key)
  end
  return #keys
end
