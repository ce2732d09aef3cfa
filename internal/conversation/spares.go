package conversation

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// maxKinds bounds the number of kinds (different settings) that spares remembers.
	maxKinds = 64
	// maxKindName bounds the name of a kind of spare threads, in bytes. The name is the parameters
	// of the threads. If these have more than maxKindName bytes, the name is their hash. Most
	// parameters have one or two kilobytes.
	maxKindName = 16 << 10
	// recent is how long after a request its settings count as recently used.
	recent = 10 * time.Minute
	// spareLife is how long a spare thread waits for a request. It may have a WebSocket to the
	// model's provider, and some load balancers drop idle connections silently after 4 minutes.
	spareLife = 3 * time.Minute
)

// spares are threads that were started in advance, with the settings of earlier requests and
// without a history. A request can use a spare thread if the parameters of thread/start are exactly
// the same for both. Such a request is answered faster: the thread has already started, connected
// to the provider and sent the tools.
//
// spares counts how many threads it should have for each kind of settings. The first request with
// new settings leaves this number at 0. Each further request that finds no spare thread raises the
// number by one. Each spare thread that is not used in time lowers the number by one.
type spares struct {
	mu     sync.Mutex
	limit  int              // how many threads there may be, of all kinds together
	count  int              // how many threads wait or are being started
	used   int              // how many requests have used a spare thread
	kinds  map[string]*kind // by their names, see kindName
	closed bool

	serving *codexrpc.Conn // the connection for new threads; nil: not known

	timer    *time.Timer // for all waiting threads; nil: none has waited yet
	timerSet bool        // the timer runs; it fires when the first waiting thread expires, or earlier
}

// kindName returns the name of the kind of threads with these parameters of thread/start. The name
// is the parameters in their encoded form, so that a thread can be started from the name, without
// encoding the parameters again. If the parameters are long, the name is their hash.
func kindName(params []byte) []byte {
	if len(params) <= maxKindName {
		return params
	}
	hash := sha256.Sum256(params)
	return hash[:]
}

// kind is the set of spare threads with the same settings.
type kind struct {
	name     string
	lastUsed time.Time // when a request had these settings last
	wanted   int       // how many spare threads there should be
	count    int       // how many wait or are being started
	ready    []spare   // the waiting threads, the oldest first
}

// spare is one spare thread that waits for a request.
type spare struct {
	thread *codexrpc.Thread
	conn   *codexrpc.Conn
	expiry time.Time
}

// claim removes and returns a spare thread of the kind with this name, on the given connection. If
// there is none, claim returns nil and raises the wanted number of threads of the kind by one, up
// to s.limit. If the kind had no other request within the last 10 minutes (the constant recent),
// claim sets that number to 0 instead. claim also returns the name of the kind, or "" if s keeps no
// threads at all.
func (s *spares) claim(name []byte, conn *codexrpc.Conn) (*codexrpc.Thread, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == 0 || s.closed {
		return nil, ""
	}
	now, k := time.Now(), s.kinds[string(name)]
	if k == nil {
		k = s.newKind(string(name))
	}
	isNew := now.Sub(k.lastUsed) > recent
	k.lastUsed = now
	for i := len(k.ready) - 1; i >= 0; i-- {
		if k.ready[i].conn == conn {
			s.used++
			return s.remove(k, i), k.name
		}
	}
	if k.wanted = min(k.wanted+1, s.limit); isNew {
		k.wanted = 0
	}
	return nil, k.name
}

// newKind adds a kind. If there are maxKinds already, it first removes one of the kinds without
// threads: the least recently used one. The caller holds the lock.
func (s *spares) newKind(name string) *kind {
	if s.kinds == nil {
		s.kinds = make(map[string]*kind)
	}
	if len(s.kinds) >= maxKinds {
		var oldest string
		for n, k := range s.kinds {
			if o := s.kinds[oldest]; k.count == 0 && (o == nil || k.lastUsed.Before(o.lastUsed)) {
				oldest = n
			}
		}
		delete(s.kinds, oldest)
	}
	k := &kind{name: name}
	s.kinds[name] = k
	return k
}

// reserve reports whether one more spare thread of a kind should be started. If so, it counts the
// thread, and the caller must start the thread and call addStarted.
func (s *spares) reserve(name string) (k *kind, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k = s.kinds[name]
	if wanted = k != nil && !s.closed && k.count < k.wanted && s.count < s.limit; wanted {
		k.count++
		s.count++
	}
	return k, wanted
}

// addStarted is called after the start of a thread that reserve has counted. It adds the thread to
// k, or unloads the thread if it is not needed any more. If thread is nil, the start has failed;
// addStarted then lowers the wanted number of threads of k by one.
func (s *spares) addStarted(k *kind, conn *codexrpc.Conn, thread *codexrpc.Thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if thread != nil && !s.closed && s.count <= s.limit && (s.serving == nil || s.serving == conn) {
		k.ready = append(k.ready, spare{thread, conn, time.Now().Add(spareLife)})
		s.setTimer(spareLife) // if the timer runs already, it fires earlier
		return
	}
	k.count--
	s.count--
	if thread == nil {
		k.wanted = max(k.wanted-1, 0)
	} else {
		thread.Close(nil)
	}
}

// setTimer makes the timer call expire after delay. If the timer runs already, setTimer does
// nothing. The caller holds the lock.
func (s *spares) setTimer(delay time.Duration) {
	switch {
	case s.timerSet:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(delay, s.expire)
	default:
		s.timer.Reset(delay)
	}
	s.timerSet = true
}

// expire unloads the threads that no request has used within spareLife.
func (s *spares) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timerSet = false
	now, next := time.Now(), time.Time{}
	for _, k := range s.kinds {
		for len(k.ready) > 0 && !k.ready[0].expiry.After(now) {
			s.remove(k, 0).Close(nil)
			k.wanted = max(k.wanted-1, 0)
		}
		if len(k.ready) > 0 && (next.IsZero() || k.ready[0].expiry.Before(next)) {
			next = k.ready[0].expiry
		}
	}
	if !next.IsZero() {
		s.setTimer(next.Sub(now))
	}
}

// remove removes and returns the thread k.ready[i]. The caller holds the lock.
func (s *spares) remove(k *kind, i int) *codexrpc.Thread {
	thread := k.ready[i].thread
	k.ready = slices.Delete(k.ready, i, i+1)
	k.count--
	s.count--
	return thread
}

// follow records serving, the connection for new turns, and unloads the spare threads on all other
// connections.
func (s *spares) follow(serving *codexrpc.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = serving
	s.drop(func(waiting spare) bool { return waiting.conn != serving })
}

// setLimit changes the limit for the number of spare threads. If there are more threads than that,
// it unloads all waiting threads.
func (s *spares) setLimit(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit = limit; s.count > limit {
		s.drop(func(spare) bool { return true })
	}
}

// close unloads all threads. Threads that are added later are unloaded immediately.
func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timerSet {
		s.timer.Stop()
	}
	s.drop(func(spare) bool { return true })
}

// dropIf unloads the threads for which match returns true.
func (s *spares) dropIf(match func(spare) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(match)
}

// drop unloads the threads for which match returns true, and sets the wanted number of threads of
// their kinds to 0. The caller holds the lock.
func (s *spares) drop(match func(spare) bool) {
	for _, k := range s.kinds {
		for i := len(k.ready) - 1; i >= 0; i-- {
			if match(k.ready[i]) {
				s.remove(k, i).Close(nil)
				k.wanted = 0
			}
		}
	}
}

// counts returns how many spare threads wait, and how many requests have used one.
func (s *spares) counts() (waiting, used int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		waiting += len(k.ready)
	}
	return waiting, s.used
}
