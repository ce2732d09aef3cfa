package planbackend

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is how a call fails: [Down], [Silent], [Slow], [Held], [Late], [Status], [HTML], or one of these [Fault.For] a number of calls.
type Fault struct {
	serve func(w http.ResponseWriter, r *http.Request, next http.Handler)
	down  bool
}

// Down resets the connection. If all calls of all logins are down, those that are open are
// cut, and no new connection is taken.
func Down() Fault {
	return Fault{down: true, serve: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { breakOff(r) }}
}

// Silent never answers.
func Silent() Fault {
	return Fault{serve: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		<-r.Context().Done()
		breakOff(r)
	}}
}

// Slow lets the call wait before it is looked at.
func Slow(d time.Duration) Fault {
	return Fault{serve: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if pause(r.Context(), d) {
			next.ServeHTTP(w, r)
		}
	}}
}

// Held lets the call wait for a signal before it is looked at.
func Held(until <-chan struct{}) Fault {
	return Fault{serve: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-until:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}}
}

// Late looks at the call at once and answers later, as an issuer that has spent a token already.
func Late(d time.Duration) Fault {
	return Fault{serve: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		held := &heldAnswer{header: make(http.Header), status: http.StatusOK}
		next.ServeHTTP(held, r)
		if pause(r.Context(), d) {
			maps.Copy(w.Header(), held.header)
			w.WriteHeader(held.status)
			_, _ = w.Write(held.body.Bytes()) // the client may have left
		}
	}}
}

// pause waits. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// heldAnswer keeps an answer.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *heldAnswer) Header() http.Header         { return h.header }
func (h *heldAnswer) WriteHeader(status int)      { h.status = status }
func (h *heldAnswer) Write(p []byte) (int, error) { return h.body.Write(p) }

// Status answers with a status and an error as JSON, which names the code if there is one.
func Status(status int, code ...string) Fault {
	failure := object{"message": fmt.Sprintf("scripted %d", status), "type": nil, "param": nil, "code": nil}
	if len(code) > 0 {
		failure["code"] = code[0]
	}
	return answering(func(w http.ResponseWriter) { writeJSON(w, status, object{"error": failure, "status": status}) })
}

// HTML answers with a status and a page, as a gate before the back end does.
func HTML(status int) Fault {
	return answering(func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html><head><title>%d</title></head><body><h1>scripted page</h1></body></html>\n", status)
	})
}

func answering(answer func(http.ResponseWriter)) Fault {
	return Fault{serve: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { answer(w) }}
}

// RetryAfter adds a Retry-After header, in whole seconds.
func (f Fault) RetryAfter(d time.Duration) Fault {
	serve := f.serve
	f.serve = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("Retry-After", strconv.Itoa(int(d/time.Second)))
		serve(w, r, next)
	}
	return f
}

// For ends the fault after n calls.
func (f Fault) For(n int) Fault {
	serve := f.serve
	var seen atomic.Int64
	f.down = false // new connections have to be taken for the calls after it
	f.serve = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if seen.Add(1) > int64(n) {
			next.ServeHTTP(w, r)
			return
		}
		serve(w, r, next)
	}
	return f
}

// activeFault is a fault and the calls that it concerns.
type activeFault struct {
	Fault
	kind   Kind
	logins []*Login // nil: all
}

func (f *activeFault) concerns(kind Kind, login *Login) bool {
	return (f.kind == All || f.kind == kind) && (f.logins == nil || slices.Contains(f.logins, login))
}

// faults are the faults of a back end, the newest last.
type faults struct {
	mu     sync.Mutex
	active []*activeFault
}

// serve answers a call by the newest fault that concerns it, or by next.
func (f *faults) serve(w http.ResponseWriter, r *http.Request, kind Kind, login *Login, next http.Handler) {
	f.mu.Lock()
	var found *activeFault
	for _, fault := range slices.Backward(f.active) {
		if fault.concerns(kind, login) {
			found = fault
			break
		}
	}
	f.mu.Unlock()
	if found == nil {
		next.ServeHTTP(w, r)
		return
	}
	found.serve(w, r, next)
}

// down reports whether no connection is taken.
func (f *faults) down() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.active, (*activeFault).isOutage)
}

func (f *activeFault) isOutage() bool { return f.down && f.kind == All && f.logins == nil }

// Fail lets calls of a kind fail, those of all logins or of some, until heal or
// [Backend.Heal] is called. What is added last goes first.
func (b *Backend) Fail(kind Kind, fault Fault, logins ...*Login) (heal func()) {
	added := &activeFault{Fault: fault, kind: kind, logins: logins}
	b.faults.mu.Lock()
	b.faults.active = append(b.faults.active, added)
	b.faults.mu.Unlock()
	if added.isOutage() {
		b.proxy.cut()
	}
	return func() {
		b.faults.mu.Lock()
		defer b.faults.mu.Unlock()
		b.faults.active = slices.DeleteFunc(b.faults.active, func(f *activeFault) bool { return f == added })
	}
}

// Heal ends all faults.
func (b *Backend) Heal() {
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	b.faults.active = nil
}

// Cut resets all connections once, with the WebSockets.
func (b *Backend) Cut() { b.proxy.cut() }
