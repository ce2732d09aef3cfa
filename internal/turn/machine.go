// Package turn makes the outputs of one choice from the events of one Codex turn. The [Machine] is
// pure: it gets events and returns [Output] values, and has no clock and no I/O. [Drive] runs it
// over a live turn. The answers of chat completions and of Responses, streamed or not, are made
// only from these outputs, so they cannot differ.
package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Machine is the state of one turn of one choice. It must not be used by several
// goroutines at once.
type Machine struct {
	opts       *Options
	texts      texts
	cuts       cuts
	choice     aggregator.Choice // the calls, and the blocks in the text
	policy     policy
	out        emitter
	report     Report
	usage      usage
	rest       rest
	grace      grace
	attempt    attempt
	search     webSearch
	picture    picture
	pictures   pictures
	strays     strays
	structured structured
	last       lastSaid
	done       bool // the last output was returned

	parts    []aggregator.Part
	fewParts [1]aggregator.Part // the memory of parts for most pieces of text
}

// structured is what is known of the structured calls of a turn.
type structured struct {
	whole   bool // there was a complete call, and Codex waits for its answer
	partial bool // there was a call that was not complete at once
	refused bool // their answers were failures
}

// lastSaid describes the call that the model has written last. It is zero if text came after the
// call.
type lastSaid struct {
	open      bool   // it is a block without an end
	call      bool   // it is a structured call
	arguments string // of the structured call
}

// isCut reports whether the model's last words are a call without an end: an open block, or a
// structured call whose arguments are not JSON.
func (l *lastSaid) isCut() bool { return l.open || l.call && !json.Valid([]byte(l.arguments)) }

// New returns a machine at the start of a turn. opts must not change until the turn ends.
func New(opts *Options) *Machine {
	m := new(Machine)
	m.Reset(opts)
	return m
}

// Reset puts a machine at the start of a turn, as [New] does. It is for a machine that is a part of
// a larger value. The machine forgets its previous turn.
func (m *Machine) Reset(opts *Options) {
	*m = Machine{opts: opts, cuts: newCuts(opts)}
	m.out.batch, m.parts = m.out.short[:0], m.fewParts[:0]
	m.out.counts = opts.WebSearch
	m.policy = policy{opts: opts, report: &m.report, out: &m.out}
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

// Done reports whether the machine has returned its last output, a finish or a failure. It ignores
// events after that.
func (m *Machine) Done() bool { return m.done }

// Report returns what the turn has done with tool calls and text so far.
func (m *Machine) Report() Report {
	m.report.TextDiffers = m.texts.differs
	return m.report
}

// Grace returns how long the caller waits for more calls (the grace) before it calls
// [Machine.GraceOver]. The wait begins anew when generation changes. running is false if the
// machine does not wait.
func (m *Machine) Grace() (after time.Duration, generation int, running bool) {
	return m.opts.Grace, m.grace.generation, m.grace.running && !m.done
}

// Feed processes a batch of events and returns their outputs. The slice is valid until
// the next call.
func (m *Machine) Feed(events []codexrpc.Event) []Output {
	m.out.start()
	for i := range events {
		if m.done {
			break
		}
		if m.event(&events[i]); m.out.overfull() {
			m.endItems()
		}
	}
	return m.out.batch
}

// GraceOver ends a turn whose grace (the wait for more calls) has passed. But if the model is still
// writing a <use_tool> block or its tag, or a picture is being made, GraceOver starts the grace
// again.
func (m *Machine) GraceOver() []Output {
	m.out.start()
	switch {
	case m.done || !m.grace.running:
	case m.tagHeld() && !m.hasAll(), len(m.pictures.open) > 0:
		m.grace.start()
	default:
		m.finish(FinishToolCalls)
	}
	return m.out.batch
}

// Fail ends the turn with a failure that is no event, such as a lost connection. It
// returns nothing if the turn has already ended.
func (m *Machine) Fail(err error) []Output {
	m.out.start()
	switch {
	case m.done:
	case m.report.Truncated:
		m.end(m.reason())
	case errors.Is(err, ErrIdle) && strings.HasSuffix(m.attempt.failure, "waiting for network"):
		m.fail(fmt.Errorf("the model's provider cannot be reached: this server has no network, or needs a proxy; %w", err))
	case errors.Is(err, ErrIdle) && m.attempt.failure != "":
		m.fail(fmt.Errorf("%w; its last message: %s", err, m.attempt.failure))
	default:
		m.fail(err)
	}
	return m.out.batch
}

// Abandon ends the turn because its client has gone. It returns the text that was withheld, since
// the answer may be stored. It returns no OutputFinish or OutputFailure.
func (m *Machine) Abandon() []Output {
	m.out.start()
	if !m.done {
		m.closeBuffer(usetool.AbortDisconnect)
	}
	if !m.done {
		m.policy.end()
		m.done = true
		m.usage.interrupt()
	}
	return m.out.batch
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
		case e.ItemType == codexrpc.ItemPicture && m.opts.Pictures:
			m.pictureDone(e)
		}
	case codexrpc.EventFunctionCall:
		m.functionCall(e)
		m.attempt.cut = m.attempt.cut || e.Status == codexrpc.StatusIncomplete
	case codexrpc.EventCallOutput:
		if m.callAnswered(e) {
			return
		}
		m.attempt.over = m.structured.refused // a complete response would have ended the turn before
		if e.Status != codexrpc.StatusFailed && m.strays.has(e.CallID) {
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

// itemStarted processes the begin of an item.
func (m *Machine) itemStarted(e *codexrpc.Event) {
	m.checkAttempt(e)
	switch e.ItemType {
	case codexrpc.ItemWebSearch:
		m.searched(Output{Kind: OutputSearchStart, ID: e.ItemID})
	case codexrpc.ItemToolCall:
		m.callBegun(e)
		m.pictures.held = true
		m.endHeldPictures()
	case codexrpc.ItemPicture:
		m.picture.waits, m.pictures.begun = m.opts.Pictures, e.ItemID
	}
}

// text processes a new piece of a message. gap is the separator between the previous message and
// this one, or empty.
func (m *Machine) text(gap, text string) {
	if m.opts.PictureOnly {
		m.picture.say(gap + text)
		return
	}
	if text == "" {
		return
	}
	if gap != "" {
		m.closeBuffer("") // a block does not span two messages
		if m.stopped() || m.full() {
			return
		}
		m.texts.gapDue = gap
	}
	m.untilStop(text)
}

// messageCompleted ends a message and the block that is open in the message. If another message has
// already begun, the open block belongs to that message and stays open.
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
		m.out.emit(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: gap, Gap: true})
	}
	if e.Text != "" {
		m.out.emit(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: e.Text})
	}
}

// reasoningItem ends a reasoning item.
func (m *Machine) reasoningItem(e *codexrpc.Event) {
	m.rest.reason(e)
	if m.opts.Items && !m.hasAll() {
		m.out.endReasoning(Output{Kind: OutputReasoningEnd, ID: e.ItemID, Text: e.Text})
	}
}

// offered checks that Codex offers the model the client's tools and no other.
func (m *Machine) offered(e *codexrpc.Event) {
	for name := range strings.Lines(e.Text) {
		name = strings.TrimSuffix(name, "\n")
		if _, own := m.clientName(name); !own && !m.mayHave(name) {
			m.fail(fmt.Errorf("%w: %s", ErrOwnTools, name))
			return
		}
	}
}

// mayHave reports whether the turn may have a tool that is not the client's.
func (m *Machine) mayHave(name string) bool {
	return m.opts.WebSearch && name == webSearchTool || m.opts.Pictures && name == codexrpc.PictureTool
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
	if m.isPictureCall(e) {
		m.pictureCalled(e)
		return
	}
	name, ok := m.clientName(e.Name)
	call := aggregator.Input{ID: e.CallID, Item: e.ItemID, Name: name, Text: e.Text, Source: aggregator.SourceItem, Done: true}
	m.rest.call(e, ok)
	if !ok {
		m.report.Unoffered++
		m.strays.add(e.CallID)
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
	// Codex waits for the result of this call, even if the client does not get the call because a
	// block in the text has made the same call. So the turn ends at the end of the model's
	// response, and the grace (the wait for more calls) stops. Only in StopFirst, after the first
	// call, does the grace continue.
	m.structured.whole = true
	m.grace.running = m.policy.closed()
	m.last = lastSaid{call: true, arguments: e.Text}
	if !known {
		m.usage.say(e.Name)
		m.usage.say(e.Text)
	}
	ended, conflicts := m.policy.ended, m.choice.Stats().Conflicts
	m.pass(m.choice.Call(call, m.parts[:0]))
	if m.choice.Stats().Conflicts > conflicts {
		m.texts.differs = true // the client has other arguments: the fragments
	}
	if m.policy.ended > ended {
		m.countCall(&call)
	}
}

// truncate is called when the model exceeds the limit of calls. From then on the machine ignores
// the text and waits only for the usage, which comes with the end of the model response.
func (m *Machine) truncate() {
	m.discard()
	if !m.policy.closed() || !m.grace.running {
		m.grace.start()
	}
}

// responseCompleted processes the end of a model response. It ends the turn if there were
// structured calls, which only the client can answer. It also ends the turn if there were textual
// calls, except in StopOff.
func (m *Machine) responseCompleted(e *codexrpc.Event) {
	m.usage.response(e)
	m.closeBuffer("")
	if m.structured.whole || m.report.Truncated || (m.report.Calls > 0 && m.opts.StopAfterTools != StopOff) {
		m.rest.natural = !m.done
		if reason := m.reason(); !m.awaitPictures(reason) {
			m.finish(reason)
		}
	} else if m.strays.now && !m.done {
		m.goOn(e.Usage)
	}
}

// goOn is called when Codex asks the model again, after a response that only called tools that are
// not the client's. goOn ends the turn after too many such responses. It also ends the turn if the
// budget has too few tokens for the input of the next response, which is at least the input of this
// one.
func (m *Machine) goOn(u *codexrpc.Usage) {
	within := m.strays.responded()
	if m.opts.PictureOnly { // the picture ends the turn before the next response
		if !within {
			m.withoutPicture()
		}
		return
	}
	if u != nil && m.opts.Budget != nil {
		used, _ := m.usage.total()
		within = m.opts.Budget.Raise(used.InputTokens+used.OutputTokens+u.InputTokens) && within
	}
	if within {
		m.out.begun, m.texts.begun = false, false // Codex may repeat the next response, but not this one
	} else if !m.awaitPictures(FinishLength) {
		m.finishCut(FinishLength)
	}
}
