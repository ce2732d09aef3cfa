package aggregator

import "sync"

// Aggregator assembles the tool calls of one turn from the JSON of the events and messages that
// Codex and OpenAI send. It has a [Choice] for each choice. The zero value is not usable; New makes
// an Aggregator.
//
// All methods may be called from several goroutines at once. They change the calls one after the
// other; events count in the order in which they were ingested.
type Aggregator struct {
	mu       sync.Mutex
	opts     Options
	choices  map[int]*Choice
	patterns []NamedPattern // besides <use_tool>; the slice is replaced, never changed, since ExtractBlocks reads it without the lock
	stats    Stats
	parts    []Part // reused memory for the parts of one input
	text     []byte // reused memory for a decoded fragment
}

// New returns an empty Aggregator whose only text pattern is <use_tool>.
func New(opts Options) *Aggregator {
	return &Aggregator{opts: opts, choices: make(map[int]*Choice)}
}

// Ingest reads one event of a choice, as JSON, and returns the changes. The package documentation
// lists the shapes of events. Events without a call and broken events change nothing; Stats counts
// them. For a broken event, the result has an error. If an element of the choices of a
// chat.completion.chunk has an index, Ingest uses that index instead of the parameter choice.
func (a *Aggregator) Ingest(choice int, event []byte) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ingest(choice, event, ingestOptions{})
}

// IngestEvent is Ingest with the position of the event in the choice's stream. The position
// identifies events without a number, such as chat deltas. Positions start at 1 and rise. An event
// whose position is not above the highest one seen is a repetition and changes nothing. Position 0
// means that the event has none.
func (a *Aggregator) IngestEvent(choice int, position uint64, event []byte) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.choice(choice); c != nil && position > 0 {
		if position <= c.position {
			a.stats.Events++
			a.stats.Duplicates++
			return Result{}
		}
		c.position = position
	}
	return a.ingest(choice, event, ingestOptions{positioned: position > 0})
}

// IngestMessage reads a complete message: an assistant message, an object with such a message or
// with the choices of a chat.completion, a Responses object or one of its items, or an agentMessage
// item of the app-server. Calls and arguments that deltas have already brought add nothing. Missing
// arguments are "", and malformed arguments stay as they are.
//
// Blocks in the message's text do not become calls; [Aggregator.SynthesizeCalls] makes calls of
// them.
func (a *Aggregator) IngestMessage(choice int, message []byte) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ingest(choice, message, ingestOptions{message: true})
}

// SynthesizeCalls does what IngestMessage does. It also makes a call of each block in the message's
// text that has the form of <use_tool> or of a registered text pattern. A block with the tool and
// the arguments of a structured call adds no second call. Several identical blocks in a message are
// several calls. If a message comes again, even with more text at its end, the blocks that it had
// before add no calls: a block is identified by the id of its message, its place in the text and
// its tool.
func (a *Aggregator) SynthesizeCalls(choice int, message []byte) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ingest(choice, message, ingestOptions{message: true, synthesize: true})
}

// Snapshot returns the calls of a choice, as [Choice.Calls] does.
func (a *Aggregator) Snapshot(choice int) []Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.choices[choice]; c != nil {
		return c.Calls()
	}
	return nil
}

// HasCalls reports whether Snapshot would return any calls.
func (a *Aggregator) HasCalls(choice int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.choices[choice]
	return c != nil && c.HasCalls()
}

// ResetTurn forgets the calls of all choices and frees their memory. Text
// patterns, options and Stats stay.
func (a *Aggregator) ResetTurn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.choices = make(map[int]*Choice)
}

// Stats returns the counts since New.
func (a *Aggregator) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// choice returns the choice with an index. If there is none yet, it makes one. It makes none, and
// returns nil, if the index is negative or if there are MaxChoices choices.
func (a *Aggregator) choice(index int) *Choice {
	if c := a.choices[index]; c != nil {
		return c
	}
	if index < 0 || len(a.choices) >= MaxChoices {
		return nil
	}
	c := NewChoice(ChoiceOptions{Index: index, IDSuffix: a.opts.IDSuffix, MaxCalls: a.opts.MaxCalls, MaxArgumentBytes: a.opts.MaxArgumentBytes})
	a.choices[index] = c
	return c
}
