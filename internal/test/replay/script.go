package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// options are those in the head of a recording.
type options struct {
	Tools       turn.ToolOptions `json:"tools"`
	StopGrace   time.Duration    `json:"stop_grace"`
	IdleTimeout time.Duration    `json:"idle_timeout"`
	Keepalive   time.Duration    `json:"keepalive"`
	MaxBody     int64            `json:"max_body"`
	MaxChoices  int              `json:"max_choices"`
	WebSearch   bool             `json:"web_search"`
	NoReasoning bool             `json:"no_reasoning"`
	Shorten     bool             `json:"shorten"`
	Ollama      bool             `json:"ollama"`
}

// script is a recording as it is replayed.
type script struct {
	head     recorder.Head
	options  options
	body     []byte
	bodyAt   time.Duration
	actions  []action // of the app-server, in the order in which they are due
	windows  []appserver.Model
	failures map[string]string // by method: the error with which calls are refused; empty: they get no answer
	answer   *answer
	asked    bool   // the model was asked
	machine  bool   // Codex's message about a failure has machineParts
	guess    string // why a difference says nothing, as far as that is known before the replay; see doubt
	code     string // of the error; empty: the request has not failed
	end      time.Duration
}

// action is something that the app-server does in a turn.
type action struct {
	due    time.Duration // since the arrival of the request
	order  int           // of what is due at the same time; those of one order are done at once
	turn   *recordedTurn
	answer bool   // line is the answer to turn/start; empty: it is made
	line   string // empty: the connection is closed
	read   bool   // line has an event that was read at that time
	hung   bool   // it is closed since the app-server has not answered
}

// recordedTurn is the last start of a turn.
type recordedTurn struct {
	choice, index int // index is how many turns of the choice come before it
	thread, id    string
	ids           map[string]int // how many lines have an id, if the id is not known otherwise
	request       string         // the id of turn/start; empty: the turn waited for the results of calls
	answered      time.Duration  // when turn/start was answered
	isAnswered    bool
	used          codexrpc.Usage
	failed        bool
	unknown       string // the note of a read that does not say what has ended the turn; empty: none
	actions       []action
	unread        []int // indexes of the lines that were not read yet, and which line of the thread they are
	lines         int
	lastRead      int // the order of what was read last
}

// call is a call of the gateway.
type call struct {
	id, method string
	succeeded  bool
	failure    string // the error in its answer; empty: there is none
}

// reading reads a recording.
type reading struct {
	*script
	turns   map[int][]*recordedTurn // by choice
	calls   map[int]*call           // the last call of each choice
	wrote   time.Duration           // when the client got the first bytes
	order   int                     // of the entry
	summary bool                    // the model was asked for a summary
	kept    bool                    // the conversation has a kept thread
}

// read reads a recording. The error says why it cannot be replayed.
func read(entries []recorder.Entry) (*script, error) {
	r := &reading{script: &script{failures: make(map[string]string)}, turns: make(map[int][]*recordedTurn), calls: make(map[int]*call), wrote: -1}
	if err := json.Unmarshal(entries[0].Message, &r.head); err != nil {
		return nil, fmt.Errorf("reading the head: %w", err)
	}
	options, _ := json.Marshal(r.head.Options)
	if err := json.Unmarshal(options, &r.options); err != nil {
		return nil, fmt.Errorf("reading the options of the server: %w", err)
	}
	r.answer = answerIn(entries)
	for i := range entries[1:] {
		r.order = i
		r.entry(&entries[i+1])
	}
	for _, last := range r.calls {
		if !last.succeeded {
			r.failures[last.method] = last.failure
		}
	}
	r.asked = len(r.turns) > 0
	for _, turns := range r.turns {
		for i, t := range turns {
			if t.unknown != "" { // and the turn was not started again
				return nil, fmt.Errorf("it is not recorded what has ended the turn (%s)", t.unknown)
			}
			t.index = i
			r.actions = append(r.actions, t.actions...)
		}
	}
	slices.SortStableFunc(r.actions, func(a, b action) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.order, b.order)) })
	if strings.Contains(r.answer.status, `"status":499`) { // the client has seen nothing of the turns
		r.actions = slices.DeleteFunc(r.actions, func(a action) bool { return !a.answer })
	}
	if len(r.turns) > 1 && r.options.Keepalive < 2*time.Second {
		r.guess = "of several choices, the one that wrote first decides whether keepalives come within two seconds"
	}
	r.fitWindow(r.head.Texts)
	return r.script, nil
}

func (r *reading) entry(e *recorder.Entry) {
	at := time.Duration(e.At)
	m := gjson.ParseBytes(e.Message)
	switch e.Dir {
	case recorder.FromClient:
		r.body, r.bodyAt = []byte(cmp.Or(e.Text, string(e.Message))), at
	case recorder.ToServer:
		r.sent(e.Choice, at, m)
	case recorder.FromServer:
		r.got(e.Choice, at, m)
	case recorder.Read:
		r.read(e)
	case recorder.Parts:
		if t := r.current(e.Choice); t != nil {
			for i := range t.actions { // of several choices, another one may have written after these events were read
				if a := &t.actions[i]; len(r.turns) > 1 && a.read && a.order == t.lastRead {
					a.due, a.order = at, r.order
				}
			}
			r.summary = r.summary || strings.Contains(string(e.Message), `"`+turn.OutputSummary.String()+`"`)
			t.failed = m.Get("@reverse.0.kind").Str == turn.OutputFailure.String()
		}
	case recorder.ToClient:
		r.summary = r.summary || m.Get("header.X-Codex-Shortened").Exists()
		if r.wrote < 0 {
			r.wrote = at
		}
	case recorder.Noted:
		r.noted(e, m)
	case recorder.End:
		r.code, r.end = e.Note, at
	}
}

// current returns the turn of a choice that was started last, or nil.
func (r *reading) current(choice int) *recordedTurn {
	if all := r.turns[choice]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// start adds a turn, in place of one that was asked for in vain.
func (r *reading) start(choice int, t *recordedTurn) {
	t.choice = choice
	all := r.turns[choice]
	if last := r.current(choice); last != nil && !last.isAnswered {
		all = all[:len(all)-1]
	}
	r.turns[choice] = append(all, t)
}

// sent reads a line to the app-server.
func (r *reading) sent(choice int, at time.Duration, m gjson.Result) {
	switch method := m.Get("method").Str; {
	case method == "turn/start":
		r.start(choice, &recordedTurn{thread: m.Get("params.threadId").Str, request: m.Get("id").Raw})
		fallthrough
	case method != "" && method != "turn/interrupt" && method != "thread/unsubscribe":
		r.calls[choice] = &call{id: m.Get("id").Raw, method: method}
	case method == "" && r.current(choice) == nil: // the result of a call for which a kept turn waited
		t := &recordedTurn{ids: make(map[string]int), answered: at, isAnswered: true}
		r.start(choice, t)
		t.actions = []action{{due: at, order: r.order, turn: t, answer: true}}
	}
}

// got reads a line from the app-server.
func (r *reading) got(choice int, at time.Duration, m gjson.Result) {
	t := r.current(choice)
	method := m.Get("method").Str
	if method == "" {
		if last := r.calls[choice]; last != nil && last.id == m.Get("id").Raw {
			last.failure = m.Get("error").Raw
			if last.succeeded = last.failure == ""; last.succeeded && last.method == "turn/start" {
				t.answered, t.isAnswered, t.id = at, true, m.Get("result.turn.id").Str
				t.actions = append(t.actions, action{due: at, order: r.order, turn: t, answer: true, line: m.Raw})
			}
		}
		return
	}
	thread := m.Get("params.threadId").Str
	if t == nil || t.thread != "" && thread != "" && thread != t.thread {
		return
	}
	r.machine = r.machine || machineParts.MatchString(m.Get("params.error.message").Str+" "+m.Get("params.turn.error.message").Str)
	t.thread = cmp.Or(t.thread, thread)
	if id := cmp.Or(m.Get("params.turnId").Str, m.Get("params.turn.id").Str); t.request == "" {
		if t.ids[id]++; t.ids[id] > t.ids[t.id] { // lines of other turns may be among them
			t.id = id
		}
	}
	t.lines++
	t.actions = append(t.actions, action{due: at, order: r.order, turn: t, line: m.Raw})
	if method != "turn/started" && method != "item/tool/call" { // those are no events, which are read
		t.actions[len(t.actions)-1].due = never
		t.unread = append(t.unread, len(t.actions)-1, t.lines)
	}
}

// never is when lines are due that the turn has not read.
const never = time.Duration(1<<63 - 1)

// read makes the lines that the turn has read due at that time.
func (r *reading) read(e *recorder.Entry) {
	t := r.current(e.Choice)
	if t == nil {
		return
	}
	for len(t.unread) > 0 && t.unread[1] <= e.Lines {
		a := &t.actions[t.unread[0]]
		a.due, a.order, a.read = time.Duration(e.At), r.order, true
		t.lastRead = r.order
		t.unread = t.unread[2:]
	}
	switch e.Note {
	case "":
	case "closed", "unresponsive":
		t.actions = append(t.actions, action{due: time.Duration(e.At), order: r.order, turn: t, hung: e.Note == "unresponsive"})
	default:
		t.failed, t.unknown = true, e.Note
	}
}

func (r *reading) noted(e *recorder.Entry, m gjson.Result) {
	t := r.current(e.Choice)
	switch note := e.Note; {
	case note == "the model's window":
		r.windows = append(r.windows, appserver.Model{Slug: m.Get("model").Str, Window: int(m.Get("tokens").Int())})
	case note == "the conversation has a kept thread":
		r.kept = true
	case t == nil: // the lines of the turn are missing
	case note == "a turn was started":
		_ = json.Unmarshal([]byte(m.Get("used_before").Raw), &t.used) // zero if it is missing
	case note == "a turn was started again":
		all := r.turns[e.Choice]
		if last := len(all) - 2; last >= 0 && all[last].failed {
			if before := all[last]; r.wrote >= 0 && r.wrote < t.answered { // the header was due after the first start
				for i := range t.actions {
					if t.actions[i].answer {
						t.actions[i].due = before.answered
					}
				}
			}
			r.turns[e.Choice] = slices.Delete(all, last, last+1)
		}
	}
}

// fitWindow makes the window so that the conversation is shortened as it was, which depends on its tokens. It sets guess
// if that cannot be known.
func (r *reading) fitWindow(texts bool) {
	if len(r.turns[0]) < 2 && !r.summary {
		r.windows = nil // it was not
		if !bytes.Contains(r.body, []byte(`"context_management"`)) {
			return
		}
	}
	switch {
	case r.kept:
		r.guess = "the conversation has a kept thread, and how it is shortened depends on that"
	case !texts, sealed.Match(r.body), bytes.Contains(r.body, []byte(`"previous_response_id":"`)), bytes.Contains(r.body, []byte(`"conversation":`)):
		r.guess = "how the conversation is shortened depends on texts that the recording does not have"
	}
}

// live returns a line for the thread of the replay, and for the call of turn/start with this id.
func (a *action) live(thread, request string) string {
	t := a.turn
	switch {
	case a.answer && a.line == "":
		return `{"id":` + request + `,"result":{"turn":{"id":` + wirejson.Quote(cmp.Or(t.id, "replayed")) + `,"items":[],"status":"inProgress","error":null}}}`
	case a.answer:
		return strings.Replace(a.line, `"id":`+t.request, `"id":`+request, 1)
	}
	line := a.line
	if total := gjson.Get(line, "params.tokenUsage.total"); total.Exists() && t.used != (codexrpc.Usage{}) {
		var sum codexrpc.Usage
		_ = json.Unmarshal([]byte(total.Raw), &sum) // it was read by the gateway, too
		rest, _ := json.Marshal(sum.Sub(t.used))
		line = line[:total.Index] + string(rest) + line[total.Index+len(total.Raw):]
	}
	return strings.ReplaceAll(line, wirejson.Quote(t.thread), wirejson.Quote(thread))
}
