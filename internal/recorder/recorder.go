package recorder

import (
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/claims"
)

const (
	// maxBytes bounds the memory of all recordings, and apart from that the memory of all exchanges that
	// are being recorded.
	maxBytes = 64 << 20
	// maxRecordings bounds the recordings in memory.
	maxRecordings = 1000
	// maxSwitches bounds the switches that are on.
	maxSwitches = 32
)

// Mode says which requests are recorded.
type Mode string

// The values of [Rule].Mode.
const (
	Off    Mode = "off"
	Errors Mode = "errors" // those that fail, or whose client does not get the whole answer
	All    Mode = "all"
)

// Rule says what of a site is recorded.
type Rule struct {
	Mode  Mode
	Texts bool                                    // recordings have the texts as they are
	Store func(user, id string, recording []byte) // also stores each recording; nil: it is only in memory
	Sent  func(choice int, line []byte)           // gets each line before the app-server gets it, in tests; or nil
}

// Switch turns recording on for some requests, beside the rules.
type Switch struct {
	User     string    `json:"user,omitempty"`     // whose requests; empty: everybody's
	Key      string    `json:"key,omitempty"`      // the id of the key whose requests are recorded; empty: any
	Requests int       `json:"requests,omitempty"` // how many more requests are recorded; 0: any number
	Until    time.Time `json:"until,omitzero"`     // when the switch goes off; zero: after Requests
	Texts    bool      `json:"texts,omitempty"`    // as in [Rule]
	Own      bool      `json:"own,omitempty"`      // the user has turned it on, not the operator
}

// Recording is a recording in memory.
type Recording struct {
	ID       string    `json:"request_id"`
	Time     time.Time `json:"time"` // when the request arrived
	User     string    `json:"user,omitempty"`
	Key      string    `json:"key,omitempty"`
	Path     string    `json:"path"`
	Code     string    `json:"code,omitempty"` // of the error; empty: the request has not failed
	Duration float64   `json:"duration"`       // in seconds
	Texts    bool      `json:"texts"`
	Bytes    int       `json:"bytes"`

	text []byte
}

// Text returns the recording in the form of this package.
func (r *Recording) Text() []byte { return r.text }

// Recorder keeps the last recordings. Its methods are safe for concurrent use.
type Recorder struct {
	crowd     *claims.Crowd
	live      *claims.Budget // bytes of the exchanges that are being recorded
	finishing atomic.Int64   // goroutines of finish
	switched  atomic.Bool    // there are switches

	mu       sync.Mutex
	ring     []*Recording // the oldest first
	bytes    int
	switches []*Switch
}

// New returns a recorder. several reports whether there are several users, as for [claims.NewCrowd].
func New(several func() bool) *Recorder {
	crowd := claims.NewCrowd(several)
	return &Recorder{crowd: crowd, live: claims.NewBudget(maxBytes, chunkSize, crowd)}
}

// Begin begins the recording of a request that came at began; nil: nothing wants it.
func (r *Recorder) Begin(rule Rule, began time.Time, head func() Head) *Exchange {
	if r == nil || (rule.Mode == "" || rule.Mode == Off) && !r.switched.Load() {
		return nil
	}
	e := &Exchange{r: r, rule: rule, began: began, head: head()}
	r.crowd.Note(e.head.User)
	e.claim = r.live.Claim(e.head.User)
	return e
}

// finish keeps an exchange that has ended, if something wants it.
func (r *Recorder) finish(e *Exchange, failed bool) {
	wanted := e.rule.Mode == All || e.rule.Mode == Errors && failed
	e.head.Texts = wanted && e.rule.Texts
	if r.switched.Load() && r.takeSwitch(e) {
		wanted = true
	}
	if !wanted {
		e.drop()
		return
	}
	r.finishing.Add(1)
	go func() { // ends soon; otherwise the client would wait for the end of its answer
		defer r.finishing.Add(-1)
		defer func() {
			if fault := recover(); fault != nil { // what a client sends must not end this Caddy
				e.drop() // keep may not have come so far
				slog.Error("a request could not be recorded: please report this", "error", fault, "stack", string(debug.Stack()))
			}
		}()
		if rec := r.keep(e); e.rule.Store != nil {
			e.rule.Store(rec.User, rec.ID, rec.text)
		}
	}()
}

// Wait waits until all exchanges that have ended are kept and stored, but at most two seconds.
func (r *Recorder) Wait() {
	for end := time.Now().Add(2 * time.Second); r.finishing.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// keep redacts an exchange, and keeps its recording.
func (r *Recorder) keep(e *Exchange) *Recording {
	entries := e.complete()
	duration := time.Duration(entries[len(entries)-1].At)
	code := entries[len(entries)-1].Note
	redact(entries, e.head.Texts)
	_ = json.Unmarshal(entries[0].Message, &e.head) // its path is redacted now
	rec := &Recording{
		ID: e.head.RequestID, Time: e.head.Time, User: e.head.User, Key: e.key, Path: e.head.Path, Code: code,
		Duration: duration.Seconds(), Texts: e.head.Texts, text: format(entries),
	}
	e.drop() // before the recording is stored, since the disk may hang
	rec.Bytes = len(rec.text)
	r.add(rec)
	return rec
}

// takeSwitch reports whether a switch wants an exchange, which then counts for it.
func (r *Recorder) takeSwitch(e *Exchange) (wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropSwitches(func(s *Switch) bool {
		if (s.User != "" || s.Own) && s.User != e.head.User || s.Key != "" && s.Key != e.key {
			return false
		}
		wanted = true
		e.head.Texts = e.head.Texts || s.Texts
		last := s.Requests == 1
		s.Requests = max(s.Requests-1, 0) // 0 stays 0: any number
		return last
	})
	return wanted
}

// dropSwitches drops the switches for which off returns true, and those whose time is over. r.mu is locked.
func (r *Recorder) dropSwitches(off func(*Switch) bool) {
	now := time.Now()
	r.switches = slices.DeleteFunc(r.switches, func(s *Switch) bool {
		return !s.Until.IsZero() && now.After(s.Until) || off(s)
	})
	r.switched.Store(len(r.switches) > 0)
}

// ErrTooManySwitches is returned by [Recorder.Switch].
var ErrTooManySwitches = errors.New("too many switches are on; wait until one has gone off, or turn all off")

// Switch turns a switch on. A user's own switch replaces the one before.
func (r *Recorder) Switch(s Switch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropSwitches(func(other *Switch) bool { return s.Own && other.Own && other.User == s.User })
	if len(r.switches) >= maxSwitches {
		return ErrTooManySwitches
	}
	r.switches = append(r.switches, &s)
	r.switched.Store(true)
	return nil
}

// SwitchOff turns all switches off.
func (r *Recorder) SwitchOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropSwitches(func(*Switch) bool { return true })
}

// add adds a recording, and drops what has no room any more: the oldest recording of a user who has at least an equal
// share of the recordings if there are too many, or of the bytes if these are too many. So nobody loses a recording
// because of another who has more.
func (r *Recorder) add(rec *Recording) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring = append(r.ring, rec)
	r.bytes += rec.Bytes
	for len(r.ring) > maxRecordings || r.bytes > maxBytes {
		size, total := func(*Recording) int { return 1 }, len(r.ring)
		if r.bytes > maxBytes {
			size, total = func(kept *Recording) int { return kept.Bytes }, r.bytes
		}
		users := make(map[string]int)
		for _, kept := range r.ring {
			users[kept.User] += size(kept)
		}
		oldest := slices.IndexFunc(r.ring, func(kept *Recording) bool { return users[kept.User] >= total/len(users) })
		r.bytes -= r.ring[oldest].Bytes
		r.ring = slices.Delete(r.ring, oldest, oldest+1)
	}
}

// List is what a recorder has, as the admin API shows it.
type List struct {
	Recordings []*Recording `json:"recordings"` // the newest first
	Switches   []Switch     `json:"switches"`
}

// List returns the recordings and switches of the users for which visible returns true.
func (r *Recorder) List(visible func(user string) bool) List {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := List{Recordings: []*Recording{}, Switches: []Switch{}}
	for _, rec := range slices.Backward(r.ring) {
		if visible(rec.User) {
			list.Recordings = append(list.Recordings, rec)
		}
	}
	r.dropSwitches(func(*Switch) bool { return false })
	for _, s := range r.switches {
		if visible(s.User) {
			list.Switches = append(list.Switches, *s)
		}
	}
	return list
}

// causeOf says in a word why no more events of a turn will come.
func causeOf(err error) string {
	switch {
	case errors.Is(err, codexrpc.ErrUnresponsive):
		return "unresponsive"
	case errors.Is(err, codexrpc.ErrClosed):
		return "closed"
	case errors.Is(err, codexrpc.ErrTooSlow):
		return "too_slow"
	case errors.Is(err, codexrpc.ErrMessageTooLarge):
		return "message_too_large"
	}
	return "failed"
}
