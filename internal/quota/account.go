package quota

import (
	"math"
	"time"
)

// account is what one key has used.
type account struct {
	used  map[measure]counts // without the tokens that turns hold
	turns map[string]int64   // tokens that turns under way hold, by the ids of the turns
	held  int64              // the sum of turns
}

// measure is a unit in a window. Each measure is counted separately.
type measure struct {
	unit   Unit
	window Window
}

// do does an operation. The script of [Redis] does the same.
func (a *account) do(k *Key, o Op, now time.Time) (r Result, err error) {
	switch o.Kind {
	case Reserve:
		if r.Got, err = a.reserve(k, o, now); err != nil {
			return r, err
		}
	case Take:
		r.Got = a.share(k, o.N, now)
		a.hold(o.Turns[0], r.Got)
	case Raise:
		a.hold(o.Turns[0], o.N)
	case Settle:
		a.held -= a.turns[o.Turns[0]]
		delete(a.turns, o.Turns[0])
		a.count(k, Tokens, o.N, now)
	}
	r.Rest = a.rest(k, now)
	return r, nil
}

// reserve counts a request. For each turn of the request, it reserves o.N tokens for the input and
// further tokens for the output. ahead is how many output tokens each turn gets.
func (a *account) reserve(k *Key, o Op, now time.Time) (ahead int64, err error) {
	if err := a.exceeds(k, Requests, 1, now); err != nil {
		return 0, err
	}
	turns := int64(len(o.Turns))
	if turns > 0 {
		if err := a.exceeds(k, Tokens, turns*(o.N+1), now); err != nil {
			return 0, err
		}
		for _, turn := range o.Turns {
			a.hold(turn, o.N)
		}
		ahead = a.share(k, o.Ahead*turns, now) / turns
		for _, turn := range o.Turns {
			a.hold(turn, ahead)
		}
	}
	a.count(k, Requests, 1, now)
	return ahead, nil
}

// hold lets a turn hold n tokens more.
func (a *account) hold(turn string, n int64) {
	a.turns[turn] += n
	a.held += n
}

// leastShare is the least number of tokens that a turn gets, even if its share is smaller. If fewer
// tokens are left, the turn gets all of them.
const leastShare = 16

// share returns how many tokens a turn gets if it asks for n. Its share is half of an equal part of
// the tokens that are left for the key's running turns, so that tokens stay for other turns. The
// turn gets at most this share, or leastShare if that is more.
func (a *account) share(k *Key, n int64, now time.Time) int64 {
	rest := a.rest(k, now)
	return max(0, min(n, rest, max(leastShare, rest/int64(2*max(1, len(a.turns))))))
}

// rest returns how many tokens the tightest limit has left. The result is negative if that limit is
// exceeded.
func (a *account) rest(k *Key, now time.Time) int64 {
	rest := int64(math.MaxInt64)
	for _, limit := range k.Limits {
		if limit.Unit == Tokens {
			rest = min(rest, limit.Max-a.usedOf(limit, now))
		}
	}
	return rest
}

// exceeds returns nil if all limits allow n more of a unit. Otherwise it returns an *ExceededError.
// If several limits do not allow n more, the error is about the one that resets last.
func (a *account) exceeds(k *Key, unit Unit, n int64, now time.Time) error {
	var worst *ExceededError
	for _, limit := range k.Limits {
		if limit.Unit != unit {
			continue
		}
		used := a.usedOf(limit, now)
		if used+n <= limit.Max {
			continue
		}
		e := &ExceededError{limit, used, n, a.resets(limit, limit.Max-n, now)}
		if worst == nil || e.Resets.IsZero() || !worst.Resets.IsZero() && e.Resets.After(worst.Resets) {
			worst = e
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// usedOf returns how much of a limit is used now. Tokens that are reserved for turns under way
// count as used.
func (a *account) usedOf(limit Limit, now time.Time) int64 {
	m := measure{limit.Unit, limit.Window}
	a.used[m] = a.used[m].update(limit.Window, now)
	oldest := limit.Window.oldest(now)
	n := a.used[m].sum(oldest)
	if limit.Unit == Tokens {
		n += a.held
	}
	return n
}

// heldWait is how long a request should wait for tokens that are reserved for running turns. It is
// a guess, since nobody knows when these turns will end, and how many tokens they will give back.
const heldWait = 5 * time.Second

// resets returns when the use of a limit will have fallen to the amount most, if nothing more is
// counted. The result is the zero time if most is negative.
func (a *account) resets(limit Limit, most int64, now time.Time) time.Time {
	if most < 0 {
		return time.Time{}
	}
	used := a.usedOf(limit, now)
	if limit.Unit == Tokens {
		if used -= a.held; used <= most {
			return now.Add(heldWait)
		}
	}
	for _, c := range a.used[measure{limit.Unit, limit.Window}] {
		if used -= c.n; used <= most {
			return limit.Window.leaves(c.part)
		}
	}
	return limit.Window.leaves(limit.Window.at(now))
}

// count counts n of a unit in all windows of the key's limits.
func (a *account) count(k *Key, unit Unit, n int64, now time.Time) {
	for _, limit := range k.Limits {
		if limit.Unit == unit {
			m := measure{unit, limit.Window}
			a.used[m] = a.used[m].update(limit.Window, now).add(limit.Window.at(now), n)
		}
	}
}
