package conversation

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const (
	// maxKinds bounds the number of kinds (different settings) that Threads remembers.
	maxKinds = 64
	// recent is how long after a request its settings count as recently used.
	recent = 10 * time.Minute
	// spareLife is how long a spare thread waits for a request. It may have a WebSocket to the
	// model's provider, and some load balancers drop idle connections silently after 4 minutes.
	spareLife = 3 * time.Minute
)

// kind has spare threads with the same settings, started in advance and without a history. A
// request with exactly their parameters of thread/start is answered faster: the thread has already
// started, connected to the provider and sent the tools.
//
// A kind has at most one spare thread. It is started when a second request has had the settings within the
// time recent, and waits until it is used or expires.
type kind struct {
	key      Hash      // of the settings
	lastUsed time.Time // when a request had these settings last
	hasSpare bool      // a spare thread waits or is being started
}

func (d *digest) threadParams(params *codexrpc.ThreadStartParams) error {
	var buffer wirejson.Buffer
	defer buffer.Release()
	text, err := params.AppendJSON(buffer.Take())
	if err != nil {
		return err
	}
	buffer.Keep(text)
	d.bytes(text)
	return nil
}

// takeSpare removes and returns the spare thread with these settings on the same connection, or nil. If
// another request has had these settings recently, it sets s.kind, so that startSpare starts a thread.
func (t *Threads) takeSpare(s *settings) *codexrpc.Thread {
	d := newDigest()
	err := d.threadParams(&s.params)
	key := d.sum()
	if err != nil {
		return nil // the start of a new thread will report the error
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limits.Spares == 0 || t.closed {
		return nil
	}
	k := t.kinds[key]
	if k == nil {
		k = t.newKind(key)
	}
	if time.Since(k.lastUsed) <= recent {
		s.kind = k
	}
	k.lastUsed = time.Now()
	for e := t.order.Back(); e != nil; e = e.Prev() {
		if kept := e.Value.(*keptThread); kept.kind == k && kept.place.Conn == s.place.Conn {
			t.stats.Prepared++
			return t.remove(e).thread
		}
	}
	return nil
}

// newKind adds a kind. If there are maxKinds already, it first removes one of the kinds without a
// thread: the least recently used one. The caller holds the lock.
func (t *Threads) newKind(key Hash) *kind {
	if len(t.kinds) >= maxKinds {
		var oldest *kind
		for _, k := range t.kinds {
			if !k.hasSpare && (oldest == nil || k.lastUsed.Before(oldest.lastUsed)) {
				oldest = k
			}
		}
		if oldest != nil {
			delete(t.kinds, oldest.key)
		}
	}
	k := &kind{key: key}
	t.kinds[key] = k
	return k
}

// startSpare starts a spare thread with these settings in the background, if one is wanted and there
// is none. takeSpare must have been called with the same settings before.
func (t *Threads) startSpare(s *settings) {
	k, conn := s.kind, s.place.Conn
	if !t.reserveSpare(k) {
		return
	}
	add := func(thread *codexrpc.Thread) { t.addSpare(k, conn, thread) }
	params, err := s.params.AppendJSON(nil)
	if err != nil || t.memoryScarce() || !conn.PrepareThread(codexrpc.Constant(params), add) {
		add(nil)
	}
}

// reserveSpare reports whether a spare thread of a kind should be started. If so, it counts the
// thread, and the caller must start the thread and call addSpare. k is nil if no spare thread is wanted.
func (t *Threads) reserveSpare(k *kind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k == nil || t.kinds[k.key] != k || t.closed || k.hasSpare || t.spares >= t.limits.Spares {
		return false
	}
	k.hasSpare = true
	t.spares++
	return true
}

// addSpare is called after the start of a thread that reserveSpare has counted. It adds the thread,
// or unloads it if it is not needed any more. If thread is nil, the start has failed.
func (t *Threads) addSpare(k *kind, conn *codexrpc.Conn, thread *codexrpc.Thread) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spare := &keptThread{kind: k, thread: thread, place: Place{Conn: conn}}
	if thread != nil && !t.closed && t.spares <= t.limits.Spares && (t.serving == nil || t.serving == conn) {
		t.push(spare, spareLife)
		return
	}
	k.hasSpare = false
	t.spares--
	if thread != nil {
		t.unload(spare)
	}
}
