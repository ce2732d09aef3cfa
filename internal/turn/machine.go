// Package turn makes the outputs of one choice from the events of one Codex turn. The [Machine] is
// pure: it turns events into [Output] values, without a clock and I/O. [Drive] runs it with a live
// turn's events. All APIs make streamed and whole answers of the same outputs, so these agree.
package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Machine is the state of one turn of one choice. Only one goroutine at a time may use it.
type Machine struct {
	opts        *Options
	messages    messages
	limits      textLimits
	choice      aggregator.Choice // collects the calls, also from blocks in the text
	runs        clientRuns
	policy      policy
	out         emitter
	report      Report
	usage       usage
	thread      threadTracker
	grace       grace
	attempt     attempt
	endedPhase  string // the phase of a message that has ended, whose end waits for annotations; empty: none
	pictureTool pictureTool
	summary     summary
	strays      strayCalls
	structured  structuredState
	lastCall    lastCall
	done        bool // the turn has ended; further events are ignored
	end         End  // how the turn ended; the last output refers to it

	parts      []aggregator.Part
	partMemory [1]aggregator.Part // the first memory of parts
}

type structuredState struct {
	hasComplete bool // there was a structured call, and Codex waits for its result
	refused     bool // the structured calls were answered with a failure, see refuseCalls
}

// lastCall describes the last call that the model has written; zero: none, or text came after it.
type lastCall struct {
	openBlock  bool   // the call is a block without an end
	structured bool   // the call is structured
	arguments  string // of the structured call
}

// isCut reports whether the output ends within a call: an open block, or arguments that are no JSON.
func (l *lastCall) isCut() bool {
	return l.openBlock || l.structured && !json.Valid([]byte(l.arguments))
}

// Reset puts a machine at the start of a turn and forgets the last turn. opts must not change in a turn.
func (m *Machine) Reset(opts *Options) {
	*m = Machine{opts: opts, limits: newTextLimits(opts), runs: newClientRuns(opts)}
	m.out.batch, m.parts = m.out.batchMemory[:0], m.partMemory[:0]
	m.out.countsChars, m.out.onlySummary = opts.WebSearch, opts.Summary
	m.policy = policy{opts: opts, report: &m.report, out: &m.out}
	calls := aggregator.ChoiceOptions{
		Options: aggregator.Options{IDSuffix: strings.ToLower(opts.IDSuffix), MaxCalls: opts.maxCalls()},
		Index:   opts.Choice, Dedup: opts.ToolBlockDedup,
	}
	if opts.findsBlocks() {
		calls.ToolName = m.blockName
		calls.Scanner = &aggregator.ScannerOptions{
			Patterns: opts.Patterns, Accept: opts.AcceptTextual,
			SkipFenced: !opts.writesBlocks(), // an Obsidian client also runs blocks in code fences
		}
	}
	m.choice.Reset(calls)
}

// Done reports whether the turn has ended (finish, failure or [Machine.Abandon]) and ignores events.
func (m *Machine) Done() bool { return m.done }

// Report returns what the turn has done with tool calls and text so far.
func (m *Machine) Report() Report {
	report := m.report
	report.TextDiffers = m.messages.differs
	report.Truncated = report.Truncated || m.runs.exceeded
	return report
}

// Feed processes events and returns their outputs, a slice that is valid until the next call.
func (m *Machine) Feed(events []codexrpc.Event) []Output {
	m.out.startBatch()
	for i := range events {
		if m.done {
			break
		}
		m.processEvent(&events[i])
	}
	return m.out.batch
}

// GraceOver ends a turn whose grace (the wait for more calls) is over. But the grace starts again while the
// model may be writing a block for the client: in ModeXML in any case, since an Obsidian client runs even a
// block without an end; in ModeJSON only if text has come since the grace began. Without a grace, GraceOver
// does nothing.
func (m *Machine) GraceOver() []Output {
	m.out.startBatch()
	switch {
	case m.done || !m.grace.running:
	case m.mayHoldTag() && !m.clientHasAll() && (m.grace.hasText || m.opts.writesBlocks()):
		m.grace.start()
	default:
		m.finish(false)
	}
	return m.out.batch
}

// Fail ends the turn with a failure that is no event, such as a lost connection. A truncated
// turn, which lacks only its usage, ends without one. If the turn has ended already, Fail returns nothing.
func (m *Machine) Fail(err error) []Output {
	m.out.startBatch()
	switch {
	case m.done:
	case m.report.Truncated:
		m.emitFinish(m.finishReason())
	case errors.Is(err, ErrIdle) && strings.HasSuffix(m.attempt.lastFailure, "waiting for network"):
		m.fail(fmt.Errorf("the model's provider cannot be reached: this server has no network, or needs a proxy; %w", err))
	case errors.Is(err, ErrIdle) && m.attempt.lastFailure != "":
		m.fail(fmt.Errorf("%w; its last message: %s", err, m.attempt.lastFailure))
	default:
		m.fail(err)
	}
	return m.out.batch
}

// Abandon ends the turn because its client has gone. It returns the withheld text, since the answer may be
// stored. It returns no OutputFailure, and an OutputFinish only if the withheld text reaches a limit.
func (m *Machine) Abandon() []Output {
	m.out.startBatch()
	if !m.done {
		m.flushMessage(usetool.AbortDisconnect)
	}
	if !m.done {
		m.policy.end()
		m.done = true
		m.usage.interrupted()
	}
	return m.out.batch
}

func (m *Machine) processEvent(e *codexrpc.Event) {
	if m.report.Truncated {
		m.eventAfterTruncate(e)
		return
	}
	if e.Kind != codexrpc.EventAnnotations {
		m.emitMessageEnd()
	}
	switch e.Kind {
	case codexrpc.EventTextDelta:
		m.addText(m.messages.addDelta(e.ItemID, e.Text))
	case codexrpc.EventReasoningDelta:
		m.emitReasoning(e)
	case codexrpc.EventItemStarted:
		m.itemStarted(e)
	case codexrpc.EventWebSearch:
		m.emitSearch(Output{Kind: OutputSearchEnd, ID: e.ItemID, Text: e.Text})
	case codexrpc.EventAnnotations:
		m.emitAnnotations(e)
	case codexrpc.EventItemCut:
		m.attempt.itemCut = true
	case codexrpc.EventItemCompleted:
		if e.ItemID == m.attempt.openItem {
			m.attempt.openItem = ""
		}
		switch {
		case e.ItemType == codexrpc.ItemAgentMessage:
			m.messageCompleted(e)
		case e.ItemType == codexrpc.ItemPicture && m.opts.Picture:
			m.pictureItemCompleted(e)
		}
	case codexrpc.EventFunctionCall:
		m.functionCall(e)
		m.attempt.itemCut = m.attempt.itemCut || e.Status == codexrpc.StatusIncomplete
	case codexrpc.EventCallOutput:
		if m.opts.Picture && e.CallID == m.pictureTool.lastCallID {
			m.pictureCallAnswered(e)
			return
		}
		m.attempt.callsAnswered = m.structured.refused // if refused is true, the response broke off: a complete response would have ended the turn
		if e.Status != codexrpc.StatusFailed && slices.Contains(m.strays.ids, e.CallID) {
			m.fail(ErrOwnTools)
		}
	case codexrpc.EventOffered:
		m.checkOffered(e)
	case codexrpc.EventOwnCall:
		m.report.Unoffered++
		m.fail(fmt.Errorf("%w (the call: %.64s)", ErrInventedTool, e.Name))
	case codexrpc.EventReasoningItem:
		if m.opts.Items && !m.clientHasAll() {
			m.out.endReasoning(Output{Kind: OutputReasoningEnd, ID: e.ItemID, Text: e.Text})
		}
	case codexrpc.EventResponseCompleted:
		m.responseCompleted(e)
	case codexrpc.EventTokenUsage:
		m.usage.setThreadTotal(e.Usage, m.opts.Spent)
	case codexrpc.EventError:
		m.attemptFailed(e)
	case codexrpc.EventTurnCompleted:
		m.turnCompleted(e)
	}
}

func (m *Machine) itemStarted(e *codexrpc.Event) {
	m.detectRetry(e)
	switch e.ItemType {
	case codexrpc.ItemWebSearch:
		m.emitSearch(Output{Kind: OutputSearchStart, ID: e.ItemID})
	case codexrpc.ItemPicture:
		m.pictureTool.inProgress = m.opts.Picture
	}
}

// addText processes a piece of a message. gap separates the piece from the text before; empty: no gap.
func (m *Machine) addText(gap, text string) {
	if m.opts.Picture {
		m.pictureTool.addText(gap + text)
		return
	}
	if m.opts.Summary {
		m.summary.add(gap + text)
		m.usage.addText(text)
		return
	}
	if text == "" {
		return
	}
	if gap != "" {
		m.flushMessage("") // a block does not span two messages
		if m.stopped() || m.checkTokenLimit() {
			return
		}
		m.messages.pendingGap = gap
	}
	m.applyStopSequences(text)
	m.grace.hasText = true
}

// messageCompleted ends a message and the block that is open in it. A block of a later message stays open.
func (m *Machine) messageCompleted(e *codexrpc.Event) {
	m.addText(m.messages.complete(e.ItemID, e.Text))
	if m.messages.lastItem == e.ItemID && !m.stopped() {
		m.flushMessage("")
		switch {
		case m.stopped():
		case m.opts.WebSearch:
			m.endedPhase = e.Phase // annotations may follow, so the end waits for the next event of another kind
		default:
			m.policy.endMessage(e.Phase)
		}
	}
}

func (m *Machine) emitReasoning(e *codexrpc.Event) {
	if m.opts.NoReasoning || m.clientHasAll() {
		return
	}
	if gap := m.messages.gapBeforeReasoning(e.ItemID, e.Index); gap != "" {
		m.out.emit(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: gap, Gap: true})
	}
	if e.Text != "" {
		m.out.emit(Output{Kind: OutputReasoning, ID: e.ItemID, Part: e.Index, Text: e.Text})
	}
}

// checkOffered fails the turn if the model is offered a tool that is neither the client's nor allowed.
func (m *Machine) checkOffered(e *codexrpc.Event) {
	for name := range strings.Lines(e.Text) {
		name = strings.TrimSuffix(name, "\n")
		allowed := m.opts.WebSearch && name == webSearchTool || m.opts.Picture && name == codexrpc.PictureTool
		if _, isClients := m.clientName(name); !isClients && !allowed {
			m.fail(fmt.Errorf("%w: %s", ErrOwnTools, name))
			return
		}
	}
}

// webSearchTool is the name of the provider's web search among the tools.
const webSearchTool = "web_search"

// functionCall processes a structured call. Codex itself answers calls of tools that are not the client's.
func (m *Machine) functionCall(e *codexrpc.Event) {
	if m.attempt.callsAnswered {
		m.handleRetry(errBrokeOff)
		return
	}
	if m.opts.Picture && e.Name == codexrpc.PictureTool {
		m.pictureTool.lastCallID, m.pictureTool.awaited, m.strays.inResponse = e.CallID, true, true
		return
	}
	if m.opts.Summary {
		m.summary.hasCalls, m.summary.suspended = true, true
		return
	}
	name, ok := m.clientName(e.Name)
	call := aggregator.Input{ID: e.CallID, Item: e.ItemID, Name: name, Text: e.Text, Source: aggregator.SourceItem, Done: true}
	m.thread.addCall(e, ok)
	if !ok {
		m.report.Unoffered++
		if m.strays.inResponse = true; len(m.strays.ids) < maxStrayCalls {
			m.strays.ids = append(m.strays.ids, e.CallID)
		}
		return
	}
	if m.choice.Repeats(call) {
		m.report.Duplicates++
		return
	}
	m.releaseText() // the held text precedes the call
	if m.stopped() || m.checkTokenLimit() {
		return
	}
	// Codex waits for the result of this call, even if the client has it as a block already. So the
	// turn ends at the end of the model's response, and the grace stops, unless the client has all
	// that it will get (StopFirst).
	m.structured.hasComplete = true
	m.grace.running = m.policy.isClosed()
	m.lastCall = lastCall{structured: true, arguments: e.Text}
	m.usage.addText(e.Name)
	m.usage.addText(e.Text)
	sent := m.report.Calls
	m.processParts(m.choice.Call(call, m.parts[:0]))
	if m.report.Calls > sent {
		m.countCall(&call)
	}
}

// truncate is called when the model exceeds the limit of calls. The machine ignores further text
// and calls, and waits only for the usage at the end of the response. The text that the limits hold is
// dropped, and each open block counts as aborted.
func (m *Machine) truncate() {
	m.report.Truncated = true
	m.limits.clear()
	open := m.report.Started - m.report.Flushed
	for _, aborted := range m.report.Aborted {
		open -= aborted
	}
	for range open {
		m.report.abort(usetool.AbortInterrupted)
	}
	if !m.policy.isClosed() || !m.grace.running { // in StopFirst, the grace since the first call goes on
		m.grace.start()
	}
}

// responseCompleted processes the end of a response. It ends the turn after structured calls, since only
// the client can answer these, and, except in StopOff, after textual calls.
func (m *Machine) responseCompleted(e *codexrpc.Event) {
	m.usage.addResponse(e)
	m.flushMessage("")
	if m.opts.Summary {
		m.summaryResponseCompleted()
		return
	}
	if m.structured.hasComplete || m.report.Truncated || (m.report.Calls > 0 && m.opts.StopAfterTools != StopOff) {
		m.finish(true)
	} else if m.strays.inResponse && !m.done {
		m.continueAfterStrays()
	}
}

// continueAfterStrays is called after a response with stray calls or calls for pictures, but no calls for
// the client. It ends the turn after too many such responses. Otherwise Codex asks the model again; after a
// call for a picture, only if no picture was made, since a picture ends the turn.
func (m *Machine) continueAfterStrays() {
	m.strays.inResponse = false
	m.strays.responses++
	if mayContinue := m.strays.responses < maxStrayResponses; !mayContinue || !m.pictureTool.awaited {
		m.expectResponse(mayContinue) // otherwise pictureCallAnswered calls expectResponse later
	}
}

// expectResponse is called when Codex asks the model again. It ends the turn if mayContinue is false, or if
// the budget has fewer tokens than the last response's input: the next response needs at least as many.
func (m *Machine) expectResponse(mayContinue bool) {
	if last := m.usage.lastResponse; last != nil && m.opts.Budget != nil {
		used, _ := m.usage.total()
		mayContinue = m.opts.Budget.Raise(used.InputTokens+used.OutputTokens+last.InputTokens) && mayContinue
	}
	if mayContinue {
		m.usage.askedAgain = true
		m.out.responseStarted, m.messages.responseHasText = false, false // a retry repeats the next response, not this one
	} else {
		m.finishCut(FinishLength)
	}
}
