package quota

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is an [Engine] whose counts all nodes share.
type Redis struct {
	run             func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error)
	now             func() time.Time
	reservationTime time.Duration
}

// NewRedis returns an engine with its counts in Redis. run makes a prefix from account (see
// [Key.Account]), and calls a script with this prefix as KEYS[1]. All keys of the script begin with the
// prefix.
func NewRedis(run func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error)) *Redis {
	return &Redis{run, time.Now, reservationTime}
}

// reservationTime is how long tokens stay reserved after the last operation of their turn. After
// that time, they count as used: the node of the turn has probably ended.
const reservationTime = 10 * time.Minute

// callTimeout bounds one operation.
const callTimeout = 5 * time.Second

// Do implements [Engine].
func (r *Redis) Do(ctx context.Context, k *Key, o Op) (result Result, err error) {
	if o.Kind == Undo { // the script needs to know how long ago the Reserve began
		o.N = r.now().Sub(o.At).Microseconds()
	}
	args := []any{string(o.Kind), o.newID(), o.N, o.Held, o.Ahead + o.Cost, r.reservationTime.Milliseconds(), len(o.Turns)}
	for _, turn := range o.Turns {
		args = append(args, turn)
	}
	for _, l := range k.Limits {
		w := l.Window
		period := w.period
		if w.name != "" {
			period = strconv.FormatInt(w.ends*1e6, 10)
		}
		args = append(args, string(l.Unit), w.id(), l.Max, w.partLength().Microseconds(), period, w.keepTime().Milliseconds())
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := r.run(ctx, operate, k.Account, args...)
	if err != nil {
		return result, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	fields, _ := answer.([]any)
	v := readSnapshot(k, fields)
	if v == nil {
		return result, fmt.Errorf("%w: the answer of Redis cannot be read", ErrUnavailable)
	}
	v.clockOffset = r.now().Sub(v.takenAt)
	result.Granted, _ = fields[1].(int64)
	result.Remaining, result.snapshot = v.remaining(k, v.takenAt), v
	if exceeded, _ := fields[0].(string); exceeded != "" {
		wanted := int64(1) // the script returns only the unit: the error is made here
		if Unit(exceeded) == Tokens {
			wanted = int64(len(o.Turns)) * (o.N + 1)
		}
		e, ok := errors.AsType[*ExceededError](v.checkLimits(k, Unit(exceeded), wanted, v.takenAt))
		if !ok {
			return result, fmt.Errorf("%w: Redis refuses what the limits allow", ErrUnavailable)
		}
		e.Resets = v.localTime(e.Resets)
		return result, e
	}
	return result, err
}

// newID returns the id by which Redis recognizes an operation that is sent again or arrives late: the id
// of its first turn or, without turns, of its request. By this id, a turn is settled only once, and a
// request is counted only once.
func (o *Op) newID() string {
	if len(o.Turns) == 0 {
		return cmp.Or(o.ID, rand.Text())
	}
	return o.Turns[0]
}

// readSnapshot reads the answer of the script, or returns nil.
func readSnapshot(k *Key, fields []any) *snapshot {
	if len(fields) != 4+len(k.Limits) {
		return nil
	}
	now, _ := fields[2].(int64)
	reserved, _ := fields[3].(int64)
	v := &snapshot{account: account{used: make(map[measure]counts), reserved: reserved}, takenAt: time.UnixMicro(now)}
	for i, l := range k.Limits {
		var all counts
		pairs, _ := fields[4+i].([]any)
		for j := 0; j+1 < len(pairs); j += 2 {
			part, _ := pairs[j].(int64)
			n, _ := pairs[j+1].(int64)
			all = all.add(part, n)
		}
		v.used[measure{l.Unit, l.Window}] = all
	}
	return v
}
