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
	Output       []Item            `json:"output"`                 // the items of the output as the next request needs them

	release func() // may be nil
}

// Item is an item of a response as a later response needs it. It has the encrypted content of
// reasoning, even if the client did not ask for that.
type Item struct {
	// From and To are the offsets of the item in the Response, in bytes. The Response has nearly
	// all items in the form that is needed, so these items are not stored twice.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
	// Own is the item if the Response lacks the item or a part of it; else nil.
	Own json.RawMessage `json:"own,omitempty"`
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
		for _, o := range e.Output {
			if !yield(e.outputItem(o)) {
				return
			}
		}
	}
}

// outputItem returns the JSON of an item of the output.
func (e *Entry) outputItem(o Item) json.RawMessage {
	if o.Own != nil {
		return o.Own
	}
	return e.Response[o.From:o.To:o.To]
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
	fieldErr := cmp.Or(field.Text(&e.User, user), field.Text(&e.Previous, previous), field.Text(&e.Conversation, conversation),
		field.Elements(input, math.MaxInt, "", func(_ int, item wirejson.Value) *field.Error {
			e.Input = append(e.Input, json.RawMessage(item))
			return nil
		}))
	if fieldErr != nil || output.Given() && json.Unmarshal(output, &e.Output) != nil || !e.hasValidOutput() {
		return nil
	}
	return e
}

func isValid(part []byte) bool { return wirejson.ValidWithin(maxDepth, wirejson.Value(part)) }

// Sound reports whether an entry that was put together from stored parts can be used. The parts may
// have been modified in the store.
func (e *Entry) Sound() bool {
	for _, item := range e.Input {
		if !isValid(item) {
			return false
		}
	}
	return isValid(e.Response) && e.hasValidOutput()
}

// hasValidOutput reports whether the entry has a response and each item of the output is valid: it
// is JSON, and its offsets are within the response.
func (e *Entry) hasValidOutput() bool {
	for _, o := range e.Output {
		if o.From < 0 || o.From > o.To || o.To > len(e.Response) || !isValid(e.outputItem(o)) {
			return false
		}
	}
	return len(e.Response) > 0
}

// entryOverhead is the memory of an entry besides its contents, in bytes: structs, slices, and what
// a store keeps about the entry.
const entryOverhead = 512

// ItemOverhead is the memory of an item besides its JSON, in bytes.
const ItemOverhead = 64

// Size returns the allocated memory of an entry, in bytes, with the unused capacity of its slices.
func (e *Entry) Size() int64 {
	size := entryOverhead + len(e.User) + len(e.Previous) + len(e.Conversation) + cap(e.Response)
	for _, item := range e.Input {
		size += ItemOverhead + cap(item)
	}
	for _, o := range e.Output {
		size += ItemOverhead + cap(o.Own)
	}
	return int64(size)
}
