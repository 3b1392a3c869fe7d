-- What a program in another language reads about a job: names and values, as HGETALL answers. Nothing for a job that is
-- neither there nor in the history. The store keeps this text in the key "show"; a program runs it by
-- EVAL <this text> 1 <prefix of the keys> <job id>. Times are whole microseconds since 1970. It needs no other file.

local P, job_id, call = KEYS[1], ARGV[1], redis.call
local shown = {}

local function show(name, value)
  if value == nil or value == false or value == cjson.null or value == '' then return end
  shown[#shown + 1] = name
  shown[#shown + 1] = type(value) == 'number' and string.format('%.0f', value) or tostring(value)
end

local function read(text)
  local fine, value = pcall(cjson.decode, text or '')
  return fine and type(value) == 'table' and value or nil
end

local function plain(text)
  local value = read('[' .. (text == '' and 'null' or text or 'null') .. ']')
  return value and value[1]
end

local function show_run(run_id)
  local state, text = read(call('HGET', P .. 'run_heads', run_id)), call('HGET', P .. 'runs', run_id)
  local head = text and read(string.match(text, '^%b[]'))
  if not state then return end
  show('run', run_id)
  show('due', state[3])
  show('owner', state[4])
  show('attempts', head and head[7])
end

local function newest_record()
  local found = call('ZREVRANGEBYLEX', P .. 'history:jobs', '(' .. job_id .. '\0\255', '[' .. job_id .. '\0', 'LIMIT', 0, 1)[1]
  if not found then return nil end
  local place = string.sub(found, #job_id + 23) .. '\0' .. string.sub(found, #job_id + 2, #job_id + 21)
  return read(call('HGET', P .. 'records', place))
end

local state, definition = read(call('HGET', P .. 'heads', job_id)), read(call('HGET', P .. 'jobs', job_id))
local labels = read(string.match(call('HGET', P .. 'facts', job_id) or '', '^[^\n]*'))
local kind = labels and read(string.sub(labels[1] or '', 6))
local stats, record = read(call('HGET', P .. 'lives', job_id)) or {}, newest_record()
local live = string.match(call('HGET', P .. 'live', job_id) or '', '%Z+')
local waiting = call('HKEYS', P .. 'pending:' .. job_id)[1]
if not (state or record or live or waiting) then return shown end

local status
if live then status = 'running'
elseif waiting then status = 'pending'
elseif not state then status = record[14]
elseif state[7] ~= '' then status = 'suspended'
elseif state[3] ~= '' then status = 'scheduled'
elseif state[10] == '' then
  status = 'paused'
  for _, label in ipairs(labels or {}) do
    if label == 'follows:' then status = 'waiting' end
  end
else status = stats[5] == 'succeeded' and 'completed' or 'failed' end

show('status', status)
show('task', kind and kind[2] or record and record[5])
show('name', definition and definition.name or record and record[4])
show('executor', kind and kind[1] or record and record[7])
if live or waiting then show_run(live or waiting) else show('due', state and state[3]) end
show('suspended', state and plain(state[7]))
show('paused by', state and plain(state[9]))
show('run count', stats[1])
show('last run', stats[2])
show('last success', stats[3])
show('last outcome', stats[5] or record and record[14])
show('last error', plain(stats[4]) or record and record[17] ~= '' and record[17])
if not (live or waiting) and record then
  show('run', record[2])
  show('attempts', record[9])
  show('owner', record[22])
  show('ended', record[12])
end
return shown
