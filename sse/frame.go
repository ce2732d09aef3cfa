package sse

import (
	"bytes"
	"strings"
)

// doneMark is the data of the last frame of a stream in the OpenAI API.
const doneMark = "[DONE]"

// WriteData writes an event without a type: "data: …" and an empty line. Each line
// of data (ended by LF, CR or both) becomes a data line, so the client gets every
// line break as LF. The error is that of an earlier write, or of one that was
// needed because the buffer was full.
func (w *Writer) WriteData(data []byte) error {
	w.dataLines(data)
	return w.endFrame()
}

// WriteEvent writes an event with a type: "event: TYPE" and then the same as
// [Writer.WriteData]. An empty type writes no event line.
func (w *Writer) WriteEvent(event string, data []byte) error {
	if strings.ContainsAny(event, "\r\n") {
		return ErrEventType
	}
	if event != "" {
		w.text("event: ")
		w.text(event)
		w.text("\n")
	}
	w.dataLines(data)
	return w.endFrame()
}

// WriteComment writes ": TEXT" and an empty line, which clients ignore. Each line
// of text becomes a comment line.
func (w *Writer) WriteComment(text string) error {
	for {
		end := strings.IndexAny(text, "\r\n")
		if end < 0 {
			break
		}
		w.commentLine(text[:end])
		text = strings.TrimPrefix(text[end:], "\r")
		text = strings.TrimPrefix(text, "\n")
	}
	w.commentLine(text)
	return w.endFrame()
}

// WriteDone writes "data: [DONE]".
func (w *Writer) WriteDone() error {
	w.text("data: " + doneMark + "\n")
	return w.endFrame()
}

func (w *Writer) commentLine(line string) {
	w.text(": ")
	w.text(line)
	w.text("\n")
}

// dataLines writes data as data lines, without the empty line at the end of the
// event.
func (w *Writer) dataLines(data []byte) {
	for {
		end := lineBreak(data)
		w.text("data: ")
		if end < 0 {
			w.bytes(data)
			w.text("\n")
			return
		}
		w.bytes(data[:end])
		w.text("\n")
		if data[end] == '\r' && end+1 < len(data) && data[end+1] == '\n' {
			end++
		}
		data = data[end+1:]
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

// endFrame writes the empty line after a frame.
func (w *Writer) endFrame() error {
	w.text("\n")
	return w.err
}

func (w *Writer) bytes(p []byte) {
	for len(p) > 0 && w.room() {
		n := min(len(p), bufferSize-len(w.buf))
		w.buf = append(w.buf, p[:n]...)
		p = p[n:]
	}
}

func (w *Writer) text(s string) {
	for len(s) > 0 && w.room() {
		n := min(len(s), bufferSize-len(w.buf))
		w.buf = append(w.buf, s[:n]...)
		s = s[n:]
	}
}

// room makes room for at least one byte. It reports whether there was no error.
func (w *Writer) room() bool {
	if w.buf == nil {
		w.buf = w.memory.Take()
	}
	if w.err == nil && len(w.buf) == bufferSize {
		w.begin()
		w.writeBuffer()
		w.end()
	}
	return w.err == nil
}
