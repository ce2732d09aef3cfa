package objects

import (
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// logLimits bound [Logs].
type logLimits struct {
	LogBytes   int64         // most bytes of one log
	TotalBytes int64         // most bytes of all logs
	KeepTime   time.Duration // how long a log is kept after its end
}

// eventOverhead is roughly the memory of an event besides its data, in bytes. An empty log needs
// about as much.
const eventOverhead = 64

// maxBatch is the most bytes of events that one call of [Log.Next] returns, unless the first event
// alone is larger.
const maxBatch = 64 << 10

// Logs are the logs of all responses of a process. They are safe for concurrent use.
type Logs struct {
	limits logLimits

	mu          sync.Mutex
	size        int64
	bytesByUser map[string]int64
	byID        map[string]*Log
	ended       []*Log // the logs that have ended, the first to end first
}

func newLogs(limits logLimits) *Logs {
	return &Logs{limits: limits, bytesByUser: make(map[string]int64), byID: make(map[string]*Log)}
}

// Log has the events of one response, numbered from 0. It is safe for concurrent use.
type Log struct {
	logs     *Logs
	user, id string

	// The fields below are guarded by logs.mu.
	events    []Event
	first     int64 // the number of events[0]; if there are no events, the number of the next one
	size      int64
	hasEnded  bool
	expiry    *time.Timer
	forgotten bool          // Find no longer returns the log
	changed   chan struct{} // closed when there are more events, or none will come; nil: nobody waits
}

func sizeOf(events ...Event) (bytes int64) {
	for i := range events {
		bytes += eventOverhead + int64(len(events[i].Data))
	}
	return bytes
}

// Open begins the log of a response of a user. The caller must call End.
func (s *Logs) Open(user, id string) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &Log{logs: s, user: user, id: id}
	l.addBytes(eventOverhead)
	s.byID[id] = l
	return l
}

// Find returns the log of a response of a user, or nil.
func (s *Logs) Find(user, id string) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.byID[id]; l != nil && l.user == user && !l.forgotten {
		return l
	}
	return nil
}

// forgottenTime is how long a log that was forgotten can still be read by readers that found it
// before.
const forgottenTime = 30 * time.Second

// Forget removes the log of a response, so that nobody can find it any more. If the log has ended,
// readers that found it before can read the rest, for at most forgottenTime. If the log has not
// ended, they get ErrDropped.
func (s *Logs) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.byID[id]; {
	case l == nil:
	case l.hasEnded:
		l.forgotten = true
		l.expiry.Reset(min(forgottenTime, s.limits.KeepTime))
	default:
		s.remove(l)
	}
}

// Append adds a copy of an event to the log. If there is no room, it drops older events, see
// makeRoom. If the log was removed or the event is too large, it drops the event itself.
func (l *Log) Append(name string, data []byte) {
	s := l.logs
	s.mu.Lock()
	defer s.mu.Unlock()
	l.wakeReaders()
	e := Event{Name: name, Data: slices.Clone(data)}
	if s.byID[l.id] != l || !l.makeRoom(sizeOf(e)) { // the log was removed, or the event is too large
		l.first++ // this event is dropped; all earlier ones were dropped already
		return
	}
	l.events = append(l.events, e)
	l.addBytes(sizeOf(e))
}

// makeRoom makes room in the log for this number of bytes. If the log is full, it drops the oldest
// events of the log. If all logs together are full, it drops what [Logs.drop] chooses. It reports
// false if nothing is left to drop and there is still no room.
func (l *Log) makeRoom(bytes int64) bool {
	for s := l.logs; ; {
		switch fitsLog := l.size+bytes <= s.limits.LogBytes; {
		case fitsLog && s.size+bytes <= s.limits.TotalBytes:
			return true
		case fitsLog && s.drop(l.user, bytes):
		case l.dropOldest():
		default:
			return false
		}
	}
}

// drop removes a log or an event of the largest user: the user with the most bytes. The parameter
// needed counts as bytes of the parameter user. If the largest user has ended logs, drop removes
// the one that ended first. Otherwise, it removes the oldest event in the largest log of that user.
// It reports false if there is nothing to remove.
func (s *Logs) drop(user string, needed int64) bool {
	largestUser := user
	for other, bytes := range s.bytesByUser {
		if other != user && bytes > s.bytesByUser[user]+needed && (largestUser == user || bytes > s.bytesByUser[largestUser]) {
			largestUser = other
		}
	}
	if i := slices.IndexFunc(s.ended, func(l *Log) bool { return l.user == largestUser }); i >= 0 {
		s.remove(s.ended[i])
		return true
	}
	var largest *Log
	for _, l := range s.byID {
		if l.user == largestUser && (largest == nil || l.size > largest.size) {
			largest = l
		}
	}
	return largest != nil && largest.dropOldest()
}

func (l *Log) dropOldest() bool {
	if len(l.events) == 0 {
		return false
	}
	l.addBytes(-sizeOf(l.events[0]))
	l.events[0] = Event{}
	l.events, l.first = l.events[1:], l.first+1
	return true
}

func (l *Log) addBytes(bytes int64) {
	s := l.logs
	l.size += bytes
	s.size += bytes
	if s.bytesByUser[l.user] += bytes; s.bytesByUser[l.user] == 0 {
		delete(s.bytesByUser, l.user)
	}
}

// End ends the log: no more events will come. The log is kept for KeepTime.
func (l *Log) End() {
	s := l.logs
	s.mu.Lock()
	defer s.mu.Unlock()
	l.hasEnded = true
	l.wakeReaders()
	if s.byID[l.id] != l { // the log was removed
		return
	}
	s.ended = append(s.ended, l)
	l.expiry = time.AfterFunc(s.limits.KeepTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(l)
	})
}

// remove removes a log. Readers who have not read all its events get ErrDropped.
func (s *Logs) remove(l *Log) {
	if s.byID[l.id] != l {
		return
	}
	delete(s.byID, l.id)
	if i := slices.Index(s.ended, l); i >= 0 {
		s.ended = slices.Delete(s.ended, i, i+1)
		l.expiry.Stop()
	}
	l.first += int64(len(l.events))
	l.addBytes(-l.size)
	l.events = nil
	l.wakeReaders()
}

func (l *Log) wakeReaders() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Next implements [Events].
func (l *Log) Next(from int64, claim *claims.Claim) (events []Event, changed <-chan struct{}, err error) {
	claim.Release()
	events, changed, err = l.next(from, maxBatch)
	if len(events) > 0 && !claim.Grow(sizeOf(events...)) {
		return nil, soon(), nil
	}
	return events, changed, err
}

// next returns events of at most limit bytes, or one larger event, like Next. The caller must not
// keep them, unless their memory is claimed.
func (l *Log) next(from, limit int64) (events []Event, changed <-chan struct{}, err error) {
	l.logs.mu.Lock()
	defer l.logs.mu.Unlock()
	end := l.first + int64(len(l.events))
	switch {
	case from < l.first:
		return nil, nil, ErrDropped
	case from < end:
		for size := int64(0); from < end; from++ {
			e := l.events[from-l.first]
			if size += sizeOf(e); size > limit && len(events) > 0 {
				break
			}
			events = append(events, e)
		}
		return events, nil, nil
	case l.hasEnded:
		return nil, nil, nil
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return nil, l.changed, nil
}
