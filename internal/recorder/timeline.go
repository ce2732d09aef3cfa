package recorder

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// endings has lines for codes of docs/errors.md: how the request ended, and what to do.
//
//go:embed endings.txt
var endings string

// Timeline is what a person wants to know of a recording.
type Timeline struct {
	Head     Head    `json:"head"`
	Duration Millis  `json:"duration"`
	Code     string  `json:"code,omitempty"` // of the error; empty: the request has not failed
	Cause    string  `json:"cause"`          // how the request ended, and what to do
	Phases   []Phase `json:"phases"`         // in order, without gaps
	Rows     []Row   `json:"rows"`           // in order
}

// Phase is a part of the time of a request. docs/recordings.md explains the names.
type Phase struct {
	Name  string `json:"name"` // client, prepare, queue, codex, model or finish
	Begin Millis `json:"begin"`
	End   Millis `json:"end"`
}

// Row is an entry of a recording, or a run of equal entries. Entries of other runs may come between these.
type Row struct {
	At     Millis `json:"at"` // of the first entry
	Kind   Dir    `json:"kind"`
	Choice int    `json:"choice,omitempty"`
	Text   string `json:"text"` // may have any characters, since clients, the model and Codex wrote it

	run          string // what the entries of the run are; empty: the row is no run
	count, bytes int
}

// line is what a timeline needs of a Message.
type line struct {
	Method string
	Error  json.RawMessage
	Status int
	Params struct {
		Delta string
		Error json.RawMessage
		Item  struct{ Type string }
		Turn  struct{ Status string }
	}
}

// NewTimeline makes the timeline of a recording, whose entries it sorts by time.
func NewTimeline(entries []Entry) Timeline {
	t, phase, written := Timeline{Code: "incomplete"}, "client", Millis(0)                  // until written, the client lets a write wait
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.At, b.At) }) // a write has the time when it began
	for i := range entries {
		e, l := &entries[i], new(line)
		_ = json.Unmarshal(e.Message, l) // members of other types stay zero
		t.span("client", min(written, e.At))
		t.span(phase, e.At)
		if phase = cmp.Or(phaseAfter(e, l, i), phase); time.Duration(e.Took) >= MinWait {
			written = max(written, e.At+e.Took)
		}
		t.Duration = max(t.Duration, e.At+e.Took)
		t.add(e, l)
	}
	t.span("client", written)
	t.span(phase, t.Duration)
	_, cause, _ := strings.Cut("\n"+endings, "\n"+cmp.Or(t.Code, "complete")+": ")
	cause, _, _ = strings.Cut(cause, "\n")
	if t.Cause = cmp.Or(cause, "See docs/errors.md for the code of the error."); t.Head.Cut {
		t.Cause += " The recording is not complete, since it was too large."
	}
	return t
}

// phases are begun by these notes and methods.
var phases = map[string]string{
	"waiting": "queue", "starting": "prepare", "thread/start": "codex", "thread/inject_items": "codex", "turn/start": "codex", "turn/completed": "finish",
}

// phaseAfter returns the phase that an entry begins, or "".
func phaseAfter(e *Entry, l *line, i int) string {
	switch item := l.Params.Item.Type; {
	case e.Dir == FromClient && i > 0:
		return "prepare"
	case e.Dir == ToServer && l.Method == "", // the result of a call
		e.Dir == FromServer && (l.Params.Delta != "" || item != "" && (item != "userMessage" || l.Method == "item/completed")):
		return "model" // Codex reports the user's message just before it asks the model
	case e.Dir == Read && e.Note != "":
		return "finish"
	}
	return phases[e.Note+l.Method]
}

// span adds the time since the last phase.
func (t *Timeline) span(name string, end Millis) {
	last := new(Phase)
	if n := len(t.Phases); n > 0 {
		last = &t.Phases[n-1]
	}
	switch {
	case end <= last.End:
	case last.Name == name:
		last.End = end
	default:
		if last.Name == "finish" && name != "client" {
			last.Name = "codex" // a turn is started again, or another choice goes on
		}
		t.Phases = append(t.Phases, Phase{name, last.End, end})
	}
}

// add adds an entry to a run, or as a row.
func (t *Timeline) add(e *Entry, l *line) {
	text, run, size := e.Note, "", len(e.Text)
	if e.Dir == Parts || e.Dir == Read && e.Note == "" {
		return // only replays need it
	}
	switch e.Dir {
	case Read:
		text = "no more events: " + text
	case FromClient:
		if text = fmt.Sprintf("body, %d bytes", len(e.Message)+len(e.Text)); len(t.Rows) == 0 {
			_ = json.Unmarshal(e.Message, &t.Head)
			text = t.Head.Method + " " + t.Head.Path + " " + t.Head.Proto
		}
	case ToServer, FromServer:
		p := &l.Params
		text = strings.TrimSpace(fmt.Sprintf("%s %s%s%s%s", cmp.Or(l.Method, "answer"), p.Item.Type, p.Turn.Status, p.Error, l.Error))
		if size = len(p.Delta); size > 0 {
			run = text
		}
	case ToClient:
		if run = "written"; e.Message != nil {
			text, run = fmt.Sprint("status ", l.Status), ""
		} else if time.Duration(e.Took) >= MinWait {
			text, run = fmt.Sprintf("written, %d bytes; the client let this wait %v", size, e.Took), ""
		}
	case Noted:
		details, _, _ := strings.Cut(string(e.Message), `,"used_before"`) // which is for replays
		text = strings.TrimSpace(text + " " + strings.ReplaceAll(strings.Trim(details, "{}"), `"`, ""))
	case End:
		t.Code, text = text, cmp.Or(text, "complete")
	}
	for i := len(t.Rows) - 1; i >= 0 && run != "" && t.Rows[i].run != ""; i-- { // a run goes on while there are only runs
		if r := &t.Rows[i]; r.run == run && r.Kind == e.Dir && r.Choice == e.Choice {
			r.count, r.bytes = r.count+1, r.bytes+size
			r.Text = fmt.Sprintf("%d × %s, %d bytes in %v", r.count, run, r.bytes, e.At-r.At)
			return
		}
	}
	t.Rows = append(t.Rows, Row{e.At, e.Dir, e.Choice, cmp.Or(run, text), run, 1, size})
}

// String returns the time with its unit.
func (m Millis) String() string { return time.Duration(m).Round(100 * time.Microsecond).String() }
