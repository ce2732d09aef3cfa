package recorder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Timeline is what a person wants to know of a recording: how the request ended, where its time went, and what
// happened.
type Timeline struct {
	Head     Head    `json:"head"`
	Duration Millis  `json:"duration"`
	Code     string  `json:"code,omitempty"` // of the error; empty: the request has not failed
	Cause    string  `json:"cause"`          // how the request ended, and what to do
	Phases   []Phase `json:"phases"`         // in order; each begins where the one before it ends
	Rows     []Row   `json:"rows"`           // in order
}

// Phase is a part of the time of a request. Its Name is
//   - client: the client sends its request, or lets a write wait
//   - prepare: this server checks and prepares the request
//   - queue: the request waits for its turns
//   - codex: Codex starts a thread or a turn, perhaps again
//   - model: the provider was asked, or the model writes
//   - finish: this server ends the answer
type Phase struct {
	Name  string `json:"name"`
	Begin Millis `json:"begin"`
	End   Millis `json:"end"`
}

// Row is an entry of a recording, or a run of equal entries. Entries of other runs may come between these.
type Row struct {
	At     Millis `json:"at"`
	Until  Millis `json:"until"` // when the last entry of the run came
	Kind   Dir    `json:"kind"`
	Choice int    `json:"choice,omitempty"`
	Text   string `json:"text"` // may have any characters, since clients, the model and Codex wrote it

	count, bytes int    // of the entries
	pause, took  Millis // the longest time between two entries; how long the client let the writes wait
}

// endings explain codes of docs/errors.md.
var endings = map[string]string{
	"":                      "The client got the whole answer.",
	"client_closed_request": "The client left before the answer was complete.",
	"client_gone":           "The client left, or did not read, before the answer was complete.",
	"codex_exited":          "Codex, or the connection to it, ended. Try again; Caddy's log has what Codex wrote last.",
	"codex_idle_timeout":    "The model was silent for idle_timeout. Try again; for a model that thinks for long, raise idle_timeout.",
	"codex_not_ready":       "No app-server was ready; caddy codex status says why.",
	"codex_queue_full":      "Too many requests ran or waited. Try again later, or raise max_concurrent or max_queue.",
	"codex_queue_timeout":   "No turn became free in time. Raise max_concurrent, or let requests wait longer with max_queue.",
	"codex_too_slow":        "The client did not read the answer fast enough.",
	"codex_unauthorized":    "Codex has no login, or the provider refuses it. Run caddy codex login as Caddy's user.",
	"codex_unresponsive":    "Codex hung, and is replaced. Try again.",
	"incomplete":            "The recording has no end.",
	"insufficient_quota":    "The plan is spent until the time that caddy codex status shows. Wait, or add another login.",
	"server_overloaded":     "The model's provider is overloaded. Try again later.",
	"server_shutting_down":  "Caddy was exiting.",
	"upstream_disconnected": "The provider broke off its answer. Try again; a proxy or a firewall may cut long answers.",
}

// line is what a timeline needs of a Message.
type line struct {
	ID     json.RawMessage
	Method string
	Error  json.RawMessage
	Status int
	Params struct {
		Delta string
		Error json.RawMessage
		Item  struct{ Type, Tool string }
		Turn  struct{ Status string }
	}
}

func (l *line) isDelta() bool { return strings.HasSuffix(strings.ToLower(l.Method), "delta") }

type timelineBuilder struct {
	Timeline
	phase   string            // the phase now
	begun   Millis            // when it began
	next    string            // what the phase is when the client has taken what is written
	written Millis            // when that was
	runs    map[string]int    // the rows that can go on, by choice, kind and text
	calls   map[string]string // the methods of calls, by choice and id
}

// NewTimeline makes the timeline of a recording.
func NewTimeline(entries []Entry) Timeline {
	b := timelineBuilder{phase: "client", next: "client", runs: make(map[string]int), calls: make(map[string]string)}
	b.Code = "incomplete"
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.At, b.At) }) // a write has the time when it began
	for i := range entries {
		e, l := &entries[i], new(line)
		_ = json.Unmarshal(e.Message, l) // members of other types stay zero
		b.Duration = max(b.Duration, e.At+e.Took)
		b.follow(e, l)
		b.add(e, l)
	}
	b.enter(b.next, min(max(b.written, b.begun), b.Duration))
	b.enter("", b.Duration)
	for i := range b.Rows {
		b.Rows[i].complete()
	}
	b.Cause = cmp.Or(endings[b.Code], "See docs/errors.md for the code of the error.")
	if b.Head.Cut {
		b.Cause += " The recording is not complete, since it was too large."
	}
	return b.Timeline
}

// follow enters the phase that an entry begins. If the request has several choices, the latest entry counts.
func (b *timelineBuilder) follow(e *Entry, l *line) {
	if b.phase == "client" && b.written <= e.At {
		b.enter(b.next, b.written)
	}
	item, isThread := l.Params.Item.Type, strings.HasPrefix(l.Method, "thread/") && l.Method != "thread/unsubscribe"
	switch {
	case e.Dir == FromClient && len(b.Rows) > 0, e.Note == "starting":
		b.next = "prepare"
	case e.Note == "waiting":
		b.next = "queue"
	case e.Dir == ToServer && (isThread || l.Method == "turn/start"):
		b.next = "codex"
	case e.Dir == ToServer && l.Method == "", // the result of a call
		e.Dir == FromServer && (l.isDelta() || item != "" && (item != "userMessage" || l.Method == "item/completed")):
		b.next = "model" // Codex reports the user's message just before it asks the model
	case e.Dir == Read && e.Note != "", l.Method == "turn/completed":
		b.next = "finish"
	}
	if time.Duration(e.Took) >= MinWait {
		b.enter("client", e.At)
		b.written = max(b.written, e.At+e.Took)
	} else if b.written <= e.At {
		b.enter(b.next, e.At)
	}
}

// enter begins a phase, unless it is the one that has begun.
func (b *timelineBuilder) enter(phase string, at Millis) {
	if b.phase == "finish" && (phase == "codex" || phase == "model") {
		b.phase = phase // a turn is started again, or another choice goes on
	}
	if phase == b.phase {
		return
	}
	if last := len(b.Phases) - 1; last >= 0 && b.Phases[last].Name == b.phase {
		b.Phases[last].End = at
	} else if at > b.begun {
		b.Phases = append(b.Phases, Phase{b.phase, b.begun, at})
	}
	b.phase, b.begun = phase, at
}

// add adds an entry to the run of its choice, kind and text, or else a row.
func (b *timelineBuilder) add(e *Entry, l *line) {
	text, size, isRun := e.Note, 0, false
	switch e.Dir {
	case FromClient:
		if text, size = "body", len(e.Message)+len(e.Text); len(b.Rows) == 0 {
			_ = json.Unmarshal(e.Message, &b.Head)
			text, size = b.Head.Method+" "+b.Head.Path+" "+b.Head.Proto, 0
		}
	case ToServer:
		text, size = b.describe(e, l), len(e.Message)
	case FromServer:
		text, size, isRun = b.describe(e, l), len(l.Params.Delta), l.isDelta()
	case Read:
		if text == "" {
			return // only replays need it
		}
		text = "no more events: " + text
	case Parts:
		var parts []Part
		_ = json.Unmarshal(e.Message, &parts)
		for _, p := range parts {
			text, size, isRun = text+" "+p.Kind, size+p.Bytes, true
		}
		text = strings.TrimSpace(text)
	case ToClient:
		if text, size, isRun = "written", len(e.Text), true; e.Message != nil {
			text, isRun = fmt.Sprint("status ", l.Status), false
		}
	case Noted:
		text += details(e.Message)
	case End:
		b.Code, text = text, cmp.Or(text, "complete")
	}
	key := fmt.Sprint(e.Choice, e.Dir, text)
	i, goesOn := b.runs[key]
	if !isRun {
		clear(b.runs) // a run goes on only while all entries are of runs
	}
	if !isRun || !goesOn {
		i = len(b.Rows)
		b.Rows = append(b.Rows, Row{At: e.At, Until: e.At, Kind: e.Dir, Choice: e.Choice, Text: text})
	}
	if isRun {
		b.runs[key] = i
	}
	r := &b.Rows[i]
	r.pause = max(r.pause, e.At-r.Until)
	r.count, r.bytes, r.took, r.Until = r.count+1, r.bytes+size, r.took+e.Took, max(r.Until, e.At)
}

// describe returns a text for a line of the protocol.
func (b *timelineBuilder) describe(e *Entry, l *line) string {
	key, p := fmt.Sprint(e.Choice, string(l.ID)), &l.Params
	if l.Method == "" {
		return strings.TrimSpace(fmt.Sprintf("answer to %s %s", b.calls[key], l.Error))
	}
	b.calls[key] = l.Method
	return strings.Join(strings.Fields(fmt.Sprint(l.Method, " ", p.Item.Type, " ", p.Item.Tool, " ", p.Turn.Status, " ", string(p.Error))), " ")
}

// details returns the details of a note, without those that say nothing to a person.
func details(message json.RawMessage) (text string) {
	var members map[string]any
	_ = json.Unmarshal(message, &members)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if v := members[name]; v != false && v != "" && v != 0.0 && name != "used_before" && name != "request_id" {
			text += fmt.Sprintf(" %s=%v", name, v)
		}
	}
	return text
}

// complete adds to the text what is known of the whole run.
func (r *Row) complete() {
	if r.bytes > 0 {
		r.Text += fmt.Sprintf(", %d bytes", r.bytes)
	}
	if r.count > 1 {
		r.Text = fmt.Sprintf("%d × %s in %v, longest pause %v", r.count, r.Text, r.Until-r.At, r.pause)
	}
	if time.Duration(r.took) >= MinWait {
		r.Text += fmt.Sprintf(", the client let this wait %v", r.took)
	}
}

// String returns the time with its unit.
func (m Millis) String() string { return time.Duration(m).Round(100 * time.Microsecond).String() }
