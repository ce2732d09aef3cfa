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
)

// Exchange is a request that is being recorded. All methods may be called on a nil Exchange, which records
// nothing, and after [Exchange.End].
type Exchange struct {
	r     *Recorder
	head  Head
	rule  Rule
	began time.Time

	mu     sync.Mutex
	claim  *claims.Claim // of chunks, other bytes and pieces
	size   int64         // what is used of claim
	chunks []*[chunkSize]byte
	free   []byte // the rest of the last chunk
	pieces []piece
	key    string
	cut    bool
	ended  bool
}

// piece is an entry that is not redacted yet.
type piece struct {
	at, took time.Duration
	dir      uint8 // index of dirs
	raw      bool  // the bytes are a Message; otherwise, they are a Text or a Note
	choice   int32
	lines    int32
	note     string
	data     []byte
}

// maxExchange bounds the bytes of one exchange. What does not fit is left out.
const maxExchange = maxBytes / 8

const (
	// pieceOverhead is about the memory of a piece beside its bytes.
	pieceOverhead = 64
	// chunkSize is the size of the memory in which small pieces are kept.
	chunkSize = 32 << 10
)

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// add adds an entry. data is copied.
func (e *Exchange) add(p piece, data []byte) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Since(e.began)
	isEnd := dirs[p.dir] == End // always fits
	if e.ended || e.cut && !isEnd {
		return
	}
	e.size += int64(len(data) + pieceOverhead)
	if !isEnd && (e.size > maxExchange || e.size > e.claim.Size() && !e.claim.Grow(max(e.size-e.claim.Size(), chunkSize))) {
		e.cut = true
		return
	}
	p.at, p.data = max(0, now-p.took), e.keep(data)
	e.pieces = append(e.pieces, p)
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
	e.chunks, e.free, e.pieces = nil, nil, nil
	e.claim.Release()
}

// Indexes of dirs.
const (
	fromClient uint8 = iota
	toServer
	fromServer
	read
	parts
	toClient
	noted
	end
)

// Body records the body of the request.
func (e *Exchange) Body(body []byte) { e.add(piece{dir: fromClient, raw: json.Valid(body)}, body) }

// Note records a decision, with its details as JSON, or nil.
func (e *Exchange) Note(choice int, note string, details any) {
	if e == nil {
		return
	}
	var data []byte
	if details != nil {
		data, _ = json.Marshal(details)
	}
	e.add(piece{dir: noted, raw: true, choice: int32(choice), note: note}, data)
}

// Parts records outputs of the turn of a choice.
func (e *Exchange) Parts(choice int, outputs []Part) {
	if e != nil {
		data := append(make([]byte, 0, 64), '[')
		for _, p := range outputs {
			data = fmt.Appendf(data, `{"kind":%q,"call":%d,"bytes":%d},`, p.Kind, p.Call, p.Bytes)
		}
		data[len(data)-1] = ']'
		e.add(piece{dir: parts, raw: true, choice: int32(choice)}, data)
	}
}

// Began records the status of the answer.
func (e *Exchange) Began(s Status) {
	if e != nil {
		data, _ := json.Marshal(s)
		e.add(piece{dir: toClient, raw: true}, data)
	}
}

// MinWait is the time from which a write counts as one that waited for the client.
const MinWait = time.Millisecond

// Wrote records bytes that were written to the client since began.
func (e *Exchange) Wrote(data []byte, began time.Time) {
	if e != nil {
		e.add(piece{dir: toClient, took: time.Since(began)}, data)
	}
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
	if e == nil {
		return
	}
	data, _ := json.Marshal(details)
	e.add(piece{dir: end, raw: true, note: code}, data)
	e.mu.Lock()
	again := e.ended
	e.ended = true
	e.mu.Unlock()
	if !again {
		e.r.finish(e, code != "")
	}
}

// entries returns what was recorded. It is called once, after the end.
func (e *Exchange) entries() []Entry {
	e.head.Version, e.head.Cut = 1, e.cut
	head, _ := json.Marshal(&e.head)
	all := append(make([]Entry, 0, len(e.pieces)+1), Entry{Dir: FromClient, Message: head})
	for i := 0; i < len(e.pieces); i++ {
		p := e.pieces[i]
		entry := Entry{At: Millis(p.at), Took: Millis(p.took), Dir: dirs[p.dir], Choice: int(p.choice), Lines: int(p.lines), Note: p.note}
		if p.raw && json.Valid(p.data) {
			entry.Message = p.data
			all = append(all, entry)
			continue
		}
		text := p.data
		for ; i+1 < len(e.pieces) && p.dir == toClient && e.pieces[i+1].dir == toClient && !e.pieces[i+1].raw; i++ {
			if e.pieces[i].took >= MinWait && utf8.Valid(text) {
				break // the next one was written after a wait
			}
			text = append(text, e.pieces[i+1].data...) // so that no rune is cut
			entry.Took += Millis(e.pieces[i+1].took)
		}
		entry.Text = string(text)
		all = append(all, entry)
	}
	return all
}

type contextKey struct{}

// choiceOf is an exchange in a context, and the choice that the context is for.
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

// Line implements [codexrpc.Tap].
func (c *choiceOf) Line(sent bool, line []byte) {
	dir := fromServer
	if sent {
		dir = toServer
		if c.e.rule.Sent != nil {
			c.e.rule.Sent(c.choice, line)
		}
	}
	c.e.add(piece{dir: dir, raw: true, choice: int32(c.choice)}, line)
}

// Read implements [codexrpc.Tap].
func (c *choiceOf) Read(lines int, err error) {
	p := piece{dir: read, choice: int32(c.choice), lines: int32(lines)}
	if err != nil {
		p.note = causeOf(err)
	}
	c.e.add(p, nil)
}

// handler is an [slog.Handler] that also records what is logged with the context of an exchange.
type handler struct{ slog.Handler }

// Logger returns a logger that logs like l, and records what is logged with the context of an exchange.
func Logger(l *slog.Logger) *slog.Logger { return slog.New(handler{l.Handler()}) }

// Enabled implements [slog.Handler].
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	_, recorded := ctx.Value(contextKey{}).(*choiceOf)
	return recorded || h.Handler.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
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

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
