package responsestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// RedisOptions are the settings of a [Redis].
type RedisOptions struct {
	redis.UniversalOptions
	Prefix   string        // of all keys
	MaxAge   time.Duration // of an entry
	MaxBytes int64         // of the entries of one user; 0: no bound
	FailOpen bool          // while Redis does not work, requests of keys with limits are allowed
}

// Redis keeps entries in Redis or Valkey, which several nodes (servers) share. All times are by the
// clock of the Redis server.
type Redis struct {
	client    redis.UniversalClient        // of the URLs
	cluster   func() redis.UniversalClient // of the cluster to which the only URL belongs
	isCluster atomic.Bool                  // the server has said that it belongs to a cluster: cluster is used, not client
	prefix    string
	maxAge    time.Duration
	maxBytes  int64
	processID string // identifies this process as the owner of responses
	logger    *slog.Logger
	leaseTime time.Duration
	watchers  *watchers
	state     atomic.Int32              // at the last check: works, refusesWrites or down
	worksFrom atomic.Pointer[time.Time] // when the server worked again after an outage; nil: there was none
	limits    *quota.Limits

	mu   sync.Mutex
	stop context.CancelFunc // ends the goroutines of Start; nil: they do not run
	done sync.WaitGroup
}

// quietLogger drops the log of the Redis client, whose messages have no levels. Failures are logged
// all the same: the client also returns them, and monitor logs them.
type quietLogger struct{}

// Printf does nothing.
func (quietLogger) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quietLogger{}) }

// NewRedis returns a store. The store connects at its first use.
func NewRedis(o RedisOptions, logger *slog.Logger) *Redis {
	o.ContextTimeoutEnabled, o.DisableIdentity, o.DialerRetries = true, true, 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled} // its goroutines would never end
	r := &Redis{
		client: redis.NewUniversalClient(&o.UniversalOptions), prefix: o.Prefix, maxAge: o.MaxAge, maxBytes: cmp.Or(o.MaxBytes, 1<<53), processID: rand.Text(),
		logger: logger, leaseTime: stores.LeaseTime, watchers: newWatchers(),
	}
	r.cluster = sync.OnceValue(func() redis.UniversalClient {
		o.IsClusterMode = true
		return redis.NewUniversalClient(&o.UniversalOptions)
	})
	r.limits = quota.NewLimits(quota.NewRedis(func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error) {
		return r.Run(ctx, script, "key:"+account, args...)
	}), tokensAhead, o.FailOpen)
	return r
}

// tokensAhead is how many tokens a turn reserves when it begins, besides those of its input. Most
// answers need no more.
const tokensAhead = 1024

// Limits returns the limits of keys that all nodes share.
func (r *Redis) Limits() *quota.Limits { return r.limits }

// Start begins to listen for changes by other nodes, and to check whether the server works, until
// Pause or Close. It never fails: the server may start later.
func (r *Redis) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		var ctx context.Context
		ctx, r.stop = context.WithCancel(context.Background())
		r.done.Go(func() { r.listen(ctx) })
		r.done.Go(func() { r.monitor(ctx) })
	}
	return nil
}

// Pause ends the goroutines of Start. Requests may still use the store.
func (r *Redis) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop()
		r.done.Wait()
		r.stop = nil
	}
}

// Close ends the connections.
func (r *Redis) Close() error {
	r.Pause()
	if r.isCluster.Load() {
		_ = r.cluster().Close()
	}
	return r.client.Close()
}

const (
	// checkInterval is the pause between two checks whether the server works. A check takes at most
	// checkTimeout.
	checkInterval = 5 * time.Second
	checkTimeout  = 3 * time.Second
	// recheckInterval is the pause between two checks while the server does not work.
	recheckInterval = time.Second
)

// The states of a Redis server.
const (
	works         = int32(iota)
	refusesWrites // it can be read, but it is full, a replica, or cannot write to its disk
	down
)

// check writes a small key, which expires soon. A ping would not do: a full server answers it, and
// one that cannot write to its disk refuses it, but can be read. err is why the state is not works.
func (r *Redis) check(ctx context.Context) (state int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	key := r.prefix + ":{" + r.processID + "}:check"
	err = r.use(func(client redis.UniversalClient) error { return client.Set(ctx, key, 1, 2*checkInterval).Err() })
	switch {
	case err == nil:
		return works, nil
	case r.use(func(client redis.UniversalClient) error { return client.Exists(ctx, key).Err() }) == nil:
		return refusesWrites, err
	}
	return down, err
}

// monitor logs when the Redis server stops working, and when it works again. While the server is
// down, all uses of the store fail immediately.
func (r *Redis) monitor(ctx context.Context) {
	for ctx.Err() == nil {
		state, err := r.check(ctx)
		if state == works && r.Fails() {
			now := time.Now()
			r.worksFrom.Store(&now)
		}
		if ctx.Err() == nil && r.state.Swap(state) != state {
			switch state {
			case works:
				r.logger.Info("Redis works again")
			case refusesWrites:
				r.logger.Error("Redis answers, but refuses to store; new responses are not stored until it does", "error", err)
			case down:
				r.logger.Error("Redis does not work; what is stored cannot be read, nor what keys have used, until it does", "error", err)
			}
		}
		next := checkInterval
		if state != works {
			next = recheckInterval
		}
		if state != down {
			r.limits.Settle(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(next):
		}
	}
	r.state.Store(works) // otherwise the state could stay down, since nothing checks the server any more
	last, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	r.limits.Settle(last) // the store may not be started again
}

// errDown is the error of all uses of the store while the server does not work.
var errDown = stores.Unavailable(quota.ErrNotSent)

// Fails reports whether the server could not store at the last check.
func (r *Redis) Fails() bool { return r.state.Load() != works }

// tagOf returns the hash tag of a user's keys.
func tagOf(user string) string {
	hash := sha256.Sum256([]byte(user))
	return hex.EncodeToString(hash[:16])
}

// run runs a script for a user.
func (r *Redis) run(ctx context.Context, script *redis.Script, user string, args ...any) (any, error) {
	return r.Run(ctx, script, tagOf(user), args...)
}

// Run runs a script. All keys of the script contain the parameter tag in braces, so that they are
// in one slot of a cluster.
func (r *Redis) Run(ctx context.Context, script *redis.Script, tag string, args ...any) (answer any, err error) {
	begin := time.Now()
	if err = errDown; r.state.Load() != down {
		err = stores.Unavailable(r.use(func(client redis.UniversalClient) (err error) {
			answer, err = script.Run(ctx, client, []string{r.prefix + ":{" + tag + "}:"}, args...).Result()
			return err
		}))
	}
	observe(cmp.Or(operations[script], "count"), begin, err)
	return answer, err
}

// use calls run with the client of the server. A cluster with only one URL, as managed ones have, is
// recognized when a server answers MOVED: another server has the keys. Then use calls run again, with
// the client of the cluster.
func (r *Redis) use(run func(redis.UniversalClient) error) error {
	if !r.isCluster.Load() {
		if err := run(r.client); !redis.HasErrorPrefix(err, "MOVED") {
			return err
		}
		r.isCluster.Store(true)
	}
	return run(r.cluster())
}

// runForWord runs a script whose answer is a word. Some words stand for an error.
func (r *Redis) runForWord(ctx context.Context, script *redis.Script, user string, args ...any) (word string, err error) {
	answer, err := r.run(ctx, script, user, args...)
	if err != nil {
		return "", err
	}
	switch word, _ = answer.(string); word {
	case "missing":
		return word, stores.ErrNotFound
	case "large":
		return word, stores.ErrTooLarge
	case "ended":
		return word, stores.ErrEnded
	}
	return word, nil
}

// maxDepth is how deep the arrays and objects of an item may be nested.
const maxDepth = 1024

// isValidID reports whether an id has the form of a response's or a conversation's id.
func isValidID(id string) bool { return responseid.Valid(id) || responseid.ValidConversation(id) }

// Put implements [stores.Store].
func (r *Redis) Put(ctx context.Context, id string, e *stores.Entry) error {
	return r.put(ctx, id, e, 0)
}

// Begin implements [stores.Background].
func (r *Redis) Begin(ctx context.Context, id string, e *stores.Entry) error {
	begun := *e
	begun.Running = true
	return r.put(ctx, id, &begun, r.leaseTime)
}

func (r *Redis) put(ctx context.Context, id string, e *stores.Entry, lease time.Duration) error {
	if !isValidID(id) {
		return fmt.Errorf("the id %.64q: %w", id, stores.ErrNotFound)
	}
	release, err := stores.ReserveEntry(ctx, e)
	if err != nil {
		return err
	}
	defer release()
	list := listOf(id, e.Input)
	args := append([]any{id, r.processID, r.maxAge.Milliseconds(), lease.Milliseconds(), r.maxBytes, e.Size(), len(list)}, list...)
	args = append(args, "previous", e.Previous, "conversation", e.Conversation, "running", e.Running,
		"response", []byte(e.Response), "bytes", e.Size(), "n", len(e.Output))
	for i, item := range e.Output {
		args = append(args, "o"+strconv.Itoa(i+1), []byte(item))
	}
	_, err = r.runForWord(ctx, putScript, e.User, args...)
	return err
}

// pieceSize is the most bytes of items in a piece of several.
const pieceSize = 64 << 10

// listOf returns the list that has the items of an entry in Redis.
func listOf(id string, items []json.RawMessage) (list []any) {
	if responseid.ValidConversation(id) {
		for _, item := range items {
			list = append(list, []byte(item))
		}
		return list
	}
	for len(items) > 0 {
		piece := append([]byte("["), items[0]...)
		for items = items[1:]; len(items) > 0 && len(piece)+len(items[0]) < pieceSize; items = items[1:] {
			piece = append(append(piece, ','), items[0]...)
		}
		list = append(list, append(piece, ']'))
	}
	return list
}

// readBounded runs a script whose last argument is the size in bytes that its answer may have. If
// the answer is larger, the script returns the size of the answer instead. Then readBounded
// reserves memory for this size, and runs the script again; release frees the memory. If the size
// is above maxBytes or negative, the error is stores.ErrTooLong.
func (r *Redis) readBounded(ctx context.Context, script *redis.Script, user string, maxBytes int64, args ...any) (answer []any, release func(), err error) {
	release = func() {}
	for limit := min(maxBytes, stores.FreeTransfer); ; {
		result, err := r.run(ctx, script, user, append(args, limit)...)
		if err != nil {
			release()
			return nil, func() {}, err
		}
		size, tooLarge := result.(int64)
		if !tooLarge {
			answer, _ := result.([]any)
			return answer, release, nil
		}
		release()
		if size < 0 || size > maxBytes {
			return nil, func() {}, stores.ErrTooLong
		}
		if release, err = stores.Reserve(ctx, user, size); err != nil {
			return nil, func() {}, err
		}
		limit = size
	}
}

// Get implements [stores.Store].
func (r *Redis) Get(ctx context.Context, user, id string) (*stores.Entry, error) {
	return r.getSettled(ctx, user, id, "all", "")
}

// GetPart implements [stores.Parts].
func (r *Redis) GetPart(ctx context.Context, user, id, text string) (*stores.Entry, error) {
	part := "text"
	if text == "" {
		part = "head"
	}
	return r.getSettled(ctx, user, id, part, text)
}

// getSettled returns a part of an entry; see getScript. The process that makes a response is its
// owner, and keeps a lease on the response. If a response is running without a lease, its owner has
// stopped. Then getSettled stores that the response has failed, and reads it again.
func (r *Redis) getSettled(ctx context.Context, user, id, part, text string) (*stores.Entry, error) {
	for range 3 {
		e, fields, leased, err := r.getEntry(ctx, user, id, part, text)
		if errors.Is(err, errChanging) {
			continue
		}
		if err != nil || !e.Running || leased {
			return e, err
		}
		err = r.markLost(ctx, user, id, e, fields["events"])
		e.Release()
		if err != nil {
			return nil, err
		}
	}
	return nil, errChanging
}

// renewalTime is how long after an outage of the server every running response counts as leased:
// leases have expired in the outage, and owners have not renewed them yet. They count as leased in the
// outage, too.
const renewalTime = 10 * time.Second

// isLeased reports whether the owner of a response has a lease. found is 1 if there is a lease in
// Redis.
func (r *Redis) isLeased(found any) bool {
	if found == int64(1) || r.Fails() {
		return true
	}
	from := r.worksFrom.Load() // which is set before Fails returns false
	return from != nil && time.Since(*from) < renewalTime
}

// getEntry returns a part of an entry, and its fields in Redis; see getScript. leased reports whether
// the owner of the entry has a lease.
func (r *Redis) getEntry(ctx context.Context, user, id, part, text string) (_ *stores.Entry, fields map[string]string, leased bool, err error) {
	if !isValidID(id) {
		return nil, nil, false, stores.ErrNotFound
	}
	answer, release, err := r.readBounded(ctx, getScript, user, stores.MaxEntry, id, part, text)
	if err != nil {
		return nil, nil, false, err
	}
	fields = make(map[string]string)
	var items []any
	if len(answer) == 4 {
		pairs, _ := answer[0].([]any)
		for i := 0; i+1 < len(pairs); i += 2 {
			fields[asText(pairs[i])] = asText(pairs[i+1])
		}
		leased = r.isLeased(answer[1])
		total, _ := answer[2].(int64)
		page, _ := answer[3].([]any)
		if items, err = r.allItems(ctx, user, id, page, total, cmp.Or(fields["removed"], "0"), text); err != nil {
			release()
			return nil, nil, false, err
		}
	}
	if fields["bytes"] == "" {
		release()
		return nil, nil, false, stores.ErrNotFound
	}
	e := entryOf(user, id, fields, items)
	if e == nil {
		release()
		r.logger.Warn("a kept response cannot be read", "response", id)
		return nil, nil, false, stores.ErrNotFound
	}
	e.OnRelease(release)
	return e, fields, leased, nil
}

// errChanging is the error for an entry that was changed while it was read.
var errChanging = stores.Unavailable(errors.New("it changes too often to be read"))

// allItems returns the elements of the list of an entry in which text occurs. page is the first page
// of the list, total is the length of the list, and removed is how often an item was removed before.
// allItems reads the list page by page, so that other clients of Redis do not wait long. Items that
// are appended meanwhile are left out. If an item is removed meanwhile, the error is errChanging.
func (r *Redis) allItems(ctx context.Context, user, id string, page []any, total int64, removed, text string) (items []any, err error) {
	for from := int64(0); len(page) > 0; {
		next, _ := page[0].(int64)
		if items = append(items, page[1:]...); next >= total {
			return items[:min(int64(len(items)), total)], nil
		}
		if next <= from {
			break
		}
		from = next
		answer, err := r.run(ctx, pageScript, user, id, next, removed, text)
		if err != nil {
			return nil, err
		}
		page, _ = answer.([]any)
	}
	return nil, errChanging
}

// asText returns a text in an answer of Redis, or "" if the value is no text.
func asText(value any) string {
	text, _ := value.(string)
	return text
}

// entryOf makes an entry from its fields and the elements of its list in Redis. It returns nil if they
// cannot be read.
func entryOf(user, id string, fields map[string]string, list []any) *stores.Entry {
	e := &stores.Entry{
		User: user, Previous: fields["previous"], Conversation: fields["conversation"], Running: fields["running"] == "1",
		Response: json.RawMessage(fields["response"]),
	}
	for _, element := range list {
		if responseid.ValidConversation(id) {
			e.Input = append(e.Input, json.RawMessage(asText(element)))
		} else {
			e.Input = append(e.Input, splitItems([]byte(asText(element)))...)
		}
	}
	n, _ := strconv.Atoi(fields["n"])
	for i := 1; i <= n && i <= len(fields); i++ {
		e.Output = append(e.Output, json.RawMessage(fields["o"+strconv.Itoa(i)]))
	}
	if !e.Sound() {
		return nil
	}
	return e
}

// splitItems returns the elements of a JSON array, or nil if the array is invalid.
func splitItems(array []byte) (items []json.RawMessage) {
	whole := wirejson.Value(array)
	if !wirejson.ValidWithin(maxDepth, whole) {
		return nil
	}
	_ = field.Elements(whole, math.MaxInt, "", func(_ int, item wirejson.Value) *field.Error {
		items = append(items, json.RawMessage(item))
		return nil
	})
	return items
}

// errUnreadable is the error for an answer of an unexpected form.
var errUnreadable = stores.Unavailable(errors.New("the answer cannot be read"))

// Delete implements [stores.Store].
func (r *Redis) Delete(ctx context.Context, user, id string) error {
	if !isValidID(id) {
		return stores.ErrNotFound
	}
	found, err := r.run(ctx, deleteScript, user, id)
	if err == nil && found == int64(0) {
		return stores.ErrNotFound
	}
	return err
}

// Append implements [stores.Store].
func (r *Redis) Append(ctx context.Context, user, id string, items []json.RawMessage) error {
	size := int64(0)
	args := []any{id, rand.Text(), stores.MaxEntry, stores.ItemOverhead, r.maxBytes}
	for _, item := range items {
		size += int64(len(item))
		args = append(args, []byte(item))
	}
	return r.changeConversation(ctx, user, id, size, appendScript, args...)
}

// RemoveItem implements [stores.Store].
func (r *Redis) RemoveItem(ctx context.Context, user, id string, item json.RawMessage) error {
	return r.changeConversation(ctx, user, id, int64(len(item)), removeScript, id, []byte(item), stores.ItemOverhead)
}

// SetObject implements [stores.Store].
func (r *Redis) SetObject(ctx context.Context, user, id string, object json.RawMessage) error {
	return r.changeConversation(ctx, user, id, int64(len(object)), objectScript, id, []byte(object), stores.MaxEntry, r.maxBytes)
}

// changeConversation changes a conversation with a script that stores size bytes.
func (r *Redis) changeConversation(ctx context.Context, user, id string, size int64, script *redis.Script, args ...any) error {
	if !responseid.ValidConversation(id) {
		return stores.ErrNotFound
	}
	release, err := stores.Reserve(ctx, user, size)
	if err != nil {
		return err
	}
	defer release()
	_, err = r.runForWord(ctx, script, user, args...)
	return err
}

// markLost stores that a response has failed, because its owner does not continue it. events is how
// many events it has.
func (r *Redis) markLost(ctx context.Context, user, id string, e *stores.Entry, events string) error {
	number, _ := strconv.ParseInt(events, 10, 64) // 0 if events is ""
	failed, last := stores.Lost(e.Response, number)
	_, err := r.runForWord(ctx, loseScript, user, id, []byte(failed), stores.EventsTime.Milliseconds(), r.channel(), number, last.Name, last.Data)
	return err
}
