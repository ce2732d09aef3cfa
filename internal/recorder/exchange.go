package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Exchange is a request that is being recorded. All methods may be called on a nil Exchange, which records
// nothing, and after [Exchange.End].
type Exchange struct {
	r     *Recorder
	head  Head
	rule  Rule
	began time.Time

	mu      sync.Mutex
	claim   *claims.Claim // of chunks, other bytes and entries
	size    int64         // what is used of claim
	chunks  []*[chunkSize]byte
	free    []byte  // the rest of the last chunk
	entries []Entry // not redacted; of each, Message has the bytes
	key     string
	cut     bool // something was left out
	full    bool // nothing but the end is added any more
	ended   bool
}

const (
	// maxExchange bounds the bytes of one exchange, and maxMessage those of one message: of a larger one, only the
	// size is recorded.
	maxExchange = maxBytes / 8
	maxMessage  = maxExchange / 2
	// entryOverhead is about the memory of an entry beside its bytes.
	entryOverhead = 128
	// maxNesting bounds the levels of nested JSON in a message.
	maxNesting = 1000
	// chunkSize is the size of the memory in which small messages are kept.
	chunkSize = 32 << 10
)

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// add adds an entry, with a copy of data, and reports whether it has done so.
func (e *Exchange) add(entry Entry, data []byte) bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now, isEnd := Millis(time.Since(e.began)), entry.Dir == End // the end always fits
	if e.ended || e.full && !isEnd {
		return false
	}
	if len(data) > maxMessage {
		data, e.cut = fmt.Appendf(nil, `{"cut":%d}`, len(data)), true
	}
	e.size += int64(len(data) + entryOverhead)
	if !isEnd && (e.size > maxExchange || e.size > e.claim.Size() && !e.claim.Grow(max(e.size-e.claim.Size(), chunkSize))) {
		e.cut, e.full = true, true
		return false
	}
	entry.At, entry.Message = max(0, now-entry.Took), e.keep(data)
	e.entries, e.ended = append(e.entries, entry), isEnd
	return true
}

// keep returns a copy of data.
func (e *Exchange) keep(data []byte) []byte {
	if len(data) > chunkSize/4 {
		return bytes.Clone(data)
	}
	if len(data) > len(e.free) {
		chunk := chunks.Get().(*[chunkSize]byte)
		e.chunks, e.free = append(e.chunks, chunk), chunk[:]
	}
	n := copy(e.free, data)
	kept := e.free[:n:n]
	e.free = e.free[n:]
	return kept
}

// drop gives the memory of the exchange back.
func (e *Exchange) drop() {
	for _, chunk := range e.chunks {
		chunks.Put(chunk)
	}
	e.chunks, e.free, e.entries = nil, nil, nil
	e.claim.Release()
}

// Body records the body of the request.
func (e *Exchange) Body(body []byte) { e.add(Entry{Dir: FromClient}, body) }

// Note records a decision, with its details as JSON, or nil.
func (e *Exchange) Note(choice int, note string, details any) {
	e.addJSON(Entry{Dir: Noted, Choice: choice, Note: note}, details)
}

func (e *Exchange) addJSON(entry Entry, details any) bool {
	var data []byte
	if e != nil && details != nil {
		data, _ = json.Marshal(details)
	}
	return e.add(entry, data)
}

// Parts records outputs of the turn of a choice, if there are any.
func (e *Exchange) Parts(choice int, outputs []Part) {
	if len(outputs) > 0 {
		e.addJSON(Entry{Dir: Parts, Choice: choice}, outputs)
	}
}

// Began records the status of the answer.
func (e *Exchange) Began(s Status) { e.addJSON(Entry{Dir: ToClient}, s) }

// MinWait is the time from which a write counts as one that waited for the client.
const MinWait = time.Millisecond

// written is the Dir of bytes that went to the client, until the end: their Message may be no JSON.
const written Dir = "written"

// Wrote records bytes that were written to the client since began.
func (e *Exchange) Wrote(data []byte, began time.Time) {
	e.add(Entry{Dir: written, Took: Millis(time.Since(began))}, data)
}

// Key sets the id of the key with which the request came.
func (e *Exchange) Key(id string) {
	if e != nil {
		e.mu.Lock()
		e.key = id
		e.mu.Unlock()
		e.Note(0, "key", map[string]string{"key": id})
	}
}

// End ends the exchange: it is kept if its rule, or a switch, wants it. code is that of the error; empty:
// the request has not failed. details are those of its turn, or nil.
func (e *Exchange) End(code string, details any) {
	if e.addJSON(Entry{Dir: End, Note: code}, details) {
		e.r.finish(e, code != "")
	}
}

// complete returns all entries, not redacted, after the end.
func (e *Exchange) complete() []Entry {
	e.head.Version, e.head.Cut = Version, e.cut
	head, _ := json.Marshal(&e.head)
	all := append(make([]Entry, 0, len(e.entries)+1), Entry{Dir: FromClient, Message: head})
	for _, entry := range e.entries {
		data, last := entry.Message, &all[len(all)-1]
		switch {
		case entry.Dir == written && last.Dir == written && (time.Duration(last.Took) < MinWait || !utf8.Valid(last.Message)):
			last.Message = append(last.Message, data...) // so that no rune is cut; but what was written after a wait is apart
			last.Took += entry.Took
			continue
		case entry.Dir != written && !wirejson.ValidWithin(maxNesting, data):
			entry.Text, entry.Message = string(data), nil
		}
		all = append(all, entry)
	}
	for i := range all {
		if entry := &all[i]; entry.Dir == written {
			entry.Dir, entry.Text, entry.Message = ToClient, string(entry.Message), nil
		}
	}
	return all
}

type contextKey struct{}

// choiceOf is an exchange in a context, and the choice that the context is for. It is a [codexrpc.Tap].
type choiceOf struct {
	e      *Exchange
	choice int
}

// Context returns a context whose work is recorded as that of a choice; ctx itself if e is nil.
func (e *Exchange) Context(ctx context.Context, choice int) context.Context {
	if e == nil {
		return ctx
	}
	c := &choiceOf{e, choice}
	return codexrpc.WithTap(context.WithValue(ctx, contextKey{}, c), c)
}

func (c *choiceOf) Line(sent bool, line []byte) {
	dir := FromServer
	if sent {
		dir = ToServer
		if c.e.rule.Sent != nil {
			c.e.rule.Sent(c.choice, line)
		}
	}
	c.e.add(Entry{Dir: dir, Choice: c.choice}, line)
}

func (c *choiceOf) Read(lines int, err error) {
	entry := Entry{Dir: Read, Choice: c.choice, Lines: lines}
	if err != nil {
		entry.Note = causeOf(err)
	}
	c.e.add(entry, nil)
}

// handler is an [slog.Handler] that also records what is logged with the context of an exchange.
type handler struct{ slog.Handler }

// Logger returns a logger that logs like l, and records what is logged with the context of an exchange.
func Logger(l *slog.Logger) *slog.Logger { return slog.New(handler{l.Handler()}) }

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return ctx.Value(contextKey{}) != nil || h.Handler.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if c, ok := ctx.Value(contextKey{}).(*choiceOf); ok {
		details := make(map[string]any)
		r.Attrs(func(a slog.Attr) bool {
			details[a.Key] = a.Value.Any()
			if err, ok := details[a.Key].(error); ok {
				details[a.Key] = err.Error()
			}
			return true
		})
		c.e.Note(c.choice, r.Message, details)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
