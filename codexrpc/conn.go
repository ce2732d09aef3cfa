// Package codexrpc is a client of `codex app-server`, the JSON-RPC program behind OpenAI's Codex.
//
// A [Transport] reads and writes whole messages. [NewStdio] makes it for a pair of pipes, with a
// JSON object on each line. A [Conn] multiplexes calls, notifications and the app-server's own
// requests over a transport. A [Thread] is one conversation with Codex, and a turn is one answer of
// the model in it. One goroutine reads the connection. This goroutine never waits for a consumer,
// since each Thread has a bounded queue. A Thread gets only the events with its id and the id of
// its turn.
//
// The package starts no program, and depends neither on Caddy nor on the OpenAI API. The types of the
// protocol follow codex-cli 0.171.0, as
// `codex app-server generate-ts --experimental` prints them. Messages that this package does not know
// have no effect but a line in the log, at the level debug.
package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is one connection to an app-server. All methods are safe for concurrent use.
type Conn struct {
	transport     Transport
	opts          Options
	out           outbox
	in            inbox
	calls         callTable
	server        serverState
	turnCompleted atomic.Bool // see HasCompletedTurn
	done          chan struct{}
	loops         sync.WaitGroup // the goroutines of readLoop and writeLoop
	tasks         sync.WaitGroup // background work, for which Close waits

	mu      sync.Mutex
	err     error // why the connection ended; nil: it has not ended; set before done is closed
	threads map[string]*Thread
}

// inbox is state that only the goroutine that reads the connection uses.
type inbox struct {
	scratch  Event // reused for each line, to save an allocation
	wakeList wakeList
}

// serverState is what the app-server has reported.
type serverState struct {
	limitChanges    atomic.Int64           // see LimitChanges
	loginChanges    atomic.Uint64          // see LoginChanges
	hasPlan         atomic.Bool            // see HasPlan
	signInResult    chan error             // capacity 1: gets the result of the sign-in; nil: the sign-in has succeeded
	configuredModel atomic.Pointer[string] // see ConfiguredModel; nil: not known yet
	configProblem   atomic.Pointer[string] // what is wrong with the configuration; nil: nothing
	home            atomic.Value           // the CODEX_HOME, a string; nil before the handshake
}

// Options are the options of a [Conn]. The goroutine that reads the connection calls Answer and
// Notified, so they must not block.
type Options struct {
	// Logger is called for each line that is logged, from any goroutine. Nil: nothing is logged.
	Logger func() *slog.Logger
	// Answer returns the result for a request of the app-server, such as item/fileChange/requestApproval,
	// or nil for the default: nothing is granted. It gets no tool calls, which [Thread.AnswerCalls]
	// answers. Nil: every request gets the default.
	Answer func(method string, params json.RawMessage) (result any)
	// Notified gets each notification that is no [Event], such as account/updated. Nil: the app-server
	// is asked not to send the notifications that this package does not use.
	Notified func(method string, params json.RawMessage)
}

// NewConn makes a connection over t, and starts two goroutines that read and write. They end when
// the transport fails or [Conn.Close] is called; Close also closes t.
func NewConn(t Transport, opts Options) *Conn {
	if opts.Logger == nil {
		opts.Logger = func() *slog.Logger { return slog.New(slog.DiscardHandler) }
	}
	c := &Conn{
		transport: t,
		opts:      opts,
		out:       outbox{make(chan []byte), make(chan []byte, maxReplies)},
		calls:     newCallTable(),
		server:    serverState{signInResult: make(chan error, 1)},
		done:      make(chan struct{}),
		threads:   make(map[string]*Thread),
	}
	c.loops.Add(2)
	go c.readLoop()
	go c.writeLoop()
	return c
}

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, matching [ErrClosed], or nil before the end.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Threads returns how many threads are open on this connection.
func (c *Conn) Threads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.threads)
}

// Busy reports whether the connection has an open thread or a call in flight. Calls that have timed
// out do not count, nor does [Conn.Diagnostics].
func (c *Conn) Busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.threads)+len(c.calls.slots) > 0
}

// Close ends the connection, closes its transport and waits for its goroutines.
func (c *Conn) Close() error {
	c.Fail(errors.New("closed by this client"))
	err := c.transport.Close()
	c.loops.Wait()
	c.tasks.Wait()
	return err
}

// HasCompletedTurn reports whether any turn has had its [EventTurnCompleted], even a failed one.
func (c *Conn) HasCompletedTurn() bool { return c.turnCompleted.Load() }

// LoginChanges returns how often the app-server has reported a change of its login.
func (c *Conn) LoginChanges() uint64 { return c.server.loginChanges.Load() }

// Fail ends the connection, unless it has ended. Every call and turn fails with an error that
// matches [ErrClosed] and cause. Unlike Close, it neither closes the transport nor waits.
func (c *Conn) Fail(cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	err := fmt.Errorf("%w: %w", ErrClosed, cause)
	c.err = err
	threads := c.threads
	c.threads = nil // a nil map reads as empty; nothing is added after the end
	c.mu.Unlock()
	c.calls.fail(err)
	close(c.done)
	for _, t := range threads {
		t.queue.fail(err)
	}
}

// readLoop reads messages until the transport ends. It never waits for a consumer.
func (c *Conn) readLoop() {
	defer c.loops.Done()
	c.in.wakeList.transport, _ = c.transport.(readingAhead)
	for {
		line, err := c.transport.Read()
		switch {
		case err == nil:
			c.dispatch(line)
			c.in.wakeList.lineRead()
		case errors.Is(err, ErrMessageTooLarge):
			c.handleTooLarge(err)
		default:
			if errors.Is(err, io.EOF) {
				err = errors.New("the app-server closed its output")
			}
			c.Fail(err)
			return
		}
	}
}

func (c *Conn) dispatch(line []byte) {
	if e := &c.in.scratch; parseDelta(line, e) {
		if t := c.thread(e.threadID); t != nil {
			t.acceptDelta(e, line)
		}
		return
	}
	if c.isEcho(line) {
		return
	}
	m, err := parseMessage(line, &c.in.scratch)
	switch {
	case err != nil:
		c.opts.Logger().LogAttrs(context.Background(), slog.LevelDebug, "unreadable line from the codex app-server",
			slog.Int("bytes", len(line)))
	case m.method == "":
		c.handleAnswer(m, line)
	case m.id != "":
		c.handleRequest(m, line)
	default:
		c.handleNotification(m, line)
	}
}

// handleNotification passes an event to its thread, if that is open, and any other notification to
// opts.Notified. Notifications about limits, the login and the configuration also update c.server.
func (c *Conn) handleNotification(m message, line []byte) {
	if c.opts.Notified != nil && kinds[m.method] == "" {
		c.opts.Notified(strings.Clone(m.method), json.RawMessage(m.params))
	}
	switch m.method {
	case methodRateLimitsUpdated:
		c.server.limitChanges.Add(1)
		return
	case methodAccountUpdated:
		c.server.loginChanges.Add(1)
		return
	case methodConfigWarning:
		c.storeConfigWarning(m.params)
		return
	case methodLoginCompleted:
		c.storeSignInResult(m.params)
		return
	}
	e := &c.in.scratch // parseMessage has read the notification into it
	if e.Kind == "" {  // the notification is no event, or an event that is not used
		if kinds[m.method] == "" {
			c.logUnused("notification", m.method)
		}
		return
	}
	t := c.thread(e.threadID)
	if t == nil {
		return
	}
	t.tapLine(line)
	if e.Kind == EventItemStarted && e.ItemType == itemUserMessage {
		t.notifyInputRead()
	}
	t.accept(e)
}

// logUnused logs a message that this client does not know. kind says what it is.
func (c *Conn) logUnused(kind, method string) {
	if logger := c.opts.Logger(); logger.Enabled(context.Background(), slog.LevelDebug) {
		logger.Debug("unknown message from the codex app-server", "kind", kind, "method", strings.Clone(method))
	}
}

func (c *Conn) thread(id string) *Thread {
	c.mu.Lock()
	t := c.threads[id]
	c.mu.Unlock()
	return t
}

// decliningAnswers are the answers to requests that ask a person for a decision. Since there is no
// person, the answers grant nothing. Without an answer, the turn would wait for ever.
var decliningAnswers = map[string]any{
	"applyPatchApproval":                    map[string]any{"decision": "abort"},
	"execCommandApproval":                   map[string]any{"decision": "abort"},
	"item/commandExecution/requestApproval": map[string]any{"decision": "decline"},
	"item/fileChange/requestApproval":       map[string]any{"decision": "decline"},
	"item/permissions/requestApproval":      map[string]any{"permissions": map[string]any{}, "scope": "turn"},
	"item/tool/requestUserInput":            map[string]any{"answers": map[string]any{}},
	"mcpServer/elicitation/request":         map[string]any{"action": "decline", "content": nil, "_meta": nil},
}

// toolCallFailed is the answer to a tool call that gets no result during this turn. The result may
// come with the next request of the client, which starts another turn.
var toolCallFailed = map[string]any{"contentItems": []any{}, "success": false}

const methodToolCall = "item/tool/call"

// handleRequest answers a request from the app-server; it never blocks. A tool call that an open thread
// accepts is answered when the client has sent the result.
func (c *Conn) handleRequest(m message, line []byte) {
	id := json.RawMessage(m.id)
	if m.method == methodToolCall {
		t := c.thread(textAt(m.params, "threadId"))
		t.tapLine(line)
		if t == nil || !t.park(textAt(m.params, "callId"), id) {
			c.answer(outgoing{ID: id, Result: toolCallFailed})
		}
		return
	}
	var result any
	if m.method == "currentTime/read" {
		result = map[string]any{"currentTimeAt": time.Now().Unix()}
	} else if c.opts.Answer != nil {
		result = c.opts.Answer(strings.Clone(m.method), json.RawMessage(m.params))
	}
	if result == nil {
		result = decliningAnswers[m.method]
	}
	if result == nil {
		c.logUnused("request", m.method)
		c.answer(outgoing{ID: id, Error: &outgoingError{codeMethodNotFound, "this client does not handle this method"}})
		return
	}
	c.answer(outgoing{ID: id, Result: result})
}
