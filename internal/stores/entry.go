package stores

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"math"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Entry is a stored response or conversation. It must not be changed after it was stored or read.
type Entry struct {
	User         string            `json:"user"`                   // who made the request; empty without authentication
	Previous     string            `json:"previous,omitempty"`     // the id of the response that it follows, if any
	Conversation string            `json:"conversation,omitempty"` // the id of the conversation that it belongs to, if any
	Running      bool              `json:"running,omitempty"`      // the response still runs, or its node has ended before the response did; in both cases there is no output
	Response     json.RawMessage   `json:"response"`               // the Response object that the client got
	Input        []json.RawMessage `json:"input"`                  // the items of the request's input, each with an id
	Output       []json.RawMessage `json:"output"`                 // the items of the output as the next request needs them

	release func() // may be nil
}

// OnRelease makes Release call a function, such as the one that [Reserve] returns.
func (e *Entry) OnRelease(release func()) { e.release = release }

// Release ends the use of an entry that a store has returned. Until Release is called, the memory
// of the entry counts as used. Items taken from the entry may be used after Release.
func (e *Entry) Release() {
	if e.release != nil {
		e.release()
	}
}

// Items returns the items of the entry as the next request needs them: the input and
// then the output.
func (e *Entry) Items() iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		for _, item := range e.Input {
			if !yield(item) {
				return
			}
		}
		for _, item := range e.Output {
			if !yield(item) {
				return
			}
		}
	}
}

// Encode returns an entry as JSON. [Decode] returns the parts of the entry unchanged.
func Encode(e *Entry) ([]byte, error) {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(e)
	return data.Bytes(), err
}

// maxDepth is how deep the arrays and objects of an entry may be nested. It is far more than a
// request may have.
const maxDepth = 1024

// Decode decodes a stored entry, or returns nil if it is invalid. The parts of the entry share the
// memory of data. Decode does not use encoding/json, which would take seconds for an entry of 64
// MiB.
func Decode(data []byte) *Entry {
	whole := wirejson.Value(bytes.TrimSpace(data))
	if !isValid(whole) || whole.Kind() != wirejson.KindObject {
		return nil
	}
	var user, previous, conversation, running, response, input, output wirejson.Value
	whole.Pick(wirejson.Into("user", &user), wirejson.Into("previous", &previous), wirejson.Into("conversation", &conversation),
		wirejson.Into("running", &running), wirejson.Into("response", &response), wirejson.Into("input", &input), wirejson.Into("output", &output))
	e := &Entry{Running: running.IsTrue(), Response: json.RawMessage(response)}
	into := func(items *[]json.RawMessage) func(int, wirejson.Value) *field.Error {
		return func(_ int, item wirejson.Value) *field.Error {
			*items = append(*items, json.RawMessage(item))
			return nil
		}
	}
	fieldErr := cmp.Or(field.Text(&e.User, user), field.Text(&e.Previous, previous), field.Text(&e.Conversation, conversation),
		field.Elements(input, math.MaxInt, "", into(&e.Input)), field.Elements(output, math.MaxInt, "", into(&e.Output)))
	if fieldErr != nil || len(e.Response) == 0 {
		return nil
	}
	return e
}

func isValid(part []byte) bool { return wirejson.ValidWithin(maxDepth, wirejson.Value(part)) }

// Sound reports whether an entry that was put together from stored parts can be used. The parts may
// have been modified in the store.
func (e *Entry) Sound() bool {
	for item := range e.Items() {
		if !isValid(item) {
			return false
		}
	}
	return isValid(e.Response)
}

// entryOverhead is the memory of an entry besides its contents, in bytes: structs, slices, and what
// a store keeps about the entry.
const entryOverhead = 512

// ItemOverhead is the memory of an item besides its JSON, in bytes.
const ItemOverhead = 64

// Size returns the allocated memory of an entry, in bytes, with the unused capacity of its slices.
func (e *Entry) Size() int64 {
	size := entryOverhead + len(e.User) + len(e.Previous) + len(e.Conversation) + cap(e.Response)
	for item := range e.Items() {
		size += ItemOverhead + cap(item)
	}
	return int64(size)
}
