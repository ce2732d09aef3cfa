package responsestore

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// Entry is one response that is kept. It must not be changed once it is stored,
// nor may one that was read.
type Entry struct {
	// User is who made it; empty if nobody was authenticated.
	User string `json:"user"`
	// Previous is the id of the response that it follows; empty: none.
	Previous string `json:"previous,omitempty"`
	// Response is the Response object, as its client got it.
	Response json.RawMessage `json:"response"`
	// Input are the items of its own input, each with an id.
	Input []json.RawMessage `json:"input"`
	// Output are its items as the next response needs them.
	Output []responses.Item `json:"output"`

	release func() // nil: there is nothing to release
}

// Release ends the use of an entry that a store has returned. Until then, the
// memory that it takes counts. What was taken from it may be kept.
func (e *Entry) Release() {
	if e.release != nil {
		e.release()
	}
}

// Items are the items of the entry as the next response needs them: the input,
// and then the output.
func (e *Entry) Items() iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		for _, item := range e.Input {
			if !yield(item) {
				return
			}
		}
		for _, o := range e.Output {
			if !yield(e.output(o)) {
				return
			}
		}
	}
}

func (e *Entry) output(o responses.Item) json.RawMessage {
	if o.Own != nil {
		return o.Own
	}
	return e.Response[o.From:o.To:o.To]
}

// readEntry reads an entry as it is stored; nil: it is none. It may have 64 MiB,
// for which encoding/json takes seconds that nothing could end.
func readEntry(data []byte) *Entry {
	if !gjson.ValidBytes(data) {
		return nil
	}
	e, known := new(Entry), true
	text := func(v gjson.Result) string {
		known = known && v.Type == gjson.String
		return strings.Clone(v.Str) // else it would keep all of the entry
	}
	gjson.ParseBytes(data).ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "user":
			e.User = text(v)
		case "previous":
			e.Previous = text(v)
		case "response":
			e.Response = json.RawMessage(v.Raw)
		case "input":
			for _, item := range v.Array() { // null, too, is none
				e.Input = append(e.Input, json.RawMessage(item.Raw))
			}
		case "output":
			for _, item := range v.Array() {
				e.Output = append(e.Output, readOutput(item))
			}
		}
		return known
	})
	if !known || !e.sound() {
		return nil
	}
	return e
}

func readOutput(v gjson.Result) (o responses.Item) {
	v.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "from":
			o.From = int(v.Int())
		case "to":
			o.To = int(v.Int())
		case "own":
			o.Own = json.RawMessage(v.Raw)
		}
		return true
	})
	return o
}

// sound reports whether the places of the output are items. What has been in a
// storage may have been touched there.
func (e *Entry) sound() bool {
	for _, o := range e.Output {
		if o.From < 0 || o.From > o.To || o.To > len(e.Response) || !gjson.ValidBytes(e.output(o)) {
			return false
		}
	}
	return len(e.Response) > 0
}

// What an entry and one of its items take besides their bytes: structs, slices,
// and an entry's place in the map and the list of a [Memory].
const (
	entryOverhead = 512
	itemOverhead  = 64
)

// size is what an entry takes in memory, in bytes: all that is allocated, also
// what the slices do not use.
func (e *Entry) size() int64 {
	size := entryOverhead + len(e.User) + len(e.Previous) + cap(e.Response)
	for _, item := range e.Input {
		size += itemOverhead + cap(item)
	}
	for _, o := range e.Output {
		size += itemOverhead + cap(o.Own)
	}
	return int64(size)
}
