package quota

import "github.com/redis/go-redis/v9"

// operateText is a script that does an [Op] as account.apply does, by the clock of Redis. An
// account has these keys:
//
//	<account>requests:5h, tokens:day, …  hashes: what was counted in the parts of a window; those of
//	                                     windows of a plan have the time of the window's end, too
//	<account>held                        a hash: for the id of a turn, its reserved tokens and when
//	                                     they expire
//	<account>op:<id>                     what became of an operation in the last hour: the time at
//	                                     which it was done, or "undone" for a Reserve that was undone
//
// When reserved tokens expire, they count as used with the next operation of another turn: the node of
// their turn has probably ended. If it has not, settling counts only what the turn used beyond them. If an
// operation is sent again because its answer was lost, it is not done again. An operation that
// arrives after its turn was settled, or a Reserve after its Undo, does nothing. If the clock was set
// back, counts dated after now move to the current part. The script also works if the memory of
// Redis is full.
//
// The arguments are, in this order: the kind; see [Op.newID]; N; Held; Ahead, or the Cost of a Settle; the
// time (ms) for which tokens stay reserved; the number of turns; the ids of the turns. Then, for each
// limit: the unit; the window; Max; the length of a part (microseconds); the period, or when a window of a
// plan ends (microseconds), or ""; the time (ms) for which counts are kept. The answer has: the unit whose limit would be exceeded, or ""; the tokens
// that each turn got; the time; the sum of the account's reserved tokens; for each limit, its parts
// with their counts.
const operateText = `#!lua flags=allow-oom
local base, kind, n, had = KEYS[1], ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local function int(number) return string.format('%.0f', number) end

local function began(period)
	local day = math.floor(now / 86400000000)
	if period == 'week' then
		day = day - (day + 3) % 7
	elseif period == 'month' then
		local d = (day + 719468) % 146097
		local year = math.floor((d - math.floor(d / 1460) + math.floor(d / 36524) - math.floor(d / 146096)) / 365)
		local rest = d - (365 * year + math.floor(year / 4) - math.floor(year / 100))
		day = day - (rest - math.floor((153 * math.floor((5 * rest + 2) / 153) + 2) / 5))
	end
	return day * 86400000000
end

local turns = tonumber(ARGV[7])
local limits = {}
for i = 8 + turns, #ARGV, 6 do
	local l = {unit = ARGV[i], key = base .. ARGV[i] .. ':' .. ARGV[i + 1], most = tonumber(ARGV[i + 2]), part = tonumber(ARGV[i + 3]), keep = ARGV[i + 5], parts = {}, used = 0, gone = {}}
	l.at = math.floor(now / l.part)
	local ends = tonumber(ARGV[i + 4])
	l.oldest = ends and (now < ends and 0 or l.at + 1) or ARGV[i + 4] == '' and l.at - 20 or began(ARGV[i + 4]) / l.part
	local all = redis.call('HGETALL', l.key)
	for j = 1, #all, 2 do
		local part, count = tonumber(all[j]), tonumber(all[j + 1])
		if part < l.oldest or part > l.at then table.insert(l.gone, all[j]) end
		if part >= l.oldest then
			part = math.min(part, l.at)
			l.parts[part], l.used = (l.parts[part] or 0) + count, l.used + count
			l.late = l.late or part < tonumber(all[j])
		end
	end
	if l.late then
		redis.call('HDEL', l.key, unpack(l.gone))
		redis.call('HSET', l.key, int(l.at), int(l.parts[l.at]))
		redis.call('PEXPIRE', l.key, l.keep)
		l.gone = {}
	end
	table.insert(limits, l)
end
local function count(unit, number, at)
	for _, l in ipairs(limits) do
		local part = math.min(l.at, math.floor(at / l.part))
		if l.unit == unit and number ~= 0 and part >= l.oldest and (l.parts[part] or 0) + number >= 0 then
			l.parts[part], l.used = (l.parts[part] or 0) + number, l.used + number
			if #l.gone > 0 then redis.call('HDEL', l.key, unpack(l.gone)) end
			redis.call('HSET', l.key, int(part), int(l.parts[part]))
			redis.call('PEXPIRE', l.key, l.keep)
			l.gone = {}
		end
	end
end

local mark = redis.call('GET', base .. 'op:' .. ARGV[2])
local undone, done = mark == 'undone', mark and tonumber(mark)
local function remember(what) redis.call('SET', base .. 'op:' .. ARGV[2], what, 'PX', 3600000) end

local holds, held, running, own = {}, 0, 0, {}
for i = 8, 7 + turns do own[ARGV[i]] = true end
local all = redis.call('HGETALL', base .. 'held')
for i = 1, #all, 2 do
	local ends, tokens = string.match(all[i + 1], '^(%d+):(%d+)$')
	if not ends then
		redis.call('HDEL', base .. 'held', all[i]) -- of an earlier release
	elseif tonumber(ends) < now and kind ~= 'look' and not own[all[i]] then
		redis.call('HDEL', base .. 'held', all[i])
		count('tokens', tonumber(tokens), tonumber(ends))
	else
		holds[all[i]], held, running = tonumber(tokens), held + tonumber(tokens), running + 1
	end
end
local function hold(turn, tokens)
	if not holds[turn] then running = running + 1 end
	held = held + tokens - (holds[turn] or 0)
	holds[turn] = tokens
	redis.call('HSET', base .. 'held', turn, int(now + tonumber(ARGV[6]) * 1000) .. ':' .. int(tokens))
	redis.call('PEXPIRE', base .. 'held', tonumber(ARGV[6]) + 86400000)
end
local function exceeds(unit, wanted)
	for _, l in ipairs(limits) do
		if l.unit == unit and l.used + wanted + (unit == 'tokens' and held or 0) > l.most and l.most > 0 then return true end
	end
end
local function sharesUsed() -- of each login whose windows count the request
	local used = {}
	for _, l in ipairs(limits) do
		if l.unit == 'plan_share' then
			local login = string.match(l.key, '%S+$')
			used[login] = used[login] or l.most > 0 and l.used >= l.most
		end
	end
	local all = next(used) ~= nil
	for _, is in pairs(used) do all = all and is end
	return all
end
local function share(wanted)
	local rest = 2^53
	for _, l in ipairs(limits) do
		if l.unit == 'tokens' then rest = math.min(rest, l.most - l.used - held) end
	end
	return math.max(0, math.min(wanted, rest, math.max(16, math.floor(rest / (2 * math.max(1, running))))))
end

local exceeded, got, turn = '', 0, ARGV[8]
if kind == 'undo' and not undone and not (done and turns > 0) then
	local counted = done
	for i = 8, 7 + turns do
		if holds[ARGV[i]] then counted = now - n end
		held = held - (holds[ARGV[i]] or 0)
		redis.call('HDEL', base .. 'held', ARGV[i])
	end
	if counted then count('requests', -1, counted) end
	remember('undone')
elseif done or undone and kind ~= 'settle' then -- it was done, or must not be done any more
elseif kind == 'reserve' and turns > 0 and holds[turn] then
	got = holds[turn] - n
elseif kind == 'reserve' then
	if exceeds('requests', 1) then
		exceeded = 'requests'
	elseif sharesUsed() then
		exceeded = 'plan_share'
	elseif turns > 0 and exceeds('tokens', turns * (n + 1)) then
		exceeded = 'tokens'
	else
		if turns == 0 then remember(int(now)) end
		for i = 8, 7 + turns do hold(ARGV[i], n) end
		got = turns > 0 and math.floor(share(tonumber(ARGV[5]) * turns) / turns) or 0
		if got > 0 then for i = 8, 7 + turns do hold(ARGV[i], n + got) end end
		count('requests', 1, now)
	end
elseif kind == 'take' then
	got = (holds[turn] or 0) - had
	if got <= 0 then
		got = share(n)
		hold(turn, (holds[turn] or 0) + got)
	end
elseif kind == 'raise' then
	hold(turn, holds[turn] and had + n or n)
elseif kind == 'settle' then
	remember(int(now))
	local counted = math.max(0, had - (holds[turn] or 0)) -- of a hold that had ended
	held = held - (holds[turn] or 0)
	redis.call('HDEL', base .. 'held', turn)
	count('tokens', math.max(0, n - counted), now)
	count('plan_share', tonumber(ARGV[5]), now)
end

local view = {exceeded, got, now, held}
for _, l in ipairs(limits) do
	local parts = {}
	for part, number in pairs(l.parts) do
		table.insert(parts, part)
		table.insert(parts, number)
	end
	table.insert(view, parts)
end
return view`

var operate = redis.NewScript(operateText)
