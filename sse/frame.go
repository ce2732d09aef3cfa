package sse

import (
	"bytes"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// WriteData writes an event without a type: "data: …" for each line of data (ended by LF, CR or both,
// which the client gets as LF), and an empty line. It returns the error of an earlier write, or of the
// write of a full buffer. In a stream of JSON lines it writes the data and a line break.
func (w *Writer) WriteData(data []byte) error {
	if w.jsonLines {
		appendBytes(w, data)
		appendBytes(w, "\n")
		return w.err
	}
	return w.writeFrame("data: ", data)
}

// WriteEvent writes "event: TYPE", unless that is empty, and then the same as [Writer.WriteData].
func (w *Writer) WriteEvent(event string, data []byte) error {
	if strings.ContainsAny(event, "\r\n") {
		return ErrEventType
	}
	if event != "" {
		appendBytes(w, "event: ")
		appendBytes(w, event)
		appendBytes(w, "\n")
	}
	return w.WriteData(data)
}

// WriteComment writes ": TEXT" and an empty line, which clients ignore. Each line
// of text becomes a comment line. In a stream of JSON lines it writes nothing.
func (w *Writer) WriteComment(text string) error {
	if w.jsonLines {
		return w.err
	}
	return w.writeFrame(": ", wirejson.View(text))
}

func (w *Writer) writeFrame(prefix string, content []byte) error {
	for {
		end := lineBreak(content)
		if end < 0 {
			appendBytes(w, prefix)
			appendBytes(w, content)
			appendBytes(w, "\n\n")
			return w.err
		}
		appendBytes(w, prefix)
		appendBytes(w, content[:end])
		appendBytes(w, "\n")
		if bytes.HasPrefix(content[end:], []byte("\r\n")) {
			end++
		}
		content = content[end+1:]
	}
}

// lineBreak returns the index of the first LF or CR, or -1. Two calls of IndexByte
// are faster than bytes.IndexAny on long lines of JSON.
func lineBreak(data []byte) int {
	lf := bytes.IndexByte(data, '\n')
	if lf >= 0 {
		data = data[:lf]
	}
	if cr := bytes.IndexByte(data, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// appendBytes appends s to the buffer, and writes the buffer each time it is full.
func appendBytes[T string | []byte](w *Writer, s T) {
	for len(s) > 0 && w.makeRoom() {
		n := min(len(s), bufferSize-len(w.buf))
		w.buf = append(w.buf, s[:n]...)
		s = s[n:]
	}
}

// makeRoom makes room in the buffer for at least one byte. It reports false after an error.
func (w *Writer) makeRoom() bool {
	if w.buf == nil {
		w.buf = w.memory.Take()
	}
	if w.err == nil && len(w.buf) == bufferSize {
		w.beginWrite()
		w.writeBuffer()
		w.endWrite()
	}
	return w.err == nil
}
