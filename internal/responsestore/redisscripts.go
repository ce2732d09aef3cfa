package responsestore

import "github.com/redis/go-redis/v9"

// Each use of Redis runs one of these scripts, in one round trip. A script runs as a whole or not
// at all. All keys of a user begin with KEYS[1], here <user>, which has a hash tag. So they are in
// one slot of a cluster, and one script may use all of them.
//
//	<user>r:<id>  a hash: the entry, and the owner of a response that runs or ran in the background
//	<user>i:<id>  a list: the items of a conversation, or the input of a response, in pieces: JSON
//	              arrays of some items each
//	<user>l:<id>  the lease of the owner, a key that expires if the owner does not renew it
//	<user>e:<id>  a stream: the events of a background response; event n has the id 0-(n+1)
//	<user>ends    a sorted set: the ids of the user's entries, by the times at which they expire
//	<user>streams a sorted set: the ids of responses, by the times at which their events expire
//	<user>sizes   a hash: the bytes of each entry, with its events; "total" has the sum
//
// If the memory of Redis is full, Redis refuses a command that needs memory, unless the same script
// has written something before. Therefore, if a script stores something, the first command that
// writes is one that needs memory.

// sizingFunctions is the beginning of each script that changes how many bytes a user has. If the
// user has too many bytes, the script drops the oldest entries of the user, but at most 1000, since
// all clients of Redis wait while a script runs. For the same reason, a conversation has at most
// mostItems items: the removal of an item takes longer if there are many.
const sizingFunctions = `
local mostItems = 20000
local ends, sizes, streams = KEYS[1] .. 'ends', KEYS[1] .. 'sizes', KEYS[1] .. 'streams'
local function resize(id, bytes)
	bytes = bytes + (redis.call('HGET', KEYS[1] .. 'r:' .. id, 'streamed') or 0)
	local before = tonumber(redis.call('HGET', sizes, id) or '0')
	redis.call('HSET', sizes, id, bytes)
	redis.call('HINCRBY', sizes, 'total', bytes - before)
end
local function drop(id)
	local found = redis.call('UNLINK', KEYS[1] .. 'r:' .. id)
	for _, kind in ipairs({'i:', 'l:', 'e:'}) do redis.call('UNLINK', KEYS[1] .. kind .. id) end
	redis.call('ZREM', streams, id)
	if redis.call('ZREM', ends, id) == 1 then
		resize(id, 0)
		redis.call('HDEL', sizes, id)
	end
	return found
end
local function fit(id, most)
	local time = redis.call('TIME')
	for _, ended in ipairs(redis.call('ZRANGE', streams, '-inf', time[1] * 1000, 'BYSCORE', 'LIMIT', 0, 1000)) do
		redis.call('ZREM', streams, ended)
		redis.call('HDEL', KEYS[1] .. 'r:' .. ended, 'streamed')
		resize(ended, redis.call('HGET', KEYS[1] .. 'r:' .. ended, 'bytes') or 0)
	end
	for _, ended in ipairs(redis.call('ZRANGE', ends, '-inf', time[1] * 1000, 'BYSCORE', 'LIMIT', 0, 1000)) do drop(ended) end
	for _ = 1, 1000 do
		local oldest = redis.call('ZRANGE', ends, 0, 1)
		local other = oldest[1] ~= id and oldest[1] or oldest[2]
		if not other or tonumber(redis.call('HGET', sizes, 'total')) <= most then return end
		drop(other)
	end
end
local function streamed(id, size, keep)
	local key, time = KEYS[1] .. 'r:' .. id, redis.call('TIME')
	redis.call('HINCRBY', key, 'streamed', size)
	redis.call('ZADD', streams, string.format('%.0f', time[1] * 1000 + keep + 1000), id)
	redis.call('PEXPIRE', streams, math.max(redis.call('PTTL', streams), redis.call('PTTL', key)))
	resize(id, redis.call('HGET', key, 'bytes'))
end
`

// pagingFunction is the beginning of each script that reads a page of the list of an entry. Its
// answer is the index after the page, and the elements of the page in which text occurs.
const pagingFunction = `
local function page(id, from, text)
	local answer, bytes, step = {from}, 0, 1
	while bytes < 262144 do
		local items = redis.call('LRANGE', KEYS[1] .. 'i:' .. id, from, from + step - 1)
		for _, item in ipairs(items) do
			if string.find(item, text, 1, true) then table.insert(answer, item) end
			bytes = bytes + #item + 64
		end
		from = from + #items
		if #items < step then break end
		step = #items[1] < 16384 and 4 or 1
	end
	answer[1] = from
	return answer
end
`

// putScript stores an entry. Arguments: id, me (the process), age, lease (0 for an entry that is
// not running), the bytes that the user may have, the bytes of the entry, length of the list, its
// elements, and then the fields of the hash and their values.
var putScript = redis.NewScript(sizingFunctions + `
local key, list, lease = KEYS[1] .. 'r:' .. ARGV[1], KEYS[1] .. 'i:' .. ARGV[1], KEYS[1] .. 'l:' .. ARGV[1]
local owner = redis.call('HGET', key, 'owner')
if owner and owner ~= ARGV[2] then return 'ended' end
local items, bytes, most = tonumber(ARGV[7]), tonumber(ARGV[6]), tonumber(ARGV[5])
if bytes > most or items > mostItems and string.find(ARGV[1], '^conv_') then return 'large' end
for i = 8 + items, #ARGV, 2 do redis.call('HSET', key, ARGV[i], ARGV[i + 1]) end
redis.call('UNLINK', list)
for i = 8, 7 + items do redis.call('RPUSH', list, ARGV[i]) end
local time = redis.call('TIME')
redis.call('ZADD', ends, string.format('%.0f', time[1] * 1000 + ARGV[3] + 1000), ARGV[1])
resize(ARGV[1], bytes)
fit(ARGV[1], most)
for _, k in ipairs({key, list, ends, sizes}) do redis.call('PEXPIRE', k, ARGV[3]) end
if ARGV[4] ~= '0' then
	redis.call('HSET', key, 'owner', ARGV[2])
	redis.call('SET', lease, ARGV[2], 'PX', ARGV[4])
end
return 'done'`)

// getScript reads an entry or a part of it. Arguments: id, the part ("head": without items; "text":
// without output, and only the elements of the list in which the text occurs; "all"), the text, limit
// in bytes. The answer is the fields of the entry, 1 if there is a lease, the length of the list that
// is to be read, and the first page of the list. If what is to be read may be larger than the limit,
// the answer is only its size in bytes.
var getScript = redis.NewScript(pagingFunction + `
local key, part = KEYS[1] .. 'r:' .. ARGV[1], ARGV[2]
local bytes = part == 'head' and redis.call('HSTRLEN', key, 'response') or tonumber(redis.call('HGET', key, 'bytes') or '0')
if bytes > tonumber(ARGV[4]) then return bytes end
local fields = part == 'all' and redis.call('HGETALL', key) or {}
if part ~= 'all' then
	for _, name in ipairs({'previous', 'conversation', 'running', 'response', 'bytes', 'events', 'over', 'removed'}) do
		table.insert(fields, name)
		table.insert(fields, redis.call('HGET', key, name) or '')
	end
end
local lease = redis.call('EXISTS', KEYS[1] .. 'l:' .. ARGV[1])
if part == 'head' then return {fields, lease, 0, {0}} end
return {fields, lease, redis.call('LLEN', KEYS[1] .. 'i:' .. ARGV[1]), page(ARGV[1], 0, ARGV[3])}`)

// pageScript reads a further page of a list. Arguments: id, index of the first element to read, how
// often an item was removed before, a text. The answer is a page, or none if another item was removed
// meanwhile.
var pageScript = redis.NewScript(pagingFunction + `
if (redis.call('HGET', KEYS[1] .. 'r:' .. ARGV[1], 'removed') or '0') ~= ARGV[3] then return {} end
return page(ARGV[1], tonumber(ARGV[2]), ARGV[4])`)

// chainScript reads a chain: a response and the responses that it follows, each a link. Arguments:
// id, the links that the chain may have, the bytes that it may have, limit of bytes. The answer is a
// list of the first links, of a MiB together at most, and the id of the next link. Each link is its id,
// its conversation, the pieces of its input, and then its output items. If the links in the list have
// more bytes than the limit, the answer is only their number of bytes. If the chain has more than it
// may have, the answer is -1.
var chainScript = redis.NewScript(`
local found, id, bytes = {}, ARGV[1], 0
while id ~= '' do
	local e = redis.call('HMGET', KEYS[1] .. 'r:' .. id, 'bytes', 'running', 'previous', 'conversation', 'n')
	if not e[1] or e[2] == '1' then break end
	if #found == tonumber(ARGV[2]) then return -1 end
	bytes = bytes + tonumber(e[1])
	table.insert(found, {id, e[4], tonumber(e[5]), tonumber(e[1])})
	id = e[3]
end
if bytes > tonumber(ARGV[3]) then return -1 end
local links, size = {}, 0
for _, f in ipairs(found) do
	if size + f[4] > 1048576 then
		id = f[1]
		break
	end
	size = size + f[4]
	local key = KEYS[1] .. 'r:' .. f[1]
	local link = {f[1], f[2], redis.call('LRANGE', KEYS[1] .. 'i:' .. f[1], 0, -1)}
	for i = 1, f[3] do table.insert(link, redis.call('HGET', key, 'o' .. i)) end
	table.insert(links, link)
end
if size > tonumber(ARGV[4]) then return size end
return {links, id}`)

// deleteScript drops an entry. Argument: id.
var deleteScript = redis.NewScript(sizingFunctions + `return drop(ARGV[1])`)

// appendScript adds items to a conversation. Arguments: id, token, the bytes that the conversation
// may have, overhead of an item, the bytes that the user may have, items. A call that got no answer
// is made again with the same token. The script keeps the tokens of the last calls, so that it does
// not add the items twice.
var appendScript = redis.NewScript(sizingFunctions + `
local key, list = KEYS[1] .. 'r:' .. ARGV[1], KEYS[1] .. 'i:' .. ARGV[1]
local bytes = tonumber(redis.call('HGET', key, 'bytes') or '-1')
if bytes < 0 then return 'missing' end
local tokens = redis.call('HGET', key, 'tokens') or ''
if string.find(tokens, ARGV[2], 1, true) then return 'done' end
for i = 6, #ARGV do bytes = bytes + #ARGV[i] + tonumber(ARGV[4]) end
if bytes > math.min(tonumber(ARGV[3]), tonumber(ARGV[5])) or redis.call('LLEN', list) + #ARGV - 5 > mostItems then return 'large' end
for i = 6, #ARGV do redis.call('RPUSH', list, ARGV[i]) end
redis.call('HSET', key, 'bytes', bytes, 'tokens', string.sub(ARGV[2] .. tokens, 1, 64 * #ARGV[2]))
redis.call('PEXPIRE', list, redis.call('PTTL', key))
resize(ARGV[1], bytes)
fit(ARGV[1], tonumber(ARGV[5]))
return 'done'`)

// removeScript removes an item from a conversation. Arguments: id, item, overhead of an item.
var removeScript = redis.NewScript(sizingFunctions + `
local key = KEYS[1] .. 'r:' .. ARGV[1]
if redis.call('LREM', KEYS[1] .. 'i:' .. ARGV[1], 1, ARGV[2]) == 0 then return 'missing' end
redis.call('HINCRBY', key, 'removed', 1)
resize(ARGV[1], redis.call('HINCRBY', key, 'bytes', -(#ARGV[2] + tonumber(ARGV[3]))))
return 'done'`)

// objectScript replaces the object of a conversation. Arguments: id, object, the bytes that the
// conversation may have, the bytes that the user may have.
var objectScript = redis.NewScript(sizingFunctions + `
local key = KEYS[1] .. 'r:' .. ARGV[1]
local bytes = tonumber(redis.call('HGET', key, 'bytes') or '-1')
if bytes < 0 then return 'missing' end
bytes = bytes + #ARGV[2] - redis.call('HSTRLEN', key, 'response')
if bytes > math.min(tonumber(ARGV[3]), tonumber(ARGV[4])) then return 'large' end
redis.call('HSET', key, 'response', ARGV[2], 'bytes', bytes)
resize(ARGV[1], bytes)
fit(ARGV[1], tonumber(ARGV[4]))
return 'done'`)

// continueScript stores new events of a response, and renews the lease of its owner. Arguments: id,
// me (the process), lease, time to keep events, channel, number of the first event, 1 if no more
// events come, most bytes of a user, overhead of an event, and names and data of the events. Events
// for which the user has no room are left out. If no more events come, the lease ends.
var continueScript = redis.NewScript(sizingFunctions + `
local key, lease, stream = KEYS[1] .. 'r:' .. ARGV[1], KEYS[1] .. 'l:' .. ARGV[1], KEYS[1] .. 'e:' .. ARGV[1]
local e = redis.call('HMGET', key, 'owner', 'events', 'cancel', 'bytes', 'streamed')
if not e[4] then return 'missing' end
if e[1] ~= ARGV[2] then return 'ended' end
local at = tonumber(e[2] or '0')
local full = redis.pcall('HSET', key, 'events', at)
if type(full) == 'table' then
	redis.call('PEXPIRE', lease, ARGV[3])
	return full
end
local most, size, fits = tonumber(ARGV[8]), 0, true
for i = 10, #ARGV, 2 do
	local number, bytes = tonumber(ARGV[6]) + (i - 10) / 2, #ARGV[i] + #ARGV[i + 1] + ARGV[9]
	if number >= at then
		fits = fits and e[4] + (e[5] or 0) + size + bytes <= most
		if fits then
			redis.call('XADD', stream, '0-' .. string.format('%d', number + 1), 'n', ARGV[i], 'd', ARGV[i + 1])
			size = size + bytes
		end
		at = number + 1
	end
end
redis.call('HSET', key, 'events', at)
if size > 0 then
	streamed(ARGV[1], size, ARGV[4])
	fit(ARGV[1], most)
end
redis.call('PEXPIRE', stream, ARGV[4])
if ARGV[7] == '1' then
	redis.call('HSET', key, 'over', '1')
	redis.call('DEL', lease)
else
	redis.call('SET', lease, ARGV[2], 'PX', ARGV[3])
end
if #ARGV > 9 or ARGV[7] == '1' then redis.call('PUBLISH', ARGV[5], ARGV[1]) end
return e[3] and 'cancel' or 'done'`)

// loseScript stores that a response has failed, since its owner does not continue it. Arguments:
// id, response, time to keep events, channel, number of the event of the failure, its name, its
// data. The script does nothing if the owner has continued the response meanwhile.
var loseScript = redis.NewScript(sizingFunctions + `
local key, stream = KEYS[1] .. 'r:' .. ARGV[1], KEYS[1] .. 'e:' .. ARGV[1]
local e = redis.call('HMGET', key, 'running', 'events', 'over')
if e[1] ~= '1' or redis.call('EXISTS', KEYS[1] .. 'l:' .. ARGV[1]) == 1 or tonumber(e[2] or '0') ~= tonumber(ARGV[5]) then return 'done' end
redis.call('HSET', key, 'running', '0', 'owner', 'nobody', 'response', ARGV[2])
if e[3] then return 'done' end
redis.call('HSET', key, 'over', '2', 'events', ARGV[5] + 1)
redis.call('XADD', stream, '0-' .. string.format('%d', ARGV[5] + 1), 'n', ARGV[6], 'd', ARGV[7])
redis.call('PEXPIRE', stream, ARGV[3])
streamed(ARGV[1], #ARGV[7], ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[1])
return 'done'`)

// cancelScript asks the owner of a response to cancel it. Arguments: id, channel.
var cancelScript = redis.NewScript(`
local key = KEYS[1] .. 'r:' .. ARGV[1]
if redis.call('EXISTS', key) == 0 then return 'missing' end
redis.call('HSET', key, 'cancel', '1')
redis.call('PUBLISH', ARGV[2], ARGV[1])
return 'done'`)

// eventsScript reads some events of a response. Arguments: id, number of the first event, most bytes
// of events, bytes of an event besides its data. The answer is 1 if there is a lease; the number of
// all events until now; 0 if more events come, 1 if none come, or 2 if none come because the owner was
// lost; the size of the first event if that is above the limit, or 0; and the names and data of some
// events.
var eventsScript = redis.NewScript(`
local e = redis.call('HMGET', KEYS[1] .. 'r:' .. ARGV[1], 'running', 'events', 'over', 'bytes')
if not e[4] then return 'missing' end
local answer = {redis.call('EXISTS', KEYS[1] .. 'l:' .. ARGV[1]), tonumber(e[2] or '0'), tonumber(e[3] or '0'), 0}
local bytes, next = 0, tonumber(ARGV[2])
for _, event in ipairs(redis.call('XRANGE', KEYS[1] .. 'e:' .. ARGV[1], '0-' .. string.format('%d', next + 1), '+', 'COUNT', 64)) do
	if event[1] ~= '0-' .. string.format('%d', next + 1) then break end
	bytes = bytes + #event[2][4] + tonumber(ARGV[4])
	if bytes > tonumber(ARGV[3]) then
		if #answer == 4 then answer[4] = bytes end
		break
	end
	next = next + 1
	table.insert(answer, event[2][2])
	table.insert(answer, event[2][4])
end
return answer`)

// operations are the names of the scripts in metrics. Scripts of other packages count.
var operations = map[*redis.Script]string{
	putScript: "put", getScript: "get", pageScript: "get", chainScript: "chain", deleteScript: "delete",
	appendScript: "append", removeScript: "remove", objectScript: "update",
	continueScript: "continue", loseScript: "lose", cancelScript: "cancel", eventsScript: "events",
}
