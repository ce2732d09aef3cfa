package planbackend

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Kind is a kind of call.
type Kind string

// The kinds of calls.
const (
	Accounts Kind = "accounts" // the accounts of a login and their plans
	Models   Kind = "models"   // the list of models
	Settings Kind = "settings" // the user's settings
	Usage    Kind = "usage"    // what is used of the plan
	Credits  Kind = "credits"  // credits to reset a limit
	// SpendCredit resets the windows of a plan for one of them.
	SpendCredit Kind = "spend credit"
	Responses   Kind = "responses" // a request of the model over HTTP
	Socket      Kind = "socket"    // the handshake of a WebSocket for such requests
	Pictures    Kind = "pictures"  // a request for a picture
	Issuer      Kind = "issuer"    // the renewal of tokens, and the first ones of a sign-in
	// The two of a sign-in: for a code, and whether somebody has entered it.
	DeviceCode  Kind = "device code"
	DeviceToken Kind = "device token"
	Other       Kind = "other" // what this back end does not know
	All         Kind = ""      // for Fail and Count: any
)

// maxCalls bounds the calls that are kept.
const maxCalls = 256

// Call is a call that has arrived.
type Call struct {
	Kind   Kind
	Login  *Login // nil: none that is known
	At     time.Time
	Method string
	URL    string // with the host
	Proto  string // HTTP/1.1 or HTTP/2.0
	Header http.Header
}

type recorder struct {
	running sync.WaitGroup // waited for once closed is set

	mu      sync.Mutex
	closed  bool
	kept    []Call
	counts  map[Kind]map[*Login]int
	unknown []string
	changed chan struct{} // closed and replaced with each call
}

// close waits for the calls under way, and lets no other begin.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.running.Wait()
}

// begin records a call. done is called at its end; it is nil if the recorder is closed.
func (r *recorder) begin(request *http.Request, kind Kind, login *Login) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.running.Add(1)
	url := "https://" + request.Host + request.URL.RequestURI()
	r.kept = append(r.kept, Call{
		Kind: kind, Login: login, At: time.Now(), Method: request.Method, URL: url, Proto: request.Proto, Header: request.Header.Clone(),
	})
	if len(r.kept) > maxCalls {
		r.kept = slices.Delete(r.kept, 0, len(r.kept)-maxCalls)
	}
	if r.counts == nil {
		r.counts = make(map[Kind]map[*Login]int)
	}
	if r.counts[kind] == nil {
		r.counts[kind] = make(map[*Login]int)
	}
	r.counts[kind][login]++
	if what := request.Method + " " + url; kind == Other && len(r.unknown) < maxCalls && !slices.Contains(r.unknown, what) {
		r.unknown = append(r.unknown, what)
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
	return r.running.Done
}

// count returns the number of calls, and a channel that is closed by the next one.
func (r *recorder) count(kind Kind, logins []*Login) (n int, next <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, byLogin := range r.counts {
		for login, count := range byLogin {
			if (kind == All || k == kind) && (len(logins) == 0 || slices.Contains(logins, login)) {
				n += count
			}
		}
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return n, r.changed
}

// Count returns the number of calls of a kind, with those that a fault has answered. With
// logins it counts only theirs.
func (b *Backend) Count(kind Kind, logins ...*Login) int {
	n, _ := b.calls.count(kind, logins)
	return n
}

// Await waits until there are n calls of a kind. It returns an error if ctx ends first.
func (b *Backend) Await(ctx context.Context, kind Kind, n int) error {
	for {
		seen, next := b.calls.count(kind, nil)
		if seen >= n {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d calls of %s, with %d: %w", n, kind, seen, ctx.Err())
		}
	}
}

// Calls returns the last calls of a kind, oldest first.
func (b *Backend) Calls(kind Kind) (calls []Call) {
	b.calls.mu.Lock()
	defer b.calls.mu.Unlock()
	for _, c := range b.calls.kept {
		if kind == All || c.Kind == kind {
			calls = append(calls, c)
		}
	}
	return calls
}

// Unknown returns the calls that this back end does not know, each once, as METHOD URL.
func (b *Backend) Unknown() []string {
	b.calls.mu.Lock()
	defer b.calls.mu.Unlock()
	return slices.Clone(b.calls.unknown)
}
