package conversation

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// maxKinds bounds the settings that are remembered.
	maxKinds = 64
	// maxKindName bounds the parameters that are kept as the name of settings, in bytes. Of longer
	// parameters only a hash is kept. Most have one or two kilobytes.
	maxKindName = 16 << 10
	// recent is how long settings are remembered after a request with them.
	recent = 10 * time.Minute
	// spareLife is how long a spare thread waits. Over a WebSocket it has a connection to the
	// model's provider, and some load balancers drop idle connections silently after 4 minutes.
	spareLife = 3 * time.Minute
)

// spares are threads that were started in advance, with the settings of earlier requests. A spare
// thread has no history, and it was started with exactly the parameters of thread/start that the
// request needs. So when the request comes, the thread is started, connected to the provider, and
// has sent the tools.
//
// Settings that only one request has had get no spares. Each further request that finds no spare
// raises the number of spares to keep by one; each spare that is not used in time lowers it by one.
type spares struct {
	mu     sync.Mutex
	most   int // of all kinds together
	count  int // that wait or are being started
	used   int
	kinds  map[string]*kind // by their names, see kindName
	closed bool

	serving *codexrpc.Conn // that new threads get; nil: not known

	timer *time.Timer // for all that wait; nil: none has waited yet
	set   bool        // the timer runs, and fires at the latest when the first of them expires
}

// kindName returns the name of the settings with these parameters of thread/start: the parameters
// themselves, so that they need not be encoded again, or the hash of long parameters.
func kindName(params []byte) []byte {
	if len(params) <= maxKindName {
		return params
	}
	hash := sha256.Sum256(params)
	return hash[:]
}

// kind are the spares with the same settings.
type kind struct {
	name  string
	seen  time.Time // when a request had these settings
	want  int       // how many are to wait
	count int       // that wait or are being started
	ready []spare   // that wait, the oldest first
}

// spare is one thread that waits.
type spare struct {
	thread *codexrpc.Thread
	on     *codexrpc.Conn
	expiry time.Time
}

// claim removes a spare thread of a connection and returns it. If there is none, claim raises the
// number of spares to keep for these settings by one, unless the settings are new. claim also
// returns the name of the kind, or "" if no spares are kept at all.
func (s *spares) claim(name []byte, on *codexrpc.Conn) (*codexrpc.Thread, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == 0 || s.closed {
		return nil, ""
	}
	now, k := time.Now(), s.kinds[string(name)]
	if k == nil {
		k = s.newKind(string(name))
	}
	fresh := now.Sub(k.seen) > recent
	k.seen = now
	for i := len(k.ready) - 1; i >= 0; i-- {
		if k.ready[i].on == on {
			s.used++
			return s.take(k, i), k.name
		}
	}
	if k.want = min(k.want+1, s.most); fresh {
		k.want = 0
	}
	return nil, k.name
}

// newKind adds a kind. If there are maxKinds, it removes the one that was seen least recently and
// has no threads. The lock is held.
func (s *spares) newKind(name string) *kind {
	if s.kinds == nil {
		s.kinds = make(map[string]*kind)
	}
	if len(s.kinds) >= maxKinds {
		var oldest string
		for n, k := range s.kinds {
			if o := s.kinds[oldest]; k.count == 0 && (o == nil || k.seen.Before(o.seen)) {
				oldest = n
			}
		}
		delete(s.kinds, oldest)
	}
	k := &kind{name: name}
	s.kinds[name] = k
	return k
}

// wanted reports whether one more spare thread of a kind is wanted. If so, it counts the thread,
// and the caller starts it.
func (s *spares) wanted(name string) (k *kind, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k = s.kinds[name]
	if wanted = k != nil && !s.closed && k.count < k.want && s.count < s.most; wanted {
		k.count++
		s.count++
	}
	return k, wanted
}

// arrive adds the started thread, which wanted has counted, to the threads that wait. If thread is
// nil, it could not be started; then one thread less is wanted.
func (s *spares) arrive(k *kind, on *codexrpc.Conn, thread *codexrpc.Thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if thread != nil && !s.closed && s.count <= s.most && (s.serving == nil || s.serving == on) {
		k.ready = append(k.ready, spare{thread, on, time.Now().Add(spareLife)})
		s.ringIn(spareLife) // the threads before this one expire earlier
		return
	}
	k.count--
	s.count--
	if thread == nil {
		k.want = max(k.want-1, 0)
	} else {
		thread.Close(nil)
	}
}

// ringIn starts the timer, unless it runs. The lock is held.
func (s *spares) ringIn(after time.Duration) {
	switch {
	case s.set:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(after, s.expire)
	default:
		s.timer.Reset(after)
	}
	s.set = true
}

// expire unloads the threads that nobody has used in time.
func (s *spares) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = false
	now, next := time.Now(), time.Time{}
	for _, k := range s.kinds {
		for len(k.ready) > 0 && !k.ready[0].expiry.After(now) {
			s.take(k, 0).Close(nil)
			k.want = max(k.want-1, 0)
		}
		if len(k.ready) > 0 && (next.IsZero() || k.ready[0].expiry.Before(next)) {
			next = k.ready[0].expiry
		}
	}
	if !next.IsZero() {
		s.ringIn(next.Sub(now))
	}
}

// take removes a thread that waits. The lock is held.
func (s *spares) take(k *kind, i int) *codexrpc.Thread {
	thread := k.ready[i].thread
	k.ready = slices.Delete(k.ready, i, i+1)
	k.count--
	s.count--
	return thread
}

// follow unloads the threads that are not on the connection serving.
func (s *spares) follow(serving *codexrpc.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = serving
	s.drop(func(one spare) bool { return one.on != serving })
}

// setMost changes how many threads may wait. If there are more, all are unloaded.
func (s *spares) setMost(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most = most; s.count > most {
		s.drop(func(spare) bool { return true })
	}
}

// close unloads all threads, also those that arrive later.
func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.set {
		s.timer.Stop()
	}
	s.drop(func(spare) bool { return true })
}

// dropIf unloads the threads for which holds returns true.
func (s *spares) dropIf(holds func(spare) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(holds)
}

// drop unloads the threads for which holds returns true. For the settings of these threads no more
// spares are wanted for now. The lock is held.
func (s *spares) drop(holds func(spare) bool) {
	for _, k := range s.kinds {
		for i := len(k.ready) - 1; i >= 0; i-- {
			if holds(k.ready[i]) {
				s.take(k, i).Close(nil)
				k.want = 0
			}
		}
	}
}

// counts is how many wait, and how many were used.
func (s *spares) counts() (waiting, used int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		waiting += len(k.ready)
	}
	return waiting, s.used
}
