package aggregator

import "sync"

// Aggregator assembles the tool calls of one turn. The zero value is not usable;
// New makes one.
//
// All methods may be called from several goroutines at once. Each call of a method is one
// step; the order of events is the order of the calls.
type Aggregator struct {
	mu       sync.Mutex
	cfg      config
	choices  map[int]*choiceState
	patterns []NamedPattern // beside <use_tool>; replaced, never changed: it is read without the lock
	stats    Stats
}

// New returns an empty Aggregator whose only text pattern is <use_tool>.
func New(opts ...Option) *Aggregator {
	a := &Aggregator{choices: make(map[int]*choiceState)}
	for _, opt := range opts {
		opt(&a.cfg)
	}
	if a.cfg.maxCalls < 1 {
		a.cfg.maxCalls = DefaultMaxCalls
	}
	if a.cfg.maxBytes < 1 {
		a.cfg.maxBytes = DefaultMaxArgumentBytes
	}
	return a
}

// Ingest takes one event of a choice, as JSON, and returns what it changed. The
// package documentation lists the shapes. Events without a call, and broken ones,
// change nothing and are counted in Stats. An element of the choices of a
// chat.completion.chunk that has an index names its choice itself, and choice is not used.
func (a *Aggregator) Ingest(choice int, event []byte) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ingest(choice, event, ingestOptions{})
}

// IngestEvent is Ingest with the identity that chat deltas lack: the position of
// the event in the choice's stream, from 1 and rising. An event whose position is
// not above those seen is a repeat and changes nothing. Position
// 0 stands for none.
func (a *Aggregator) IngestEvent(choice int, position uint64, event []byte) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.choice(choice); s != nil && position > 0 {
		if position <= s.position {
			a.stats.Events++
			a.stats.Duplicates++
			return Result{}
		}
		s.position = position
	}
	return a.ingest(choice, event, ingestOptions{positioned: position > 0})
}

// IngestMessage takes a complete message: an assistant message, an object with
// such a message or with the choices of a chat.completion, a Responses object or
// one of its items, or an agentMessage item of the app-server. What the deltas
// have brought already adds nothing. Calls whose arguments are missing have the
// arguments "" and malformed ones stay as they are.
//
// Text in the message makes calls only with SynthesizeCalls.
func (a *Aggregator) IngestMessage(choice int, message []byte, opts ...MessageOption) Result {
	o := ingestOptions{message: true}
	for _, opt := range opts {
		opt(&o)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ingest(choice, message, o)
}

// Snapshot returns the calls of a choice in the order of their indexes, in which their names
// became known. Calls without a name are not in it; nil if there are none.
func (a *Aggregator) Snapshot(choice int) []Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.choices[choice]
	if s == nil || len(s.calls) == 0 {
		return nil
	}
	records := make([]Record, len(s.calls))
	for i, c := range s.calls {
		records[i] = c.record(choice)
	}
	return records
}

// HasCalls reports whether Snapshot would return any.
func (a *Aggregator) HasCalls(choice int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.choices[choice]
	return s != nil && len(s.calls) > 0
}

// ResetTurn forgets the calls of all choices and frees their memory. Text
// patterns, options and Stats stay.
func (a *Aggregator) ResetTurn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.choices = make(map[int]*choiceState)
}

// Stats returns the counts so far.
func (a *Aggregator) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// choice returns the state of a choice, which it makes if there is none; nil if there are
// too many, or the index is negative.
func (a *Aggregator) choice(index int) *choiceState {
	if s := a.choices[index]; s != nil {
		return s
	}
	if index < 0 || len(a.choices) >= MaxChoices {
		return nil
	}
	s := &choiceState{index: index, keys: make(map[key]*call), room: a.cfg.maxBytes}
	a.choices[index] = s
	return s
}
