package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// double is a fast app-server that takes every call. Each turn sends the deltas of its prompt.
type double struct {
	writing sync.Mutex
	w       io.Writer
	ids     int // of the last thread; used by the reader alone

	mu    sync.Mutex
	turns map[string]chan struct{} // by the thread; closed by an interrupt
}

// runDouble plays the app-server on stdin and stdout until stdin ends.
func runDouble() error {
	d := &double{w: os.Stdout, turns: make(map[string]chan struct{})}
	r := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.dispatch(line); err != nil {
			return err
		}
	}
}

// readLine returns the next line, valid until the next call unless longer than the buffer.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		rest, err := r.ReadBytes('\n')
		return append(long, rest...), err
	}
	return line, err
}

var (
	methodMember = []byte(`"method":"`)
	threadMember = []byte(`"threadId":"`)
	idMember     = []byte(`"thread":{"id":"`)
)

// member returns the text between the quotes of the first member with a beginning. The lines of
// both sides have the members that are asked for before any text of a conversation.
func member(line, beginning []byte) []byte {
	_, rest, found := bytes.Cut(line, beginning)
	if !found {
		return nil
	}
	value, _, _ := bytes.Cut(rest, []byte{'"'})
	return value
}

// callID returns the id of a message that begins with it, as JSON, or nil.
func callID(line []byte) []byte {
	rest, found := bytes.CutPrefix(line, []byte(`{"id":`))
	if !found {
		return nil
	}
	return rest[:bytes.IndexAny(rest, ",}")]
}

func (d *double) dispatch(line []byte) error {
	id := string(callID(line))
	if id == "" {
		return nil
	}
	thread := string(member(line, threadMember))
	switch string(member(line, methodMember)) {
	case "initialize":
		return d.answer(id, `{"userAgent":"bench/0.171.0 (Linux)","codexHome":"/","platformFamily":"unix","platformOs":"linux"}`)
	case "getAuthStatus":
		return d.answer(id, `{"authMethod":null,"requiresOpenaiAuth":false}`)
	case "account/read":
		return d.answer(id, `{"account":null,"requiresOpenaiAuth":false}`)
	case "model/list":
		return d.answer(id, `{"data":[],"nextCursor":null}`)
	case "thread/start":
		d.ids++
		return d.answer(id, fmt.Sprintf(`{"thread":{"id":"0199c0de-0000-7000-8000-%012d"}}`, d.ids))
	case "turn/start":
		t := newTurn(d, thread, line)
		d.mu.Lock()
		d.turns[thread] = t.interrupted
		d.mu.Unlock()
		if err := d.answer(id, `{"turn":{"id":"`+t.id+`","items":[],"status":"inProgress","error":null}}`); err != nil {
			return err
		}
		go t.play()
		return nil
	case "turn/interrupt":
		d.mu.Lock()
		if interrupted := d.turns[thread]; interrupted != nil {
			close(interrupted)
			delete(d.turns, thread)
		}
		d.mu.Unlock()
	}
	return d.answer(id, `{}`)
}

func (d *double) answer(id, result string) error {
	return d.write([]byte(`{"id":` + id + `,"result":` + result + "}\n"))
}

func (d *double) write(lines []byte) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	_, err := d.w.Write(lines)
	return err
}

// order is what a prompt asks of the double.
type order struct {
	deltas int
	size   int           // bytes of a delta, at least minSize
	pace   time.Duration // between two deltas; 0: as fast as possible
	hold   bool          // the turn goes on, silently, until it is interrupted
}

// orderMark begins the part of a prompt that the double reads.
const orderMark = "bench-order "

// prompt returns the order as the end of a prompt.
func (o order) prompt() string {
	return fmt.Sprintf("%s%d %d %d %t .", orderMark, o.deltas, o.size, o.pace, o.hold)
}

func parseOrder(line []byte) (o order) {
	if at := bytes.LastIndex(line, []byte(orderMark)); at >= 0 {
		_, _ = fmt.Sscanf(string(line[at+len(orderMark):]), "%d %d %d %t", &o.deltas, &o.size, &o.pace, &o.hold)
	}
	return o
}

type fakeTurn struct {
	order
	double      *double
	thread, id  string
	interrupted chan struct{}
}

func newTurn(d *double, thread string, line []byte) *fakeTurn {
	return &fakeTurn{order: parseOrder(line), double: d, thread: thread, id: "turn-" + thread, interrupted: make(chan struct{})}
}

// blastBytes is how much of a blast is written at once: what a pipe holds.
const blastBytes = 64 << 10

// play sends the messages of the turn, in the form and order of codex 0.171.
func (t *fakeTurn) play() {
	ids := `"threadId":"` + t.thread + `","turnId":"` + t.id + `"`
	stamp := `,"emittedAtMs":` + strconv.FormatInt(time.Now().UnixMilli(), 10) + "}\n"
	item := `"item":{"type":"agentMessage","id":"msg-` + t.thread + `","text":"`
	lines := []byte(`{"method":"turn/started","params":{"threadId":"` + t.thread + `","turn":{"id":"` + t.id + `","items":[],"status":"inProgress","error":null}}` + stamp +
		`{"method":"item/started","params":{` + item + `","phase":null},` + ids + `}` + stamp)
	before, after := `{"method":"item/agentMessage/delta","params":{`+ids+`,"itemId":"msg-`+t.thread+`","delta":"`, `"}`+stamp
	var said strings.Builder // empty if the turn has no end
	next := time.Now()
	if t.pace > 0 {
		next = next.Add(rand.N(t.pace))
	}
	for i := range t.deltas {
		if t.pace > 0 && i > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(t.pace)
		}
		from := len(lines) + len(before)
		lines = appendRecord(append(lines, before...), i, t.size)
		if t.deltas < forever {
			said.Write(lines[from:])
		}
		lines = append(lines, after...)
		if t.pace > 0 || len(lines) > blastBytes {
			select {
			case <-t.interrupted:
				t.end(nil, ids, stamp, "interrupted", "")
				return
			default:
			}
			if t.double.write(lines) != nil {
				return
			}
			lines = lines[:0]
		}
	}
	if t.hold {
		if t.double.write(lines) != nil {
			return
		}
		<-t.interrupted
		t.end(nil, ids, stamp, "interrupted", "")
		return
	}
	t.end(lines, ids, stamp, "completed", item+said.String())
}

// end sends the rest of the turn after lines.
func (t *fakeTurn) end(lines []byte, ids, stamp, status, item string) {
	t.double.mu.Lock()
	delete(t.double.turns, t.thread)
	t.double.mu.Unlock()
	if item != "" {
		text := item[strings.LastIndexByte(item, '"')+1:]
		lines = append(lines, `{"method":"item/completed","params":{`+item+`","phase":null},`+ids+`}`+stamp...)
		lines = append(lines, `{"method":"rawResponseItem/completed","params":{`+ids+`,"item":{"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"`+text+`","annotations":[]}]}}`+stamp...)
		const usage = `{"totalTokens":20,"inputTokens":10,"cachedInputTokens":0,"outputTokens":10,"reasoningOutputTokens":0}`
		lines = append(lines, `{"method":"thread/tokenUsage/updated","params":{`+ids+`,"tokenUsage":{"total":`+usage+`,"last":`+usage+`}}`+stamp...)
		lines = append(lines, `{"method":"rawResponse/completed","params":{`+ids+`,"responseId":"resp-1","usage":`+usage+`}`+stamp...)
	}
	lines = append(lines, `{"method":"turn/completed","params":{"threadId":"`+t.thread+`","turn":{"id":"`+t.id+`","items":[],"status":"`+status+`","error":null}}`+stamp...)
	_ = t.double.write(lines) // if the client has gone, so has the reader
}
