package usage

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// Shared counts the turns of all nodes in Redis. It is safe for concurrent use. A turn is counted
// soon after its end, or later if Redis does not work.
type Shared struct {
	run     func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error)
	started time.Time
	nodeID  string // the first argument of each batch

	storeMu sync.Mutex // held while batches are stored

	mu         sync.Mutex
	pending    *Book   // the turns that are in no batch yet
	batches    []batch // the batches that are not stored yet, the oldest first
	isStoring  bool    // a goroutine is storing
	batchCount int64   // how many batches were made
	added      int     // how many turns and refused requests are in pending
	batched    int     // how many of them are in batches
}

// batch is one call of a script that stores something. The first two of its args are the node and
// the number of the batch. By them, the script finds out whether the batch is stored already.
type batch struct {
	script *redis.Script
	tag    string // see NewShared
	args   []any
}

// storeTimeout bounds the time to store one batch, and to read the counts or the turns.
const storeTimeout = 5 * time.Second

// NewShared returns the usage of all nodes. run makes a prefix from tag, and runs a script in Redis
// with this prefix as KEYS[1]. All keys that the script uses begin with this prefix.
func NewShared(run func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error)) *Shared {
	return &Shared{run: run, started: time.Now(), nodeID: rand.Text(), pending: New()}
}

// Add counts and lists a turn or a refused request.
func (s *Shared) Add(r gateway.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.Add(r)
	s.added++
	if !s.isStoring {
		s.isStoring = true
		go func() { _ = s.Store(context.Background()) }() // ends after the last batch, or when a batch cannot be stored
	}
}

// Unstored returns the number of turns and refused requests that are not stored yet, or only in part.
func (s *Shared) Unstored() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added + s.batched
}

// The tags of the lists of turns and of refused requests, see [NewShared].
const turnsTag, refusedTag = "usage", "usage:refused"

// Store stores all turns that are not stored yet.
func (s *Shared) Store(ctx context.Context) error {
	s.storeMu.Lock()
	defer s.storeMu.Unlock()
	for {
		next, found := s.nextBatch()
		if !found {
			return nil
		}
		if err := s.storeBatch(ctx, next); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.isStoring = false // the end of the next turn starts Store again
			return err
		}
		s.mu.Lock()
		s.batches = s.batches[1:]
		s.mu.Unlock()
	}
}

func (s *Shared) storeBatch(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	_, err := s.run(ctx, b.script, b.tag, b.args...)
	return err
}

// nextBatch returns the first batch. If there is no batch, it first makes batches of the pending
// turns. found is false if nothing is left to store.
func (s *Shared) nextBatch() (b batch, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batches) == 0 {
		s.batches, s.batched = s.pending.batches(s.newBatchArgs), s.added
		s.pending, s.added = New(), 0
	}
	if len(s.batches) == 0 {
		s.isStoring = false
		return b, false
	}
	return s.batches[0], true
}

// newBatchArgs returns the first two arguments of a new batch: the node and the number of the
// batch.
func (s *Shared) newBatchArgs() []any {
	s.batchCount++
	return []any{s.nodeID, s.batchCount}
}

// tagOf returns the tag of a user's account, see [NewShared].
func tagOf(user string) string {
	sum := sha256.Sum256([]byte(user))
	return "usage:" + hex.EncodeToString(sum[:16])
}

// batches returns the batches that store a book. A book without turns has none. newArgs returns the
// first two arguments of a batch.
func (b *Book) batches(newArgs func() []any) (all []batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for user, a := range b.accounts {
		userBatch := batch{addCountsScript, tagOf(user), newArgs()}
		a.eachCount(func(field string, n *int64) {
			if *n != 0 || strings.HasSuffix(field, ":requests") {
				userBatch.args = append(userBatch.args, field, *n)
			}
		})
		everybody := batch{addCountsScript, tagOf(Everybody), append(newArgs(), userBatch.args[2:]...)}
		a.Totals.eachCount("u."+user+":", func(field string, n *int64) {
			everybody.args = append(everybody.args, field, *n)
		})
		all = append(all, userBatch, everybody)
	}
	for tag, entries := range map[string][]Entry{turnsTag: b.entries, refusedTag: b.refused} {
		if len(entries) == 0 {
			continue
		}
		raw := batch{addEntriesScript, tag, append(newArgs(), maxEntries)}
		for _, e := range entries[max(0, len(entries)-maxEntries):] {
			text, err := json.Marshal(e)
			if err == nil {
				raw.args = append(raw.args, text)
			}
		}
		all = append(all, raw)
	}
	return all
}

// eachCount calls f with each count and its name in Redis. The names begin with "t." for all turns,
// "c." for tool calls and <use_tool> blocks, "r." for the reasons of aborted blocks, and
// "m.<model>:" for a model.
func (a *account) eachCount(f func(field string, n *int64)) {
	a.Totals.eachCount("t.", f)
	c, b := &a.Calls, &a.Buffers
	for i, n := range []*int64{&c.Total, &c.Truncated, &c.Duplicates, &c.Unwritable, &b.Started, &b.Flushed, &b.Aborted} {
		f("c."+strconv.Itoa(i), n)
	}
	for reason, n := range b.ByReason {
		f("r."+reason, &n)
	}
	for model, t := range a.Models {
		t.eachCount("m."+model+":", f)
	}
}

func (t *Totals) eachCount(prefix string, f func(field string, n *int64)) {
	f(prefix+"requests", &t.Requests)
	f(prefix+"errors", &t.Errors)
	u := &t.Tokens
	for i, n := range []*int64{&u.TotalTokens, &u.InputTokens, &u.CachedInputTokens, &u.CacheWriteInputTokens, &u.OutputTokens, &u.ReasoningOutputTokens, (*int64)(&t.Price)} {
		f(prefix+strconv.Itoa(i), n)
	}
}

// Account returns what a user has used at all nodes. For [Everybody], it returns what all users
// have used, and the totals of each user.
func (s *Shared) Account(ctx context.Context, user string) (a Account, err error) {
	_ = s.Store(ctx) // if it fails, the answer lacks the last turns
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	answer, err := s.run(ctx, readAccountScript, tagOf(user), hours.maxParts, days.maxParts)
	if err != nil {
		return a, err
	}
	parts, _ := answer.([]any)
	if len(parts) != 4 {
		return a, fmt.Errorf("the answer of Redis has %d parts", len(parts))
	}
	now, _ := parts[0].(int64)
	counts, users, sum := countsOf(parts[1]), make(map[string]*Totals), newAccount()
	since, known := counts["since"]
	if !known {
		since = now
	}
	for field := range counts {
		kind, name, _ := strings.Cut(strings.TrimSuffix(field, ":requests"), ".")
		switch total := strings.HasSuffix(field, ":requests"); {
		case kind == "m" && total:
			sum.Models[name] = new(Totals)
		case kind == "u" && total:
			users[name] = new(Totals)
		case kind == "r":
			sum.Buffers.add(ToolBuffers{ByReason: map[string]int64{name: counts[field]}})
		}
	}
	set := func(counts map[string]int64) func(string, *int64) {
		return func(field string, n *int64) { *n = counts[field] }
	}
	sum.eachCount(set(counts))
	for i, to := range []*series{&sum.Hours, &sum.Days} {
		of, _ := parts[2+i].([]any)
		for j := 0; j+1 < len(of); j += 2 {
			start, _ := of[j].(int64)
			t := TimeTotals{Start: start}
			t.eachCount("t.", set(countsOf(of[j+1])))
			*to = append(*to, t)
		}
	}
	var totals []UserTotals
	for name, t := range users {
		t.eachCount("u."+name+":", set(counts))
		totals = append(totals, UserTotals{name, *t})
	}
	return sum.body(user, totals, since, s.started.Unix(), now), nil
}

// countsOf returns the counts in the answer of HGETALL, in which each field is followed by its count.
func countsOf(pairs any) map[string]int64 {
	fields, _ := pairs.([]any)
	counts := make(map[string]int64, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		counts[field], _ = strconv.ParseInt(text, 10, 64)
	}
	return counts
}

// Raw returns the turns of a user among the last turns of all nodes. For [Everybody], it returns
// all of these turns.
func (s *Shared) Raw(ctx context.Context, user string) (Raw, error) {
	account, err := s.Account(ctx, user)
	if err != nil {
		return Raw{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	raw := Raw{Object: "list", Data: []Entry{}, ToolBufferMetrics: account.ToolBufferMetrics}
	for _, tag := range []string{turnsTag, refusedTag} {
		answer, err := s.run(ctx, readEntriesScript, tag)
		if err != nil {
			return Raw{}, err
		}
		texts, _ := answer.([]any)
		for _, text := range texts {
			var e Entry
			if text, ok := text.(string); ok && json.Unmarshal([]byte(text), &e) == nil && (user == Everybody || user == e.User) {
				raw.Data = append(raw.Data, e)
			}
		}
	}
	sortEntries(raw.Data)
	return raw, nil
}

// The keys of an account are
//
//	<account>all                       a hash: all counts, and when counting began
//	<account>hour:<s>, <account>day:<s>  hashes: the counts of an hour or a day, which expire
//	<account>batch:<node>              the number of the last batch of a node; expires after a day
//
// In each account, the models after the first 20 share one entry. In the account of [Everybody],
// the users after the first 1000 share one entry.

// skipStored is the beginning of each script that stores a batch. It ends the script if the batch
// is stored already. A node stores its batches in the order of their numbers, so the script
// compares only with the number of the last batch.
const skipStored = `
local batch = KEYS[1] .. 'batch:' .. ARGV[1]
if tonumber(redis.call('GET', batch) or '0') >= tonumber(ARGV[2]) then return 'done' end
redis.call('SET', batch, ARGV[2], 'EX', 86400)
`

// addCountsScript adds counts. Arguments: node, number of the batch, then pairs of a field and the
// number to add to it.
var addCountsScript = redis.NewScript(skipStored + `
local base = KEYS[1]
local now = tonumber(redis.call('TIME')[1])
local all, hour, day = base .. 'all', base .. 'hour:' .. (now - now % 3600), base .. 'day:' .. (now - now % 86400)
local most, rest = {m = 20, u = 1000}, {m = 'other', u = '\0others'}
redis.call('HSETNX', all, 'since', now)
for i = 3, #ARGV, 2 do
	local field, n = ARGV[i], ARGV[i + 1]
	local kind, name, what = string.match(field, '^([mu])%.(.*):(%w+)$')
	if kind and redis.call('HEXISTS', all, kind .. '.' .. name .. ':requests') == 0 then
		if tonumber(redis.call('HGET', all, 'n.' .. kind) or '0') >= most[kind] then
			field = kind .. '.' .. rest[kind] .. ':' .. what
		else
			redis.call('HINCRBY', all, 'n.' .. kind, 1)
		end
	end
	redis.call('HINCRBY', all, field, n)
	if string.sub(field, 1, 2) == 't.' then
		redis.call('HINCRBY', hour, field, n)
		redis.call('HINCRBY', day, field, n)
	end
end
redis.call('EXPIRE', hour, 50 * 3600)
redis.call('EXPIRE', day, 64 * 86400)
redis.call('EXPIRE', all, 400 * 86400)
return 'done'`)

// readAccountScript reads an account. It has two arguments: how many hours and how many days to
// return. The answer is the time, all counts, the hours with their counts, and the days with their
// counts.
var readAccountScript = redis.NewScript(`
local base, now = KEYS[1], tonumber(redis.call('TIME')[1])
local view = {now, redis.call('HGETALL', base .. 'all'), {}, {}}
for kind, width in ipairs({3600, 86400}) do
	for i = tonumber(ARGV[kind]) - 1, 0, -1 do
		local start = now - now % width - i * width
		local counts = redis.call('HGETALL', base .. (kind == 1 and 'hour:' or 'day:') .. start)
		if #counts > 0 then
			table.insert(view[2 + kind], start)
			table.insert(view[2 + kind], counts)
		end
	end
end
return view`)

// addEntriesScript adds entries of turns. Arguments: node, number of the batch, the most entries to
// keep, the new entries.
var addEntriesScript = redis.NewScript(skipStored + `
for i = 4, #ARGV do redis.call('LPUSH', KEYS[1] .. 'turns', ARGV[i]) end
redis.call('LTRIM', KEYS[1] .. 'turns', 0, ARGV[3] - 1)
redis.call('EXPIRE', KEYS[1] .. 'turns', 400 * 86400)
return 'done'`)

// readEntriesScript returns all entries, the newest first.
var readEntriesScript = redis.NewScript(`return redis.call('LRANGE', KEYS[1] .. 'turns', 0, -1)`)
