package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/caddy-codex/caddy-codex/internal/quota"
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
	isCluster atomic.Bool                  // the server is known to belong to a cluster: cluster is used, not client
	prefix    string
	maxAge    time.Duration
	maxBytes  int64
	processID string // is in a key that this process alone writes
	logger    *slog.Logger
	watchers  *watchers
	state     atomic.Int32              // at the last check: works, refusesWrites or down
	worksFrom atomic.Pointer[time.Time] // when the server worked again after an outage; nil: no outage
	limits    *quota.Limits

	mu   sync.Mutex
	stop context.CancelFunc // ends the goroutines of Start; nil: they do not run
	done sync.WaitGroup
}

// The log of the Redis client has no levels. Failures are logged all the same: the client also returns them,
// and monitor logs them.
func init() { logging.Disable() }

// NewRedis returns a store. The store connects at its first use.
func NewRedis(o RedisOptions, logger *slog.Logger) *Redis {
	o.ContextTimeoutEnabled, o.DisableIdentity, o.DialerRetries = true, true, 1
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled} // its goroutines would never end
	r := &Redis{
		client: redis.NewUniversalClient(&o.UniversalOptions), prefix: o.Prefix, maxAge: o.MaxAge, maxBytes: cmp.Or(o.MaxBytes, 1<<53), processID: rand.Text(),
		logger: logger, watchers: &watchers{byID: make(map[string]chan struct{})},
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

// tokensAhead is how many tokens a turn reserves when it begins, besides the tokens of its input. Most
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
	refusesWrites // the server can be read, but is full, a replica, or cannot write to its disk
	down
)

// check writes a small key, which expires soon. A ping would tell too little: a full server answers it,
// and a server that cannot write to its disk refuses it, but can be read. err says why the state is not
// works.
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
var errDown = Unavailable(quota.ErrNotSent)

// Fails implements [Engine]. It reports whether the server could not store at the last check.
func (r *Redis) Fails() bool { return r.state.Load() != works }

// format is in the hash tags, so that keys of another format are not read. Those keys expire.
const format = "2\n"

func tagOf(user string) string {
	hash := sha256.Sum256([]byte(format + user))
	return hex.EncodeToString(hash[:16])
}

// Run runs a script with one key: a prefix that has {tag} in it. All keys that the script uses must begin
// with this prefix, so that they are in one slot of a cluster.
func (r *Redis) Run(ctx context.Context, script *redis.Script, tag string, args ...any) (answer any, err error) {
	return r.run(ctx, "count", script, tag, args...)
}

// run does the work of Run. operation is the name in metrics.
func (r *Redis) run(ctx context.Context, operation string, script *redis.Script, tag string, args ...any) (answer any, err error) {
	begin := time.Now()
	if err = errDown; r.state.Load() != down { // while the server is down, run fails immediately
		err = Unavailable(r.use(func(client redis.UniversalClient) (err error) {
			answer, err = script.Run(ctx, client, []string{r.prefix + ":{" + tag + "}:"}, args...).Result()
			return err
		}))
	}
	observe(operation, begin, err)
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

// change runs a script whose answer is a word. Some words stand for an error.
func (r *Redis) change(ctx context.Context, operation string, script *redis.Script, user string, args ...any) (word string, err error) {
	answer, err := r.run(ctx, operation, script, tagOf(user), args...)
	if err != nil {
		return "", err
	}
	switch word, _ = answer.(string); word {
	case "missing":
		return word, ErrNotFound
	case "large":
		return word, ErrTooLarge
	case "ended":
		return word, ErrEnded
	}
	return word, nil
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// Put implements [Engine].
func (r *Redis) Put(ctx context.Context, user, id string, p *Put) error {
	size := p.size()
	release, err := reserveEntry(ctx, user, size)
	if err != nil {
		return err
	}
	defer release()
	if p.Keep {
		size = MaxEntry // the script computes the size, which is MaxEntry at most
	}
	args := []any{id, r.maxBytes, p.Owner, p.Lease.Milliseconds(), p.Begin, p.Keep, r.maxAge.Milliseconds(), size, p.About, p.Link, p.Value}
	_, err = r.change(ctx, either(p.Keep, "update", "put"), putScript, user, appendRecords(args, p.Items)...)
	return err
}

func appendRecords(args []any, records [][]byte) []any {
	for _, record := range records {
		args = append(args, record)
	}
	return args
}

// Append implements [Engine].
func (r *Redis) Append(ctx context.Context, user, id string, a *Append) (cancelled bool, err error) {
	if a.Part == Items {
		release, err := Reserve(ctx, user, sizeOf(a.Records))
		if err != nil {
			return false, err
		}
		defer release()
		args := []any{id, r.maxBytes, MaxEntry, RecordOverhead, a.Owner}
		_, err = r.change(ctx, "append", itemsScript, user, appendRecords(args, a.Records)...)
		return false, err
	}
	args := []any{
		id, r.maxBytes, RecordOverhead, a.Owner, a.Lease.Milliseconds(), EventsTime.Milliseconds(), r.channel(), a.Cancel, a.First, a.Over,
	}
	operation := either(a.Cancel, "cancel", either(a.Lease > 0, "continue", "lose"))
	word, err := r.change(ctx, operation, eventsScript, user, appendRecords(args, a.Records)...)
	return word == "cancel", err
}

// Delete implements [Engine].
func (r *Redis) Delete(ctx context.Context, user, id string, item int64) error {
	_, err := r.change(ctx, either(item == Whole, "delete", "remove"), deleteScript, user, id, item)
	return err
}

var errUnreadable = Unavailable(errors.New("the answer cannot be read"))

// Read implements [Engine].
func (r *Redis) Read(ctx context.Context, user, id string, q Query) (pages []Page, err error) {
	operation := either(q.Part == Events, "events", either(q.Links > 0, "chain", "get"))
	answer, err := r.run(ctx, operation, readScript, tagOf(user), id, string(q.Part), q.From, q.Limit, q.Links, RecordOverhead, q.Text)
	if err != nil {
		return nil, err
	}
	all, ok := answer.([]any)
	if !ok {
		return nil, errUnreadable
	}
	for _, one := range all {
		page, ok := r.pageOf(one)
		if !ok {
			return nil, errUnreadable
		}
		pages = append(pages, page)
	}
	if len(pages) == 0 {
		return nil, ErrNotFound
	}
	return pages, nil
}

func (r *Redis) pageOf(answer any) (p Page, ok bool) {
	fields, _ := answer.([]any)
	if len(fields) != 9 {
		return p, false
	}
	p.ID, p.About, p.Link, p.EndedBy = asText(fields[0]), asText(fields[1]), asText(fields[2]), asText(fields[4])
	p.Bytes, _ = fields[3].(int64)
	p.Leased = r.isLeased(fields[5])
	p.Next, _ = fields[6].(int64)
	p.Larger, _ = fields[7].(int64)
	records, ok := fields[8].([]any)
	for _, record := range records {
		p.Records = append(p.Records, []byte(asText(record)))
	}
	return p, ok
}

func asText(value any) string {
	text, _ := value.(string)
	return text
}

// renewalTime is how long after an outage of the server every entry counts as leased. Leases have expired
// in the outage, and owners have not renewed them yet. During the outage, every entry counts as leased,
// too.
const renewalTime = 10 * time.Second

// isLeased reports whether the owner of an entry has a lease. found is 1 if there is a lease in Redis.
func (r *Redis) isLeased(found any) bool {
	if found == int64(1) || r.Fails() {
		return true
	}
	from := r.worksFrom.Load() // which is set before Fails returns false
	return from != nil && time.Since(*from) < renewalTime
}

// Lasts implements [Engine].
func (*Redis) Lasts() bool { return true }

// channel returns the Redis channel to which nodes publish the ids of entries that have changed.
func (r *Redis) channel() string { return r.prefix + ":changed" }

// Watch implements [Engine].
func (r *Redis) Watch(id string) <-chan struct{} { return r.watchers.watch(id) }
