package objects

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Entry is a stored response or conversation. It must not be changed after it was stored or read.
type Entry struct {
	User         string            // who made the request; empty without authentication
	Previous     string            // the id of the response that this response follows; empty: none
	Conversation string            // the id of the conversation of a response; empty: none
	Running      bool              // the response still runs, so there is no output
	Response     json.RawMessage   // the Response object that the client got
	Input        []json.RawMessage // the items of the request's input, each with an id; for a conversation, all items
	Output       []json.RawMessage // the items of the output as the next request needs them

	release func() // may be nil
}

// Release ends the use of an entry that a store has returned. Until Release is called, the memory
// of the entry counts as used. Items taken from the entry may be used after Release.
func (e *Entry) Release() {
	if e.release != nil {
		e.release()
	}
}

// Items returns the items of the entry as the next request needs them: the input and then the output.
func (e *Entry) Items() [][]byte {
	items := make([][]byte, 0, len(e.Input)+len(e.Output))
	for _, part := range [][]json.RawMessage{e.Input, e.Output} {
		for _, item := range part {
			items = append(items, item)
		}
	}
	return items
}

// entryOverhead is the memory of an entry besides its contents, in bytes.
const entryOverhead = 512

// Size returns the allocated memory of an entry, in bytes, with the unused capacity of its slices.
func (e *Entry) Size() int64 {
	size := entryOverhead + len(e.User) + len(e.Previous) + len(e.Conversation) + cap(e.Response)
	for _, item := range e.Items() {
		size += store.RecordOverhead + cap(item)
	}
	return int64(size)
}

// about has the facts about an entry that are read with each page of the entry.
type about struct {
	Conversation string `json:"conversation,omitempty"`
	Running      bool   `json:"running,omitempty"`
	Input        int    `json:"input,omitempty"` // how many of the items are the input
}

func (a about) encode() string { return string(wirejson.Append(nil, a)) }

// maxDepth is how deep the arrays and objects of a stored record may be nested. It is far more than
// a request may have.
const maxDepth = 1024

// pieceSize bounds the bytes of the items in a record that has several items.
const pieceSize = 64 << 10

// pack puts successive small items into one record, a JSON array: engines need time for each record.
func pack(items [][]byte) (records [][]byte) {
	for len(items) > 0 {
		n, size := 1, len(items[0])
		for n < len(items) && size+len(items[n]) < pieceSize {
			size, n = size+len(items[n]), n+1
		}
		record := items[0]
		if n > 1 || bytes.HasPrefix(record, []byte("[")) { // itemsOf would read an item [...] as several
			record = slices.Concat([]byte("["), bytes.Join(items[:n], []byte(",")), []byte("]"))
		}
		records, items = append(records, record), items[n:]
	}
	return records
}

// itemsOf returns the items in a stored record: no item if it was deleted, one item, or the items of an
// array. It reports false if the record is invalid, since somebody has modified it in the store.
func (s *Store) itemsOf(record []byte) (items []json.RawMessage, ok bool) {
	switch {
	case len(record) == 0:
		return nil, true
	case s.engine.Lasts() && !wirejson.ValidWithin(maxDepth, wirejson.Value(record)):
		return nil, false
	case record[0] != '[':
		return []json.RawMessage{record}, true
	}
	_ = field.Elements(wirejson.Value(record), math.MaxInt, "", func(_ int, item wirejson.Value) *field.Error {
		items = append(items, json.RawMessage(item))
		return nil
	})
	return items, true
}
