package usage

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Shared counts the turns of all nodes in Redis. It is safe for concurrent use. A turn is counted
// soon after its end, or later if Redis does not work.
type Shared struct {
	run     func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error)
	started time.Time
	nodeID  string

	storeMu sync.Mutex // held while counts are stored; guards calls and call
	calls   int64      // how many different calls of addScript were made
	call    []any      // the arguments of a call that may not have happened; nil: all have

	mu        sync.Mutex
	pending   *Book // the turns that are in no call yet
	isStoring bool  // a goroutine is storing
	added     int   // how many turns and refused requests are in pending, at least in part
	called    int   // how many others are in call
}

// storeTimeout bounds the time of one call, and the time to read the counts or the turns.
const storeTimeout = 5 * time.Second

// usageTag is in all keys, see [NewShared].
const usageTag = "usage"

// NewShared returns the usage of all nodes. run makes a prefix from tag, and runs a script in Redis
// with this prefix as KEYS[1]. All keys that the script uses begin with this prefix.
func NewShared(run func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error)) *Shared {
	return &Shared{run: run, started: time.Now(), nodeID: rand.Text(), pending: New()}
}

// Add counts and lists a turn or a refused request.
func (s *Shared) Add(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.Add(r)
	s.added++
	if !s.isStoring {
		s.isStoring = true
		go func() { _ = s.Store(context.Background()) }() // ends when all is stored, or when a call fails
	}
}

// Unstored returns the number of turns and refused requests that are not stored yet, or only in part.
func (s *Shared) Unstored() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added + s.called
}

// Store stores all turns that are not stored yet.
func (s *Shared) Store(ctx context.Context) error {
	s.storeMu.Lock()
	defer s.storeMu.Unlock()
	for s.nextCall() {
		_, err := s.use(ctx, addScript, s.call...)
		s.mu.Lock()
		if err != nil {
			defer s.mu.Unlock()
			s.isStoring = false // the end of the next turn starts Store again
			return err
		}
		s.call, s.called = nil, 0
		s.mu.Unlock()
	}
	return nil
}

func (s *Shared) use(ctx context.Context, script *redis.Script, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.run(ctx, script, usageTag, args...)
}

// nextCall makes the arguments of the next call, unless the last one is to be made again. It reports
// false if nothing is left to store.
func (s *Shared) nextCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call != nil {
		return true
	}
	if s.isStoring = s.added > 0; !s.isStoring {
		return false
	}
	accounts, entries, isLast := s.pending.take()
	if isLast {
		s.called, s.added = s.added, 0
	}
	text, _ := json.Marshal(accounts) // counts do not fail
	s.calls++
	s.call = []any{s.nodeID, s.calls, maxEntries, text}
	for _, e := range slices.Backward(entries) {
		list := "turns"
		if e.Mode == "" {
			list = "refused"
		}
		text, _ := json.Marshal(e) // nor do entries
		s.call = append(s.call, list, text)
	}
	return true
}

// mostAccounts bounds the accounts of a call: all clients of Redis wait while a script runs.
const mostAccounts = 100

// take moves accounts and all entries, the newest first, out of a book. isLast: it is empty now.
func (b *Book) take() (accounts map[string]*account, entries []Entry, isLast bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	accounts = make(map[string]*account)
	for user, a := range b.accounts {
		if len(accounts) == mostAccounts {
			break
		}
		accounts[user] = a
		delete(b.accounts, user)
	}
	entries = b.newestEntries(func(*Entry) bool { return true })
	b.entries, b.refused = nil, nil
	return accounts, entries, len(b.accounts) == 0
}

// Account returns what a user has used at all nodes or, for [Everybody], all, with their totals.
func (s *Shared) Account(ctx context.Context, user string) (Account, error) {
	_ = s.Store(ctx) // if it fails, the answer lacks the last turns
	answer, err := s.use(ctx, readAccountScript, user, hours.maxParts, days.maxParts)
	if err != nil {
		return Account{}, err
	}
	found := struct {
		*account
		Now   int64             `json:"now"`
		Since int64             `json:"since"`
		Users map[string]Totals `json:"users"`
	}{account: newAccount()}
	text, _ := answer.(string)
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return Account{}, err
	}
	var users []UserTotals
	for name, t := range found.Users {
		users = append(users, UserTotals{name, t})
	}
	return found.body(user, users, cmp.Or(found.Since, found.Now), s.started.Unix(), found.Now), nil
}

// Raw returns a user's turns among the last ones of all nodes, or all of them for [Everybody].
func (s *Shared) Raw(ctx context.Context, user string) (Raw, error) {
	account, err := s.Account(ctx, user)
	if err != nil {
		return Raw{}, err
	}
	answer, err := s.use(ctx, readEntriesScript)
	if err != nil {
		return Raw{}, err
	}
	raw := Raw{Object: "list", Data: []Entry{}, ToolBufferMetrics: account.ToolBufferMetrics}
	texts, _ := answer.([]any)
	for _, text := range texts {
		var e Entry
		if text, ok := text.(string); ok && json.Unmarshal([]byte(text), &e) == nil && (user == Everybody || user == e.User) {
			raw.Data = append(raw.Data, e)
		}
	}
	sortEntries(raw.Data)
	return raw, nil
}

// The keys are
//
//	<account>all                       a hash: all counts, and when counting began
//	<account>hour:<s>, <account>day:<s>  hashes: the counts of an hour or a day, which expire
//	turns, refused                     lists of entries, the newest first
//	call:<node>                        the number of the last call of a node; expires after a day
//
// A count is in the field with its path: the names that lead to it in the JSON of an account, with
// bytes between them that no name has. A price is in billionths. In each account, the models after the
// first 20 share one entry. In the account of [Everybody], the users after the first 1000 share one
// entry.

// addScript adds counts and entries. Arguments: node, number of the call, the most entries to keep, the
// accounts of users as JSON, then pairs of a list and an entry for it. A node makes its calls in the order
// of their numbers, so a call that got no answer may be made again.
var addScript = redis.NewScript(`
local base, now, call = KEYS[1], tonumber(redis.call('TIME')[1]), KEYS[1] .. 'call:' .. ARGV[1]
if tonumber(redis.call('GET', call) or '0') >= tonumber(ARGV[2]) then return 'done' end
redis.call('SET', call, ARGV[2], 'EX', 86400)
local function add(key, path, counts)
	for name, n in pairs(counts) do
		if type(n) == 'table' then
			add(key, path .. name .. '\255', n)
		elseif n ~= 0 or name == 'requests' then
			redis.call('HINCRBY', key, path .. name, string.format('%.0f', name == 'price' and n * 1e9 or n))
		end
	end
end
local function addEntry(key, kind, name, counts, most, rest)
	local entry = kind .. '\255' .. name .. '\255'
	if redis.call('HEXISTS', key, entry .. 'requests') == 0 then
		if tonumber(redis.call('HGET', key, 'entries\255' .. kind) or '0') >= most then
			entry = kind .. '\255' .. rest .. '\255'
		else
			redis.call('HINCRBY', key, 'entries\255' .. kind, 1)
		end
	end
	add(key, entry, counts)
end
for user, a in pairs(cjson.decode(ARGV[4])) do
	local models, totals = a.models, {requests = a.requests, errors = a.errors, usage = a.usage, price = a.price}
	a.models, a.hours, a.days = nil, nil, nil
	for _, name in ipairs({user, '\0all'}) do
		local account = base .. redis.sha1hex(name) .. ':'
		local all = account .. 'all'
		redis.call('HSETNX', all, 'since', now)
		add(all, '', a)
		for model, counts in pairs(models) do addEntry(all, 'models', model, counts, 20, 'other') end
		if name == '\0all' then addEntry(all, 'users', user, totals, 1000, '\0others') end
		redis.call('EXPIRE', all, 400 * 86400)
		for kind, width in pairs({hour = 3600, day = 86400}) do
			local part = account .. kind .. ':' .. (now - now % width)
			add(part, '', totals)
			redis.call('EXPIRE', part, kind == 'hour' and 50 * 3600 or 64 * 86400)
		end
	end
end
for i = 5, #ARGV, 2 do redis.call('LPUSH', base .. ARGV[i], ARGV[i + 1]) end
for _, list in ipairs({base .. 'turns', base .. 'refused'}) do
	redis.call('LTRIM', list, 0, ARGV[3] - 1)
	redis.call('EXPIRE', list, 400 * 86400)
end
return 'done'`)

// readAccountScript reads an account. Arguments: user, how many hours and how many days to return. The
// answer is the account as JSON, with the time. In this JSON, a number has at most 14 digits.
var readAccountScript = redis.NewScript(`
local account, now = KEYS[1] .. redis.sha1hex(ARGV[1]) .. ':', tonumber(redis.call('TIME')[1])
local function read(key)
	local found, all = {}, redis.call('HGETALL', key)
	for i = 1, #all, 2 do
		local at, last = found, nil
		for name in string.gmatch(all[i] .. '\255', '([^\255]*)\255') do
			if last then
				at[last] = at[last] or {}
				at = at[last]
			end
			last = name
		end
		local n = tonumber(all[i + 1])
		at[last] = last == 'price' and n / 1e9 or math.min(n, 99999999999999)
	end
	return found, #all
end
local answer = read(account .. 'all')
answer.now = now
for kind, width in ipairs({3600, 86400}) do
	local parts = {}
	for i = tonumber(ARGV[1 + kind]) - 1, 0, -1 do
		local start = now - now % width - i * width
		local part, n = read(account .. (kind == 1 and 'hour:' or 'day:') .. start)
		part.start = start
		if n > 0 then table.insert(parts, part) end
	end
	answer[kind == 1 and 'hours' or 'days'] = #parts > 0 and parts or nil
end
return cjson.encode(answer)`)

// readEntriesScript returns the turns and then the refused requests, the newest first.
var readEntriesScript = redis.NewScript(`
local entries = redis.call('LRANGE', KEYS[1] .. 'turns', 0, -1)
for _, entry in ipairs(redis.call('LRANGE', KEYS[1] .. 'refused', 0, -1)) do table.insert(entries, entry) end
return entries`)
