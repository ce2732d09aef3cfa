// Package recorder is the flight recorder: it records requests with all that belongs to them, from the bytes
// of the client to the lines of the app-server and back, on one clock.
//
// A recording is a text with one [Entry] as JSON on each line. The recordings of app-servers in
// testdata/transcripts are of the same form; their entries are only lines of the protocol, without times.
// What may be in a recording is in redact.go: nothing else gets into the memory of the [Recorder], into
// a file, or to anybody who asks.
package recorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Dir says what an entry is.
type Dir string

// The values of [Entry].Dir.
const (
	FromClient Dir = "from_client" // the first has a [Head] as its Message; the next has the body as its Message, or as its Text if it is no JSON
	ToServer   Dir = "to_server"   // Message is a line to the app-server
	FromServer Dir = "from_server" // Message is a line from the app-server
	Read       Dir = "read"        // the turn has read the events of the first Lines lines of its thread; Note says why no more will come
	Parts      Dir = "parts"       // Message is a list of [Part]: outputs of the turn
	ToClient   Dir = "to_client"   // Text has bytes that were written; or Message is a [Status], and no bytes
	Noted      Dir = "note"        // Note says what was decided, Message has the details
	End        Dir = "end"         // Note is "", or the code of the error; Message has the fields of the turn's log line
)

var dirs = [...]Dir{FromClient, ToServer, FromServer, Read, Parts, ToClient, Noted, End}

// Entry is one line of a recording.
type Entry struct {
	At      Millis          `json:"at"` // since the request arrived
	Dir     Dir             `json:"dir"`
	Choice  int             `json:"choice,omitempty"`
	Took    Millis          `json:"took,omitempty"` // how long the client let a write wait
	Lines   int             `json:"lines,omitempty"`
	Note    string          `json:"note,omitempty"`
	Message json.RawMessage `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"`
}

// Millis is a time in milliseconds, with microseconds after the point.
type Millis time.Duration

// MarshalJSON implements [json.Marshaler].
func (m Millis) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

func (m Millis) append(text []byte) []byte {
	return strconv.AppendFloat(text, float64(m)/float64(time.Millisecond), 'f', 3, 64)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Millis) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseFloat(string(text), 64)
	*m = Millis(min(max(ms, 0), 1e9) * float64(time.Millisecond)) // a file may have any number
	return err
}

// Version is that of the format.
const Version = 1

// Head is the Message of the first entry.
type Head struct {
	Version   int               `json:"version"`
	RequestID string            `json:"request_id"`
	Time      time.Time         `json:"time"`          // when the request arrived
	Texts     bool              `json:"texts"`         // the texts are as they were; otherwise they are replaced, see redact.go
	Cut       bool              `json:"cut,omitempty"` // the recording is not complete, since it was too large
	Method    string            `json:"method"`
	Path      string            `json:"path"`
	Proto     string            `json:"proto"`
	Header    map[string]string `json:"header,omitempty"`  // those that the APIs read
	Options   any               `json:"options,omitempty"` // of the server, as far as the answer depends on them

	User string `json:"-"` // whose request it is
}

// Status is the Message of an entry [ToClient].
type Status struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
}

// Part is an output of a turn.
type Part struct {
	Kind  string `json:"kind"`
	Call  int    `json:"call,omitempty"` // the index of the call
	Bytes int    `json:"bytes"`          // of its text or arguments
}

// Parse reads a recording.
func Parse(text []byte) (entries []Entry, err error) {
	for line := range bytes.Lines(text) {
		var e Entry
		err := json.Unmarshal(line, &e)
		if err == nil && !slices.Contains(dirs[:], e.Dir) {
			err = fmt.Errorf("unknown dir %q", e.Dir)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the recording: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// format returns the text of a recording. It makes the JSON itself: encoding/json would cost as much as all the
// rest of recording a delta.
func format(entries []Entry) []byte {
	size := 0
	for i := range entries {
		size += 96 + len(entries[i].Message) + len(entries[i].Text)*5/4 // with room for escapes
	}
	text := make([]byte, 0, size)
	for i := range entries {
		e := &entries[i]
		text = e.At.append(append(text, `{"at":`...))
		text = wirejson.AppendString(append(text, `,"dir":`...), string(e.Dir))
		if e.Choice != 0 {
			text = strconv.AppendInt(append(text, `,"choice":`...), int64(e.Choice), 10)
		}
		if e.Took != 0 {
			text = e.Took.append(append(text, `,"took":`...))
		}
		if e.Lines != 0 {
			text = strconv.AppendInt(append(text, `,"lines":`...), int64(e.Lines), 10)
		}
		if e.Note != "" {
			text = wirejson.AppendString(append(text, `,"note":`...), e.Note)
		}
		if len(e.Message) > 0 {
			message := e.Message
			if bytes.IndexByte(message, '\n') >= 0 {
				message = bytes.ReplaceAll(message, []byte{'\n'}, []byte{' '}) // no string of JSON has a line end
			}
			text = append(append(text, `,"message":`...), message...)
		}
		if e.Text != "" {
			text = wirejson.AppendString(append(text, `,"text":`...), e.Text)
		}
		text = append(text, "}\n"...)
	}
	return text
}
