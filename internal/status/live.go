package status

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

// State says how far a request has come.
type State string

// The states, in their order.
const (
	Waiting   State = "waiting"   // in the queue
	Starting  State = "starting"  // its turns are being prepared and started
	Running   State = "running"   // the model has not answered yet
	Answering State = "answering" // output has arrived
	Parked    State = "parked"    // answered; the turn waits for the results of its calls
)

// Request is a request that is under way, as the page and the admin API show it. It has no text of
// the conversation.
type Request struct {
	ID         string    `json:"request_id"` // as in the header x-request-id
	User       string    `json:"user,omitempty"`
	Route      string    `json:"route"` // the name of the API
	Model      string    `json:"model"` // as the client named it, shortened
	Choices    int       `json:"choices"`
	State      State     `json:"state"`
	Since      time.Time `json:"since"`                // when it arrived; for a parked turn, when its answer ended
	AppServer  string    `json:"app_server,omitempty"` // the id of the app-server that was the first to run one of the choices
	Characters int64     `json:"characters"`           // of the text, reasoning and arguments that have arrived

	Process *appserver.Process `json:"-"` // of the app-server; nil: none yet
}

// maxModel bounds the name of a model, in bytes. A client can choose any name.
const maxModel = 100

// Set holds the requests that are under way. Its zero value is empty and ready to use, and its
// methods are safe for concurrent use. Its size is bounded by the gateways' limits of waiting
// requests and running turns.
type Set struct {
	mu      sync.Mutex
	entries map[*Entry]struct{}
}

// Entry is a request in a set. The methods are safe for concurrent use.
type Entry struct {
	set        *Set
	fixed      Request      // the fields that do not change
	state      atomic.Value // a State
	process    atomic.Pointer[appserver.Process]
	characters atomic.Int64
}

// Begin adds the request r to the set as e, in the state Waiting. The caller must call
// [Entry.Release].
func (s *Set) Begin(e *Entry, r Request) {
	if len(r.Model) > maxModel {
		r.Model = strings.Clone(r.Model[:maxModel])
	}
	r.Model = strings.ToValidUTF8(r.Model, "")
	e.set, e.fixed = s, r
	e.Enter(Waiting)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries = make(map[*Entry]struct{})
	}
	s.entries[e] = struct{}{}
}

// Release removes the request from its set. It may be called more than once.
func (e *Entry) Release() {
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	delete(e.set.entries, e)
}

// Enter changes the state.
func (e *Entry) Enter(s State) { e.state.Store(s) }

// SetProcess sets the process that runs the request. Only the first call has an effect, even if the
// choices of the request run in several processes.
func (e *Entry) SetProcess(p *appserver.Process) { e.process.CompareAndSwap(nil, p) }

// Add counts characters of output that has arrived.
func (e *Entry) Add(characters int) {
	e.characters.Add(int64(characters))
	if e.state.Load() != Answering {
		e.Enter(Answering)
	}
}

// Request returns the request as it is now, without the id of its app-server.
func (e *Entry) Request() Request {
	r := e.fixed
	r.State, _ = e.state.Load().(State)
	r.Process = e.process.Load()
	r.Characters = e.characters.Load()
	return r
}

// List returns the requests of the users for which wanted returns true, the oldest first. If there
// are more requests than limit allows, it returns only the oldest ones.
func (s *Set) List(wanted func(user string) bool, limit int) []Request {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.entries))
	s.mu.Unlock()
	all = slices.DeleteFunc(all, func(e *Entry) bool { return !wanted(e.fixed.User) })
	slices.SortFunc(all, func(a, b *Entry) int { return a.fixed.Since.Compare(b.fixed.Since) })
	found := []Request{}
	for _, e := range all[:min(len(all), limit)] {
		found = append(found, e.Request())
	}
	return found
}
