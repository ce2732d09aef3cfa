package aggregator

import "sync"

// Aggregator assembles the tool calls of one turn from the JSON of events and messages that Codex and
// OpenAI send. It has a [Choice] for each choice. [New] makes an Aggregator; the zero value is not usable.
//
// Several goroutines may call all methods at once. Events count in the order of their ingestion.
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

// Ingest reads one event of a choice, as JSON, and returns the changes. The package documentation lists the
// shapes of events. Events without a call, and broken events ([Result].Err is set), change only Stats. An
// index in the choices of a chat.completion.chunk replaces the parameter choice.
func (a *Aggregator) Ingest(choice int, event []byte) Result {
	return a.ingest(choice, event, ingestOptions{})
}

// IngestEvent is Ingest with the position of the event in the stream of the choice, from 1 on. It is for
// events without a sequence_number, such as chat deltas. An event whose position is not above the highest
// position so far is a repetition and changes nothing. Position 0 means that the event has no position.
func (a *Aggregator) IngestEvent(choice int, position uint64, event []byte) Result {
	return a.ingest(choice, event, ingestOptions{position: position})
}

// IngestMessage reads a complete message: an assistant message, an object with such a message or with
// choices (a chat.completion), a Responses object or item, or an agentMessage item of the app-server. What
// earlier deltas have brought is not added again. Missing arguments are "", malformed arguments stay as
// they are.
//
// Only [Aggregator.SynthesizeCalls] makes calls of the blocks in the message's text.
func (a *Aggregator) IngestMessage(choice int, message []byte) Result {
	return a.ingest(choice, message, ingestOptions{message: true})
}

// SynthesizeCalls is IngestMessage, but also makes a call of each block of <use_tool> or a registered text
// pattern in the message's text. A block with the tool and arguments of a structured call makes no second
// call; identical blocks are several calls. If a message comes again, even with more text, only new blocks
// make calls: a block is identified by the message's id, its place and its tool.
func (a *Aggregator) SynthesizeCalls(choice int, message []byte) Result {
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
	return c != nil && len(c.calls) > 0
}

// ResetTurn forgets all calls and frees their memory. Text patterns, options and Stats stay.
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

// choice returns the Choice with an index, and makes it if there is none yet. It returns nil if the index
// is negative, or if there are MaxChoices others.
func (a *Aggregator) choice(index int) *Choice {
	if c := a.choices[index]; c != nil {
		return c
	}
	if index < 0 || len(a.choices) >= MaxChoices {
		return nil
	}
	c := NewChoice(ChoiceOptions{Options: a.opts, Index: index})
	a.choices[index] = c
	return c
}
