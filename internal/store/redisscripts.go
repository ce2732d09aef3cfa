package store

import "github.com/redis/go-redis/v9"

// Each use of Redis runs one of these scripts, in one round trip. A script runs as a whole or not
// at all. All keys of a user begin with KEYS[1], here <user>, which has a hash tag. So they are in
// one slot of a cluster, and one script may use all of them.
//
//	<user>v:<id>  a hash: the entry with its value, and its owner
//	<user>i:<id>  a hash: the items, by their numbers
//	<user>e:<id>  a hash: the events, by their numbers
//	<user>l:<id>  the lease of the owner, a key that expires if the owner does not renew it
//	<user>ends    a sorted set: the ids of the user's entries, by the times at which they expire
//	<user>streams a sorted set: the ids of entries with events, by the times at which these expire
//	<user>sizes   a hash: the bytes of each entry by its id, and those of its events by the id after
//	              "e:"; "total" has the sum
//
// If the memory of Redis is full, Redis refuses a command that needs memory, unless the same script
// has written something before. Therefore, if a script stores something, the first command that
// writes is one that needs memory.
//
// If somebody has damaged an entry, only uses of this entry fail: what a script needs of other entries
// is in <user>sizes.

// sizingFunctions is the beginning of each script that changes how many bytes a user has. If the
// user has too many bytes, the script drops the oldest entries of the user, but at most 1000, since
// all clients of Redis wait while a script runs. For the same reason, an entry has at most mostItems
// items.
const sizingFunctions = `
local mostItems = 20000
local ends, sizes, streams = KEYS[1] .. 'ends', KEYS[1] .. 'sizes', KEYS[1] .. 'streams'
local function resize(of, bytes)
	local before = tonumber(redis.call('HGET', sizes, of) or '0')
	redis.call('HSET', sizes, of, bytes)
	redis.call('HINCRBY', sizes, 'total', bytes - before)
end
local function forget(of)
	resize(of, 0)
	redis.call('HDEL', sizes, of)
end
local function drop(id)
	local found = redis.call('UNLINK', KEYS[1] .. 'v:' .. id)
	for _, kind in ipairs({'i:', 'e:', 'l:'}) do redis.call('UNLINK', KEYS[1] .. kind .. id) end
	redis.call('ZREM', streams, id)
	if redis.call('ZREM', ends, id) == 1 then
		forget(id)
		forget('e:' .. id)
	end
	return found
end
local function old(set)
	return ipairs(redis.call('ZRANGE', set, '-inf', redis.call('TIME')[1] * 1000, 'BYSCORE', 'LIMIT', 0, 1000))
end
local function fit(id, most)
	for _, ended in old(streams) do
		redis.call('ZREM', streams, ended)
		forget('e:' .. ended)
	end
	for _, ended in old(ends) do drop(ended) end
	for _ = 1, 1000 do
		local oldest = redis.call('ZRANGE', ends, 0, 1)
		local other = oldest[1] ~= id and oldest[1] or oldest[2]
		if not other or tonumber(redis.call('HGET', sizes, 'total')) <= most then return end
		drop(other)
	end
end
local function add(items, number, first)
	for i = first, #ARGV, 1000 do
		local pairs = {}
		for j = i, math.min(i + 999, #ARGV) do
			table.insert(pairs, number + j - first)
			table.insert(pairs, ARGV[j])
		end
		redis.call('HSET', items, unpack(pairs))
	end
end
local function expire(set, id, time)
	redis.call('ZADD', set, string.format('%.0f', redis.call('TIME')[1] * 1000 + time + 1000), id)
end
`

// putScript stores an entry. Arguments: id, the bytes that the user may have, who stores it, lease, 1 if
// this owner begins, 1 to keep the items and the age, age, the bytes of the entry (if its items are kept:
// the most bytes that it may have), about, link, value, items.
var putScript = redis.NewScript(sizingFunctions + `
local key, items, lease = KEYS[1] .. 'v:' .. ARGV[1], KEYS[1] .. 'i:' .. ARGV[1], KEYS[1] .. 'l:' .. ARGV[1]
local most, owner, keep, bytes = tonumber(ARGV[2]), ARGV[3], ARGV[6] == '1', tonumber(ARGV[8])
local e = redis.call('HMGET', key, 'owner', 'bytes')
if keep and not e[2] then return 'missing' end
if e[1] and e[1] ~= owner then return 'ended' end
if keep then
	most = math.min(most, bytes)
	bytes = e[2] + #ARGV[11] - redis.call('HSTRLEN', key, '0')
end
if bytes > most or #ARGV - 11 > mostItems then return 'large' end
redis.call('HSET', key, 'about', ARGV[9], '0', ARGV[11], 'bytes', bytes)
if not keep then
	redis.call('HSET', key, 'link', ARGV[10], 'i', #ARGV - 11)
	redis.call('HDEL', key, 'gone')
	redis.call('UNLINK', items)
	add(items, 0, 12)
	expire(ends, ARGV[1], ARGV[7])
end
resize(ARGV[1], bytes)
fit(ARGV[1], tonumber(ARGV[2]))
if not keep then
	for _, k in ipairs({key, items, ends, sizes}) do redis.call('PEXPIRE', k, ARGV[7]) end
end
if ARGV[5] == '1' then redis.call('HSET', key, 'owner', owner) end
if ARGV[4] ~= '0' and (ARGV[5] == '1' or e[1]) then redis.call('SET', lease, owner, 'PX', ARGV[4]) end
return 'done'`)

// readScript reads pages. Arguments: id, part, number of the first record, limit of bytes, links,
// overhead of a record, text. Each page is the id, about, link, the bytes of the entry, who has ended the
// events, 1 if there is a lease, the number of the next record, the size of the first record if that
// is above the limit, or 0, and the records.
var readScript = redis.NewScript(`
local pages, id, part, from, left = {}, ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
for _ = 0, tonumber(ARGV[5]) do
	local e = redis.pcall('HMGET', KEYS[1] .. 'v:' .. id, 'about', 'link', 'bytes', 'ended', part)
	if e.err or not e[3] then break end
	local next, larger, records = part == 'v' and 1 or tonumber(e[5] or '0'), 0, {}
	while from < next do
		local key, number = KEYS[1] .. part .. ':' .. id, string.format('%d', from)
		local size = redis.pcall('HSTRLEN', key, number)
		if type(size) == 'table' then break end
		size = size + ARGV[6]
		if size > left then
			larger = #records == 0 and size or 0
			break
		end
		local record = redis.call('HGET', key, number)
		if not record then break end
		table.insert(records, string.find(record, ARGV[7], 1, true) and record or '')
		from, left = from + 1, left - size
	end
	if larger > 0 and #pages > 0 then break end
	local leased = redis.call('EXISTS', KEYS[1] .. 'l:' .. id)
	table.insert(pages, {id, e[1] or '', e[2] or '', tonumber(e[3]), e[4] or '', leased, next, larger, records})
	if from < next or not e[2] or e[2] == '' then break end
	id, from = e[2], 0
end
return pages`)

// deleteScript drops an entry, or empties one of its items. Arguments: id, number of the item or -1.
var deleteScript = redis.NewScript(sizingFunctions + `
if ARGV[2] == '-1' then return drop(ARGV[1]) == 1 and 'done' or 'missing' end
local key, items = KEYS[1] .. 'v:' .. ARGV[1], KEYS[1] .. 'i:' .. ARGV[1]
local size = redis.call('HSTRLEN', items, ARGV[2])
if size == 0 then return 'missing' end
redis.call('HDEL', items, ARGV[2]) -- needs no memory
redis.call('HSET', items, ARGV[2], '')
redis.call('PEXPIRE', items, redis.call('PTTL', key)) -- the key is new if there was one item
redis.call('HINCRBY', key, 'gone', 1)
resize(ARGV[1], redis.call('HINCRBY', key, 'bytes', -size))
return 'done'`)

// itemsScript adds items. Arguments: id, the bytes that the user may have, those that the entry may
// have, overhead of a record, token, items. A call that got no answer is made again with the same
// token. The script keeps the tokens of the last calls, so that it does not add the items twice.
var itemsScript = redis.NewScript(sizingFunctions + `
local key, items = KEYS[1] .. 'v:' .. ARGV[1], KEYS[1] .. 'i:' .. ARGV[1]
local e = redis.call('HMGET', key, 'bytes', 'i', 'tokens', 'gone')
if not e[1] then return 'missing' end
local bytes, next, tokens = tonumber(e[1]), tonumber(e[2]), e[3] or ''
if string.find(tokens, ARGV[5], 1, true) then return 'done' end
for i = 6, #ARGV do bytes = bytes + #ARGV[i] + ARGV[4] end
if bytes > math.min(tonumber(ARGV[2]), tonumber(ARGV[3])) or next - (e[4] or 0) + #ARGV - 5 > mostItems then return 'large' end
add(items, next, 6)
redis.call('HSET', key, 'bytes', bytes, 'i', next + #ARGV - 5, 'tokens', string.sub(ARGV[5] .. tokens, 1, 64 * #ARGV[5]))
redis.call('PEXPIRE', items, redis.call('PTTL', key))
resize(ARGV[1], bytes)
fit(ARGV[1], tonumber(ARGV[2]))
return 'done'`)

// eventsScript adds events, and renews the lease of the owner. Arguments: id, the bytes that the user
// may have, overhead of a record, owner, lease, time to keep events, channel, 1 to cancel, number of
// the first event, 1 if no more events come, events. Events for which the user has no room are left
// out. If no more events come, the lease ends.
var eventsScript = redis.NewScript(sizingFunctions + `
local id, most, owner, channel = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[7]
local key, lease, events = KEYS[1] .. 'v:' .. id, KEYS[1] .. 'l:' .. id, KEYS[1] .. 'e:' .. id
local e = redis.call('HMGET', key, 'owner', 'e', 'cancel', 'bytes', 'ended')
if not e[4] then return 'missing' end
if ARGV[8] == '1' then
	redis.call('HSET', key, 'cancel', '1')
	redis.call('PUBLISH', channel, id)
	return 'done'
end
if e[1] ~= owner and (ARGV[5] ~= '0' or redis.call('EXISTS', lease) == 1) then return 'ended' end
local next = tonumber(e[2] or '0')
local full = redis.pcall('HSET', key, 'owner', owner)
if type(full) == 'table' then
	redis.call('PEXPIRE', lease, ARGV[5])
	return full
end
if not e[5] then
	local before, size, fits = tonumber(redis.call('HGET', sizes, 'e:' .. id) or '0'), 0, true
	for i = 11, #ARGV do
		local number, bytes = ARGV[9] + i - 11, #ARGV[i] + ARGV[3]
		if number >= next then
			fits = fits and e[4] + before + size + bytes <= most
			if fits then
				redis.call('HSET', events, string.format('%d', number), ARGV[i])
				size = size + bytes
			end
			next = number + 1
		end
	end
	redis.call('HSET', key, 'e', string.format('%d', math.max(next, ARGV[9])))
	if size > 0 then
		expire(streams, id, ARGV[6])
		redis.call('PEXPIRE', streams, math.max(redis.call('PTTL', streams), redis.call('PTTL', key)))
		resize('e:' .. id, before + size)
		fit(id, most)
	end
	redis.call('PEXPIRE', events, ARGV[6])
	if ARGV[10] == '1' then redis.call('HSET', key, 'ended', owner) end
end
if ARGV[10] == '1' then
	redis.call('DEL', lease)
elseif ARGV[5] ~= '0' and not e[5] then
	redis.call('SET', lease, owner, 'PX', ARGV[5])
end
if #ARGV > 10 or ARGV[10] == '1' then redis.call('PUBLISH', channel, id) end
return e[3] and 'cancel' or 'done'`)
