package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/seal"
)

const origin = "http://replay"

// request returns the recorded request, and its body, which comes as slowly as the recorded one.
func (s *script) request(ctx context.Context, route *gateway.Route, arrived time.Time) (*http.Request, *timedBody) {
	body := &timedBody{
		ctx: ctx, rest: s.bodyNow(), arrived: arrived, took: s.bodyAt, expired: make(chan struct{}),
		cut: !s.asked && (s.clientLeft() || s.code == "request_timeout" || s.code == "server_shutting_down"), // perhaps
	}
	body.size = len(body.rest)
	r, err := http.NewRequestWithContext(ctx, s.head.Method, origin+s.head.Path, body)
	if err != nil {
		panic(err) // Load has checked it
	}
	for name, value := range s.head.Header {
		r.Header.Set(name, value)
	}
	r.Header.Set("X-Request-Id", s.head.RequestID)
	if boundary, _, isForm := bytes.Cut(s.body, []byte("\r\n")); isForm && bytes.HasPrefix(boundary, []byte("--")) {
		r.Header.Set("Content-Type", `multipart/form-data; boundary="`+string(boundary[2:])+`"`) // which is masked in the head
	}
	r.ContentLength = -1
	r.Proto = s.head.Proto
	if major, minor, ok := http.ParseHTTPVersion(s.head.Proto); ok {
		r.ProtoMajor, r.ProtoMinor = major, minor
	}
	var form *api.Errors
	if route.API != nil {
		form = route.API.Errors
	}
	if form == nil {
		form = gateway.ClientAPI(r).Errors
	}
	if form != nil {
		r = r.WithContext(context.WithValue(ctx, apierror.EncoderKey{}, form.Encode))
	}
	return r, body
}

// bodyNow returns the body with what this server can read in place of what only the recorded one could.
func (s *script) bodyNow() []byte {
	body := s.body
	if s.code == "request_too_large" {
		return bytes.Repeat([]byte(" "), int(s.options.MaxBody)+1)
	}
	if !s.head.Texts {
		body = pictures.ReplaceAll(body, []byte("data:image/png;base64,"+picture))
	}
	if s.asked { // otherwise a summary may be the mistake in the request
		body = sealed.ReplaceAllFunc(body, reseal)
	}
	return body
}

// pictures matches those of a recording without texts: they have no data. picture takes their place.
var pictures = regexp.MustCompile(`data:image/\w+;base64,[\w+/]*=*`)

const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

// seed stores what the request continues. The content does not matter, since no model reads it, except calls
// whose results the request has.
func (s *script) seed(kept *objects.Store) error {
	b := gjson.ParseBytes(s.body)
	previous := b.Get("previous_response_id").Str
	of := cmp.Or(b.Get("conversation.id").Str, b.Get("conversation").Str)
	calls := make(map[string]bool)
	b.Get("input").ForEach(func(_, item gjson.Result) bool {
		if id := item.Get("call_id").Str; id != "" {
			calls[id] = calls[id] || !strings.HasSuffix(item.Get("type").Str, "_output")
		}
		return true
	})
	e := &objects.Entry{Response: json.RawMessage(`{"object":"response","status":"completed"}`), Input: []json.RawMessage{json.RawMessage(`{"type":"message","role":"user","content":"x"}`)}}
	for id, here := range calls {
		if !here {
			e.Output = append(e.Output, fmt.Appendf(nil, `{"type":"function_call","call_id":%q,"name":"x","arguments":"{}"}`, id))
		}
	}
	suffix := responseid.NewSuffix(time.Now())
	for old, made := range map[string]string{previous: "resp_" + suffix, of: responseid.ConversationPrefix + suffix} {
		if old == "" || s.code == "previous_response_not_found" || s.code == "conversation_not_found" {
			continue
		}
		s.body = bytes.ReplaceAll(s.body, []byte(old), []byte(made)) // a pseudonym may not be an id
		if err := kept.Put(context.Background(), made, e); err != nil {
			return err
		}
	}
	return nil
}

// sealed matches a sealed summary.
var sealed = regexp.MustCompile(`codex-sealed-1\.[\w-]+`)

// reseal returns a sealed summary of the same length in place of one that only the recorded server can open.
func reseal(text []byte) []byte {
	const about = `{"messages":[{"role":"summary","text":""}]}`
	length := len(text)*3/4 - len(about) - 40
	content := strings.Replace(about, `""`, `"`+strings.Repeat("word ", max(1, length/5))+`"`, 1)
	made, err := seal.Sealer(seal.OfProcess).Seal(context.Background(), "", []byte(content))
	if err != nil {
		panic(err) // the key of the process can always be used
	}
	return []byte(made)
}

// timedBody is a body that comes as slowly as the recorded one.
type timedBody struct {
	ctx     context.Context
	rest    []byte
	size    int // of the whole body
	arrived time.Time
	took    time.Duration
	cut     bool          // its end does not come
	expired chan struct{} // closed when reading takes too long
	once    sync.Once
}

// Read returns the next part of the body.
func (b *timedBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && b.cut {
		select {
		case <-b.ctx.Done():
			return 0, io.ErrUnexpectedEOF
		case <-b.expired:
			return 0, os.ErrDeadlineExceeded
		}
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), b.size/64+1)], b.rest)
	b.rest = b.rest[n:]
	time.Sleep(time.Until(b.arrived.Add(b.took * time.Duration(b.size-len(b.rest)) / time.Duration(b.size))))
	return n, nil
}

// Close does nothing.
func (b *timedBody) Close() error { return nil }

// expire ends the reading.
func (b *timedBody) expire() { b.once.Do(func() { close(b.expired) }) }
