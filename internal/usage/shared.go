package usage

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Shared counts the turns of all nodes in Redis. It is safe for concurrent use. A turn is counted
// within [storeInterval], or later if Redis does not work.
type Shared struct {
	run     func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error)
	started time.Time
	nodeID  string

	storeMu sync.Mutex // held while a batch is stored

	mu        sync.Mutex
	pending   *Book     // the turns that are in no batch yet
	batch     *Book     // the turns that are being stored; stored accounts are removed from it
	batchID   int64     // when the batch was made, in Unix microseconds
	isWaiting bool      // Store will be called soon
	windows   []*window // of all nodes, as last read
}

const (
	// storeInterval is how long turns are collected before they are stored together.
	storeInterval = 5 * time.Second
	// storeTimeout bounds the time to store a batch, and to read the counts or the turns.
	storeTimeout = 5 * time.Second
)

// usageTag is in all keys, see [NewShared].
const usageTag = "usage"

// NewShared returns the usage of all nodes. run makes a prefix from tag, and runs a script in Redis
// with this prefix as KEYS[1]. All keys that the script uses begin with this prefix.
func NewShared(run func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error)) *Shared {
	return &Shared{run: run, started: time.Now(), nodeID: rand.Text(), pending: New(), batch: New()}
}

// Add counts and lists a turn or a refused request. A nil Shared counts nothing.
func (s *Shared) Add(r Record) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.Add(r)
	if !s.isWaiting {
		s.isWaiting = true
		time.AfterFunc(storeInterval, func() {
			s.mu.Lock()
			s.isWaiting = false // if Store fails, the next turn begins to wait again
			s.mu.Unlock()
			_ = s.Store(context.Background())
		})
	}
}

// Unstored returns the number of turns and refused requests that are not stored yet or not
// completely.
func (s *Shared) Unstored() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.pending.changes - s.pending.told + s.batch.changes - s.batch.told)
}

// Store stores all turns that are not stored yet.
func (s *Shared) Store(ctx context.Context) error {
	s.storeMu.Lock()
	defer s.storeMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	for s.nextBatch() {
		for user, a := range s.batch.accounts {
			if err := s.store(ctx, user, a); err != nil {
				return err
			}
			delete(s.batch.accounts, user)
		}
	}
	return nil
}

// nextBatch makes the pending turns the batch, unless accounts of the last batch are still to be stored.
// It reports false if nothing is left to store.
func (s *Shared) nextBatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batch.accounts) > 0 {
		return true
	}
	// Clocks may be coarse or set back, but two batches never have the same id.
	s.batch, s.pending, s.batchID = s.pending, New(), max(time.Now().UnixMicro(), s.batchID+1)
	if s.batch.changes == 0 {
		return false
	}
	s.batch.accounts[Everybody] = s.batch.sum(Everybody, endOfTime) // stored like the account of a user
	return true
}

// sharedAccount is an account in Redis, as JSON.
type sharedAccount struct {
	*account
	Since   int64            `json:"since"`   // when counting began, in Unix seconds; 0: nothing was counted
	Batches map[string]int64 `json:"batches"` // by nodeID: the batchID of the node's last batch, kept for a day
}

// store adds an account of the batch to the user's account in Redis. It does nothing if an earlier call,
// whose answer was lost, has already added the account.
func (s *Shared) store(ctx context.Context, user string, a *account) error {
	var entries []any
	if user == Everybody {
		for _, e := range slices.Backward(s.batch.newestEntries(func(*Entry) bool { return true })) {
			list := "turns"
			if e.Mode == "" {
				list = "refused"
			}
			text, _ := json.Marshal(e) // cannot fail for an entry
			entries = append(entries, list, text)
		}
	}
	for { // again if another node has changed the account meanwhile
		sum, stored, now, err := s.read(ctx, user)
		if err != nil || sum.Batches[s.nodeID] == s.batchID {
			return err
		}
		for _, parts := range [...]series{a.Hours, a.Days} {
			for i := range parts {
				parts[i].Start = min(parts[i].Start, now) // a part in the future would displace the parts of all nodes
			}
		}
		sum.add(a, now)
		sum.Since = cmp.Or(sum.Since, now)
		maps.DeleteFunc(sum.Batches, func(_ string, id int64) bool { return id < (now-24*3600)*1e6 })
		sum.Batches[s.nodeID] = s.batchID
		text, _ := json.Marshal(sum) // cannot fail for counts
		found, _, err := s.call(ctx, append([]any{user, stored, text, maxEntries}, entries...)...)
		if err != nil || found == stored { // no other node has changed the account, so the script has stored sum
			return err
		}
	}
}

// read returns the account of a user in Redis, without parts in the future, and its text there. now is the
// time of Redis in Unix seconds: the clocks of the nodes may be wrong.
func (s *Shared) read(ctx context.Context, user string) (a sharedAccount, text string, now int64, err error) {
	text, now, err = s.call(ctx, user)
	stored := new(account)
	a = sharedAccount{account: stored}
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &a)
	}
	if a.Batches == nil {
		a.Batches = make(map[string]int64)
	}
	if user == Everybody && err == nil {
		s.mu.Lock()
		s.windows = stored.Windows
		s.mu.Unlock()
	}
	a.account = new(account)
	a.add(stored, now) // leaves out parts in the future
	return a, text, now, err
}

func (s *Shared) call(ctx context.Context, args ...any) (text string, now int64, err error) {
	answer, err := s.run(ctx, accountScript, usageTag, args...)
	if found, ok := answer.([]any); ok && len(found) == 2 {
		text, _ = found[0].(string)
		now, _ = found[1].(int64)
	}
	return text, now, err
}

// Account returns what [Book.Account] returns, for all nodes.
func (s *Shared) Account(ctx context.Context, user string, since int64) (Account, error) {
	_ = s.Store(ctx) // if Store fails, the answer lacks the last turns
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	a, _, now, err := s.read(ctx, user)
	all := a
	if user != Everybody && err == nil {
		all, _, _, err = s.read(ctx, Everybody)
	}
	return a.body(user, all.Windows, since, cmp.Or(a.Since, now), s.started.Unix(), now), err
}

// Raw returns the entries of a user, or all entries for [Everybody], among the last entries of all nodes.
func (s *Shared) Raw(ctx context.Context, user string) (Raw, error) {
	account, err := s.Account(ctx, user, 0)
	if err != nil {
		return Raw{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	answer, err := s.run(ctx, entriesScript, usageTag)
	if err != nil {
		return Raw{}, err
	}
	all := new(Book)
	all.account(user).Buffers = account.ToolBufferMetrics // for all.Raw
	texts, _ := answer.([]any)
	for _, text := range slices.Backward(texts) {
		var e Entry
		if text, ok := text.(string); ok && json.Unmarshal([]byte(text), &e) == nil {
			all.addEntry(e)
		}
	}
	return all.Raw(user), nil
}

// The keys are
//
//	account:<user>  a [sharedAccount]; <user> is the hash of the user's name
//	turns, refused  lists of entries, the newest first
//
// They expire 400 days after the last change.

// accountScript returns the JSON of a user's account, or "" if there is none, and the time. Arguments: the
// user; then, to change the account, its expected JSON, its new JSON, the most entries of a list, and pairs
// of a list and an entry to add. If the account has other JSON than expected, the script changes nothing.
var accountScript = redis.NewScript(`
local key, age = KEYS[1] .. 'account:' .. redis.sha1hex(ARGV[1]), 400 * 86400
local found = redis.call('GET', key) or ''
if found == ARGV[2] then
	redis.call('SET', key, ARGV[3], 'EX', age)
	for i = 5, #ARGV, 2 do
		local list = KEYS[1] .. ARGV[i]
		redis.call('LPUSH', list, ARGV[i + 1])
		redis.call('LTRIM', list, 0, ARGV[4] - 1)
		redis.call('EXPIRE', list, age)
	end
end
return {found, tonumber(redis.call('TIME')[1])}`)

// entriesScript returns the turns and then the refused requests, the newest first.
var entriesScript = redis.NewScript(`
local entries = redis.call('LRANGE', KEYS[1] .. 'turns', 0, -1)
for _, entry in ipairs(redis.call('LRANGE', KEYS[1] .. 'refused', 0, -1)) do table.insert(entries, entry) end
return entries`)
