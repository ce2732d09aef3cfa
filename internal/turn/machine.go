// Package turn makes the outputs of one choice from the events of one Codex turn. The
// [Machine] is pure: it takes events and returns [Output] values, and has no clock and
// no I/O. [Drive] runs it over a live turn. The answers of chat completions and of
// Responses, streamed or not, are folds over the same outputs, so they cannot differ.
package turn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

// Machine is the state of one turn of one choice. It must not be used by several
// goroutines at once.
type Machine struct {
	opts    *Options
	texts   texts
	stops   *stopFilter       // nil: no sequence ends the text
	limit   *tokens.Limit     // nil: the text has no limit
	funded  int               // tokens taken from the budget
	choice  aggregator.Choice // the calls, and the blocks in the text
	policy  policy
	report  Report
	usage   usage
	rest    rest
	grace   grace
	attempt attempt
	search  webSearch

	out              []Output
	short            [2]Output // the memory of out for the batches of most turns
	pendingReasoning []Output  // ends of reasoning items, held until the next output
	parts            []aggregator.Part
	fewParts         [1]aggregator.Part // the memory of parts for most pieces of text
	live             int                // 1 more than the index of the call whose begin was sent, but not its end; 0: none
	held             []Output           // that wait for that end
	heldBytes        int                // of text in them
	gap              string             // between the last message and the text that comes next
	sequence         string             // the stop sequence that ended the turn
	lastError        string             // of an attempt that Codex repeats, to explain a silence
	lastCall         string             // the arguments of the structured call after which no text came
	afterCall        bool               // there is such a call
	open             int                // blocks that were begun and are neither flushed nor aborted
	begun            bool               // there was an output
	asked            bool               // Codex waits for the client's answer to a structured call
	refused          bool               // such calls were answered with a failure
	strayed          bool               // this response has called a tool that is not the client's
	stray            []string           // the ids of such calls, which Codex has to refuse
	strays           int                // responses in a row that did
	cut              bool               // the text ends with a block without an end
	partial          bool               // there was a call that was not complete at once
	done             bool               // the last output was returned
}

// New returns a machine at the start of a turn. It reads the options until the turn ends.
func New(opts *Options) *Machine {
	m := new(Machine)
	m.Reset(opts)
	return m
}

// Reset puts a machine at the start of a turn, as [New] does. It is for a machine that is a
// part of something larger; the turn that it had before is forgotten.
func (m *Machine) Reset(opts *Options) {
	*m = Machine{opts: opts, stops: newStopFilter(opts.StopSequences)}
	m.out, m.parts = m.short[:0], m.fewParts[:0]
	switch {
	case opts.Budget != nil:
		m.limit = tokens.NewLimit(0) // fund raises it
	case opts.MaxTokens > 0:
		m.limit = tokens.NewLimit(opts.MaxTokens)
	}
	m.policy = policy{opts: opts, report: &m.report, to: m}
	calls := aggregator.ChoiceOptions{
		Index: opts.Choice, IDSuffix: strings.ToLower(opts.IDSuffix), MaxCalls: opts.limit(), Dedup: opts.ToolBlockDedup, AppendOnly: true,
	}
	if opts.textual() {
		calls.ToolName = m.blockName
		calls.Scanner = &aggregator.ScannerOptions{
			Patterns: opts.Patterns, Accept: opts.AcceptTextual,
			SkipFenced: !opts.xml(), // an Obsidian client runs blocks in code fences as well
		}
	}
	m.choice.Reset(calls)
}

// Done reports whether the last output, a finish or a failure, was returned. Later
// events are ignored.
func (m *Machine) Done() bool { return m.done }

// Report returns what the turn has done with tool calls and text so far.
func (m *Machine) Report() Report {
	m.report.TextDiffers = m.texts.differs
	return m.report
}

// Grace returns the time after which the caller has to call [Machine.GraceOver],
// counted from the last change of generation. It returns false if no grace is running.
func (m *Machine) Grace() (after time.Duration, generation int, running bool) {
	return m.opts.Grace, m.grace.generation, m.grace.running && !m.done
}

// Feed processes a batch of events and returns their outputs. The slice is valid until
// the next call.
func (m *Machine) Feed(events []codexrpc.Event) []Output {
	m.out = m.out[:0]
	for i := range events {
		if m.done {
			break
		}
		m.event(&events[i])
	}
	return m.out
}

// GraceOver ends a turn whose grace has passed. While another block is being written,
// or only its tag, the grace starts again.
func (m *Machine) GraceOver() []Output {
	m.out = m.out[:0]
	switch {
	case m.done || !m.grace.running:
	case m.tagHeld() && !m.hasAll():
		m.grace.start()
	default:
		m.finish(FinishToolCalls)
	}
	return m.out
}

// Fail ends the turn with a failure that is no event, such as a lost connection. It
// returns nothing if the turn has already ended.
func (m *Machine) Fail(err error) []Output {
	m.out = m.out[:0]
	switch {
	case m.done:
	case m.report.Truncated:
		m.end(m.reason())
	case errors.Is(err, ErrIdle) && strings.HasSuffix(m.lastError, "waiting for network"):
		m.fail(fmt.Errorf("the model's provider cannot be reached: this server has no network, or needs a proxy; %w", err))
	case errors.Is(err, ErrIdle) && m.lastError != "":
		m.fail(fmt.Errorf("%w; its last message: %s", err, m.lastError))
	default:
		m.fail(err)
	}
	return m.out
}

// Abandon ends the turn because its client has gone. It returns what was held of the text, which is
// a part of what the model has said: the answer may be stored. There is no last output.
func (m *Machine) Abandon() []Output {
	m.out = m.out[:0]
	if !m.done {
		m.closeBuffer(usetool.AbortDisconnect)
	}
	if !m.done {
		m.policy.end()
		m.done = true
		m.usage.interrupt()
	}
	return m.out
}

func (m *Machine) event(e *codexrpc.Event) {
	if m.report.Truncated {
		m.lastUsage(e)
		return
	}
	if e.Kind != codexrpc.EventAnnotations {
		m.endMessage()
	}
	switch e.Kind {
	case codexrpc.EventTextDelta:
		m.text(m.texts.delta(e.ItemID, e.Text))
	case codexrpc.EventReasoningDelta:
		m.reasoning(e)
	case codexrpc.EventItemStarted:
		m.itemStarted(e)
		switch e.ItemType {
		case codexrpc.ItemWebSearch:
			m.searched(Output{Kind: OutputSearchStart, ID: e.ItemID})
		case codexrpc.ItemToolCall:
			m.callBegun(e)
		}
	case codexrpc.EventArgumentsDelta:
		m.partialCall(aggregator.Input{ID: e.CallID, ThreadItem: e.ItemID, Text: e.Text, Source: aggregator.SourceFragment})
	case codexrpc.EventWebSearch:
		m.searched(Output{Kind: OutputSearchEnd, ID: e.ItemID, Text: e.Text})
	case codexrpc.EventAnnotations:
		m.annotated(e)
	case codexrpc.EventItemCut:
		m.attempt.cut = true
	case codexrpc.EventItemCompleted:
		m.attempt.itemCompleted(e)
		switch {
		case e.ItemType == codexrpc.ItemAgentMessage:
			if e.Text != "" {
				m.rest.items++
			}
			m.messageCompleted(e)
		}
	case codexrpc.EventFunctionCall:
		m.functionCall(e)
		m.attempt.cut = m.attempt.cut || e.Status == codexrpc.StatusIncomplete
	case codexrpc.EventCallOutput:
		m.attempt.over = m.refused // the end of a whole response would have ended the turn
		if e.Status != codexrpc.StatusFailed && slices.Contains(m.stray, e.CallID) {
			m.fail(ErrOwnTools)
		}
	case codexrpc.EventOffered:
		m.offered(e)
	case codexrpc.EventOwnCall:
		m.report.Unoffered++
		m.fail(ErrOwnTools)
	case codexrpc.EventReasoningItem:
		m.reasoningItem(e)
	case codexrpc.EventResponseCompleted:
		m.responseCompleted(e)
	case codexrpc.EventTokenUsage:
		m.usage.thread(e.Usage, m.opts.Spent)
	case codexrpc.EventError:
		m.attemptFailed(e)
	case codexrpc.EventTurnCompleted:
		m.turnCompleted(e)
	}
}

// emit appends an output, after the reasoning items that are pending. The outputs of a call
// follow one another: what comes between its begin and its end waits for the end.
func (m *Machine) emit(o Output) {
	if m.live != 0 && (o.Call != m.live-1 || !o.Kind.ofCall()) {
		m.hold(o)
		return
	}
	m.begun = true
	if len(m.pendingReasoning) > 0 {
		m.out = append(m.out, m.pendingReasoning...)
		m.pendingReasoning = m.pendingReasoning[:0]
	}
	if m.opts.WebSearch && o.Kind == OutputText {
		m.search.chars += utf8.RuneCountInString(o.Text)
	}
	m.out = append(m.out, o)
	switch o.Kind {
	case OutputCallStart:
		m.live = o.Call + 1
	case OutputCallEnd:
		m.live = 0
		m.emitHeld()
	}
}

// text processes a new piece of a message, after the gap between it and the message
// before.
func (m *Machine) text(gap, text string) {
	if text == "" {
		return
	}
	if gap != "" {
		m.closeBuffer("") // a block does not span two messages
		if m.stopped() || m.full() {
			return
		}
		m.gap = gap
	}
	m.untilStop(text)
}

// messageCompleted ends a message, and a block that is open in it. If another message
// has begun since, its block stays open.
func (m *Machine) messageCompleted(e *codexrpc.Event) {
	m.text(m.texts.completed(e.ItemID, e.Text))
	if m.texts.last == e.ItemID && !m.stopped() {
		m.closeBuffer("")
		if !m.stopped() {
			m.messageEnded(e.Phase)
		}
	}
}

func (m *Machine) reasoning(e *codexrpc.Event) {
	if m.opts.NoReasoning || m.hasAll() {
		return
	}
	if gap := m.texts.reasoning(e.ItemID, e.Index); gap != "" {
		m.emit(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: gap, Gap: true})
	}
	if e.Text != "" {
		m.emit(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: e.Text})
	}
}

// maxPendingReasoning bounds the number of pending reasoning items; a model has one or
// two before its next output.
const maxPendingReasoning = 64

// reasoningItem ends a reasoning item. The end is pending until the next output, since
// the client sees nothing of it alone: if the response breaks off before, Codex may try
// again without the item.
func (m *Machine) reasoningItem(e *codexrpc.Event) {
	m.rest.reason(e)
	if !m.opts.Items || m.hasAll() || len(m.pendingReasoning) == maxPendingReasoning {
		return
	}
	m.pendingReasoning = append(m.pendingReasoning, Output{Kind: OutputReasoningEnd, ID: e.ItemID, Text: e.Text})
}

// maxStray bounds the calls whose answer by Codex is checked. More are rare enough: the turn
// ends after 16 responses of nothing else.
const maxStray = 64

// offered checks that Codex offers the model the client's tools and no other.
func (m *Machine) offered(e *codexrpc.Event) {
	for name := range strings.Lines(e.Text) {
		name = strings.TrimSuffix(name, "\n")
		if _, own := m.clientName(name); !own && !(m.opts.WebSearch && name == webSearchTool) {
			m.fail(fmt.Errorf("%w: %s", ErrOwnTools, name))
			return
		}
	}
}

// webSearchTool is the name of the provider's web search among the tools.
const webSearchTool = "web_search"

// functionCall processes a structured call. A call of a tool that is not the client's is
// ignored: Codex answers it.
func (m *Machine) functionCall(e *codexrpc.Event) {
	if m.attempt.over {
		m.retried(errBrokeOff)
		return
	}
	name, ok := m.clientName(e.Name)
	call := aggregator.Input{ID: e.CallID, Item: e.ItemID, Name: name, Text: e.Text, Source: aggregator.SourceItem, Done: true}
	m.rest.call(e, ok)
	if !ok {
		m.report.Unoffered++
		m.strayed = true
		if len(m.stray) < maxStray {
			m.stray = append(m.stray, e.CallID)
		}
		return
	}
	if m.choice.Repeats(call) {
		m.report.Duplicates++
		return
	}
	known := m.choice.Knows(call)
	m.releaseText() // it precedes the call
	if m.stopped() || !known && m.full() {
		return
	}
	// Codex waits for an answer, even if the client does not get this call because it is
	// the twin of a block. So no grace runs.
	m.asked = true
	m.grace.running = m.policy.closed()
	m.cut, m.lastCall, m.afterCall = false, e.Text, true
	if !known {
		m.usage.say(e.Name)
		m.usage.say(e.Text)
	}
	ended, conflicts := m.policy.ended, m.choice.Stats().Conflicts
	m.pass(m.choice.Call(call, m.parts[:0]))
	if m.choice.Stats().Conflicts > conflicts {
		m.texts.differs = true // the client has the fragments
	}
	if m.policy.ended > ended {
		m.countCall(&call)
	}
}

// truncate is called when the model exceeds the limit of calls. From then on the machine
// waits for the usage only, which comes with the end of the model response, and ignores
// the text.
func (m *Machine) truncate() {
	m.discard()
	if !m.policy.closed() || !m.grace.running {
		m.grace.start()
	}
}

// responseCompleted ends the turn after structured calls, which only the client can
// answer, and after textual ones except in StopOff.
func (m *Machine) responseCompleted(e *codexrpc.Event) {
	m.usage.response(e)
	m.closeBuffer("")
	if m.asked || m.report.Truncated || (m.report.Calls > 0 && m.opts.StopAfterTools != StopOff) {
		m.rest.natural = !m.done
		m.finish(m.reason())
	} else if m.strayed && !m.done {
		m.goOn(e.Usage)
	}
}

// maxStrays is how many responses of a turn may call tools that are not the client's. A model
// that has not understood by then what Codex tells it will not until its context is full.
const maxStrays = 16

// goOn is called when Codex asks the model again, since only tools were called that are not the
// client's. The turn ends if that is once too often, or beyond the budget: the next response has
// at least the input of this one.
func (m *Machine) goOn(u *codexrpc.Usage) {
	m.strayed = false
	m.strays++
	within := m.strays < maxStrays
	if u != nil && m.opts.Budget != nil {
		used, _ := m.usage.total()
		within = m.opts.Budget.Raise(used.InputTokens+used.OutputTokens+u.InputTokens) && within
	}
	if !within {
		m.finishCut(FinishLength)
	}
}
