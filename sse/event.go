package sse

import "time"

// Event is one server-sent event as a client sees it.
type Event struct {
	// Type is the event's type, "message" if the stream named none.
	Type string

	// Data is the text of the data lines, joined by LF. Bytes that are not
	// UTF-8 are passed on as they came.
	Data string

	// ID is the last event id that the stream has set, by this event or an
	// earlier one.
	ID string
}

// defaultType is the type of an event that names none.
const defaultType = "message"

// pending is the event whose lines are being read.
type pending struct {
	typ     string
	data    []byte // with a LF after each line
	lastID  string
	retry   time.Duration
	comment func(string)
}

// dispatch returns the event that an empty line ends, if there is one. An event
// without a data line is none.
func (p *pending) dispatch() (e Event, ok bool) {
	if len(p.data) > 0 {
		e = Event{Type: p.typ, Data: string(p.data[:len(p.data)-1]), ID: p.lastID}
		if e.Type == "" {
			e.Type = defaultType
		}
		ok = true
	}
	p.typ = ""
	p.data = p.data[:0]
	return e, ok
}
