package apiclient

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestNext checks what is read from a stream and how it ends. An end of nil
// stands for an error of the reader's own.
func TestNext(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for stream, want := range map[string]struct {
		events []Event
		end    error
	}{
		"":               {nil, io.EOF},
		"data: a\n\n":    {[]Event{{"", "a"}}, io.EOF},
		": k\n\n: l\n\n": {nil, io.EOF},
		": c\nevent: t\ndata: a: b\n\n" + "data: " + long + "\n\n": {[]Event{{"t", "a: b"}, {"", long}}, io.EOF},
		"data: a\n\nevent: t\n":           {[]Event{{"", "a"}}, io.ErrUnexpectedEOF},
		"data: a\n\ndata: b":              {[]Event{{"", "a"}}, io.ErrUnexpectedEOF},
		"data: a\n":                       {nil, io.ErrUnexpectedEOF},
		"\n":                              {nil, nil},
		"event: t\n\n":                    {nil, nil},
		"data: a\ndata: b\n\n":            {nil, nil},
		"event: t\nevent: u\ndata: b\n\n": {nil, nil},
		"data: a\nevent: t\n\n":           {nil, nil},
		"data:a\n\n":                      {nil, nil},
		"id: 1\ndata: a\n\n":              {nil, nil},
		"data: a\n\r\n":                   {nil, nil},
	} {
		r := NewReader(iotest.OneByteReader(strings.NewReader(stream)))
		var events []Event
		e, err := r.Next()
		for ; err == nil; e, err = r.Next() {
			events = append(events, e)
		}
		own := !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
		if !slices.Equal(events, want.events) || (want.end == nil) != own || want.end != nil && err != want.end {
			t.Errorf("%.60q: %.100q, %v", stream, events, err)
		}
	}
}
