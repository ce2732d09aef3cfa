// Package live lists the requests that are under way, for those who watch a server.
package live

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// State is what a request is waiting for.
type State string

// The states, in their order.
const (
	Waiting   State = "waiting"   // for its turns, in the queue
	Starting  State = "starting"  // its turns are prepared and started
	Running   State = "running"   // the model has not answered yet
	Answering State = "answering" // output has arrived
	Parked    State = "parked"    // answered; the turn waits for the results of its calls
)

// states has all states that a request enters, for an atomic index.
var states = [...]State{Waiting, Starting, Running, Answering}

// answering is the index of the state that Add enters.
const answering = 3

// Request is a request that is under way, as those who watch see it. It has nothing that
// was said.
type Request struct {
	ID         string    `json:"request_id"` // x-request-id
	User       string    `json:"user,omitempty"`
	Route      string    `json:"route"` // "chat", "responses" or "completions"
	Model      string    `json:"model"` // as the client named it, shortened
	Choices    int       `json:"choices"`
	State      State     `json:"state"`
	Since      time.Time `json:"since"`                // its arrival; of a parked turn, the end of its answer
	AppServer  string    `json:"app_server,omitempty"` // the id; of the first choice that has one
	Characters int64     `json:"characters"`           // of text, reasoning and arguments so far

	Process *appserver.Process `json:"-"` // that of AppServer; nil: none yet
}

// maxModel bounds the name of a model, in bytes. A client can choose it.
const maxModel = 100

// Set holds the requests that are under way. Its zero value is empty and ready to use, and
// its methods are safe for concurrent use. It is as large as the queues of the gateways and
// their turns allow.
type Set struct {
	mu  sync.Mutex
	all list.List // of *Entry, the oldest first
}

// Entry is a request in a set. The methods are safe for concurrent use.
type Entry struct {
	set        *Set
	at         *list.Element
	fixed      Request
	state      atomic.Int32 // index in states
	process    atomic.Pointer[appserver.Process]
	characters atomic.Int64
}

// Begin adds a request that waits for its turns. The caller calls [Entry.Release].
func (s *Set) Begin(r Request) *Entry {
	r.Model = strings.ToValidUTF8(strings.Clone(r.Model[:min(len(r.Model), maxModel)]), "")
	e := &Entry{set: s, fixed: r}
	e.Enter(Waiting)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.at = s.all.PushBack(e)
	return e
}

// Release removes the request. It may be called more than once.
func (e *Entry) Release() {
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	e.set.all.Remove(e.at)
}

// Enter changes the state.
func (e *Entry) Enter(s State) { e.state.Store(int32(slices.Index(states[:], s))) }

// Use names the process that runs the request. The first one counts: several choices may
// have several.
func (e *Entry) Use(p *appserver.Process) { e.process.CompareAndSwap(nil, p) }

// Add counts characters of output that has arrived.
func (e *Entry) Add(characters int) {
	e.characters.Add(int64(characters))
	if e.state.Load() != answering {
		e.state.Store(answering)
	}
}

// Request returns the request as it is now, without the id of its app-server.
func (e *Entry) Request() Request {
	r := e.fixed
	r.State = states[e.state.Load()]
	r.Process = e.process.Load()
	r.Characters = e.characters.Load()
	return r
}

// List returns the oldest requests of the users for which wanted returns true, most of them at
// the most.
func (s *Set) List(wanted func(user string) bool, most int) []Request {
	found := []Request{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.all.Front(); at != nil && len(found) < most; at = at.Next() {
		if e := at.Value.(*Entry); wanted(e.fixed.User) {
			found = append(found, e.Request())
		}
	}
	return found
}
