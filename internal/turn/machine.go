package turn

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

// Machine is the state of one turn of one choice.
type Machine struct {
	opts    Options
	texts   texts
	stops   *stopFilter      // nil: no sequence ends the text
	limit   *tokens.Limit    // nil: the text has no limit
	scanner *usetool.Scanner // nil: the text is not looked at
	calls   *calls
	policy  policy
	report  Report
	usage   usage
	rest    rest
	grace   grace

	out      []Output
	thoughts []Output // ends of reasoning items that wait for an output
	segments []usetool.Segment
	gap      string     // parts the text that comes next from the message before
	begun    bool       // something was put out
	open     bool       // a block that was begun is neither flushed nor aborted
	asked    bool       // Codex waits for the client's answer to a structured call
	cut      bool       // the text ends with a block without an end
	lastCall *candidate // the structured call after which no text came; nil: there is none
	done     bool       // the last output was put out
	last     string     // Codex's last complaint, to explain a silence
}

// New makes a machine at the start of a turn.
func New(opts Options) *Machine {
	m := &Machine{opts: opts, usage: usage{before: opts.Spent}, calls: newCalls(&opts), stops: newStopFilter(opts.StopSequences)}
	if opts.MaxTokens > 0 {
		m.limit = tokens.NewLimit(opts.MaxTokens)
	}
	m.policy = policy{opts: &m.opts, calls: m.calls, report: &m.report, put: m.put}
	if opts.textual() {
		m.scanner = usetool.NewScanner(usetool.ScannerOptions{
			// An Obsidian client acts on blocks in code fences, too.
			SkipFenced: !opts.xml(),
			Accept:     opts.AcceptTextual,
		})
	}
	return m
}

// Done reports whether the last output, a finish or a failure, was given.
// Whatever else the turn says is not the client's.
func (m *Machine) Done() bool { return m.done }

// Report is what the turn has done with tool calls so far.
func (m *Machine) Report() Report { return m.report }

// Grace returns the time after which [Machine.GraceOver] wants to be called,
// counted from the moment at which generation last changed; false if no grace
// is running.
func (m *Machine) Grace() (after time.Duration, generation int, running bool) {
	return m.opts.Grace, m.grace.generation, m.grace.running && !m.done
}

// Feed takes a batch of events and returns what they make the client see. The
// slice is the machine's, valid until the next call.
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

// GraceOver ends a turn whose grace has passed. While another block is being
// written, or only its tag, the grace begins anew.
func (m *Machine) GraceOver() []Output {
	m.out = m.out[:0]
	switch {
	case m.done || !m.grace.running:
	case m.tagHeld():
		m.grace.start()
	default:
		m.finish(FinishToolCalls)
	}
	return m.out
}

// Fail ends the turn with a failure that did not come as an event, such as a
// lost connection. It returns nothing when the turn has already ended.
func (m *Machine) Fail(err error) []Output {
	m.out = m.out[:0]
	switch {
	case m.done:
	case m.report.Truncated:
		m.end(FinishToolCalls) // all that is missing is the usage
	case errors.Is(err, ErrIdle) && m.last != "":
		m.fail(fmt.Errorf("%w; its last message: %s", err, m.last))
	default:
		m.fail(err)
	}
	return m.out
}

// Abandon ends the turn because its client has gone: what is held is only
// counted.
func (m *Machine) Abandon() {
	if !m.done {
		m.done = true
		m.countHeld()
	}
}

func (m *Machine) event(e *codexrpc.Event) {
	if m.report.Truncated {
		m.lastUsage(e)
		return
	}
	switch e.Kind {
	case codexrpc.EventTextDelta:
		m.text(m.texts.delta(e.ItemID, e.Text))
	case codexrpc.EventReasoningDelta:
		m.reasoning(e)
	case codexrpc.EventItemStarted:
		if e.ItemType == codexrpc.ItemContextCompaction {
			m.fail(ErrCompacted)
		}
	case codexrpc.EventItemCompleted:
		if e.ItemType == codexrpc.ItemAgentMessage {
			m.messageCompleted(e)
		}
	case codexrpc.EventFunctionCall:
		m.functionCall(e)
	case codexrpc.EventReasoningItem:
		m.reasoningItem(e)
	case codexrpc.EventResponseCompleted:
		m.responseCompleted(e)
	case codexrpc.EventTokenUsage:
		m.usage.thread(e.Usage)
	case codexrpc.EventError:
		m.complaint(e)
	case codexrpc.EventTurnCompleted:
		m.turnCompleted(e)
	}
}

// put appends an output, after the reasoning items that waited for it.
func (m *Machine) put(o Output) {
	m.begun = true
	if len(m.thoughts) > 0 {
		m.out = append(m.out, m.thoughts...)
		m.thoughts = m.thoughts[:0]
	}
	m.out = append(m.out, o)
}

// text takes a new piece of the message, after the gap that parts two messages
// of one turn.
func (m *Machine) text(gap, text string) {
	if text == "" {
		return
	}
	if gap != "" {
		m.closeBuffer("") // a block does not reach into another message
		if m.stopped() || m.full() {
			return
		}
		m.gap = gap
	}
	m.untilStop(text)
}

// messageCompleted ends a message. A block cannot go on in another one; that of
// a message which has begun meanwhile is not touched.
func (m *Machine) messageCompleted(e *codexrpc.Event) {
	m.text(m.texts.completed(e.ItemID, e.Text))
	if m.texts.last == e.ItemID && !m.stopped() {
		m.closeBuffer("")
		if !m.stopped() {
			m.policy.phase(e.Phase)
		}
	}
}

func (m *Machine) reasoning(e *codexrpc.Event) {
	if m.opts.NoReasoning {
		return
	}
	if gap := m.texts.reasoning(e.ItemID, e.Index); gap != "" {
		m.put(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: gap, Gap: true})
	}
	if e.Text != "" {
		m.put(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: e.Text})
	}
}

// maxThoughts bounds the reasoning items that wait, in number; a model has one
// or two before it says something.
const maxThoughts = 64

// reasoningItem ends a reasoning item. That alone shows a client nothing, so
// that it waits for the next output: if the response breaks off before, Codex
// may try again, and the item never was.
func (m *Machine) reasoningItem(e *codexrpc.Event) {
	if !m.opts.Items || len(m.thoughts) == maxThoughts {
		return
	}
	m.thoughts = append(m.thoughts, Output{
		Kind: OutputReasoningEnd, ID: strings.Clone(e.ItemID), Text: strings.Clone(e.Text),
	})
}

// functionCall takes a call of one of the client's tools. A call of another is
// Codex's own affair: it answers the model itself.
func (m *Machine) functionCall(e *codexrpc.Event) {
	name, ok := e.Name, true
	if m.opts.ClientName != nil {
		name, ok = m.opts.ClientName(e.Name)
	}
	call := &candidate{backendID: e.CallID, name: name, arguments: e.Text}
	m.rest.call(e, ok)
	if !ok || m.repeated(call) {
		return
	}
	m.releaseText() // it was said before
	if m.stopped() || m.full() {
		return
	}
	// Also if the client does not get this one, being the twin of a block: Codex
	// waits for an answer, and so no grace does.
	m.asked = true
	m.grace.running = false
	m.cut, m.lastCall = false, call
	if m.take(call) {
		m.countCall(call)
	}
}

// repeated reports whether an event tells of a call that an earlier one has
// told of, and counts it.
func (m *Machine) repeated(call *candidate) bool {
	repeated := m.calls.repeated(call)
	if repeated {
		m.report.Duplicates++
	}
	return repeated
}

// take offers a call to the policy and stops the turn if that is its end. It
// reports whether the client got it.
func (m *Machine) take(call *candidate) (got bool) {
	got = m.policy.call(call)
	switch {
	case m.report.Truncated:
		m.truncate()
	case got && m.opts.StopAfterTools == StopFirst:
		m.stop()
	case call.textual() && m.calls.count > 0 && m.opts.StopAfterTools != StopOff && !m.asked:
		m.grace.start()
	}
	return got
}

// truncate is called when the model makes a call too many. There is nothing to
// wait for but the usage, which comes with the end of the model response. What
// else is in the text is not the client's.
func (m *Machine) truncate() {
	m.discard()
	m.grace.start()
}

// responseCompleted ends the turn after calls that only the client can answer,
// and after textual ones unless the model is to finish.
func (m *Machine) responseCompleted(e *codexrpc.Event) {
	m.usage.response(e.Usage)
	m.closeBuffer("")
	if m.asked || m.report.Truncated || (m.calls.count > 0 && m.opts.StopAfterTools != StopOff) {
		m.rest.natural = !m.done
		m.finish(m.reason())
	}
}
