package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// ErrUnjudged is wrapped by errors that say why a recording cannot be replayed.
var ErrUnjudged = errors.New("this recording cannot be replayed")

// longest bounds the virtual time of a replay.
const longest = 3 * time.Hour

// Run replays a recording. It returns how what went out differs, or nothing.
//
// With one processor, the gateway reads all events that are sent at once, unless a thread of this program loses its processor
// in between. So a replay with other reads than the recording is repeated.
func Run(t *testing.T, entries []recorder.Entry, transcripts *fakecodex.Transcripts) (difference string, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for again, n := true, 0; again && n < maxRuns; n++ {
		synctest.Test(t, func(*testing.T) { difference, again, err = run(entries, transcripts) })
	}
	return difference, err
}

// maxRuns bounds how often a replay is repeated.
const maxRuns = 10

// run replays a recording in a bubble. again is true if there is a difference which other reads may have caused.
func run(entries []recorder.Entry, transcripts *fakecodex.Transcripts) (difference string, again bool, err error) {
	s, err := read(entries)
	var route *gateway.Route
	var args []string
	if err == nil {
		route, args, err = s.judge()
	}
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUnjudged, err)
	}
	time.Sleep(time.Until(s.head.Time)) // so that times in the answer are the same, too
	p := &player{script: s, transcripts: transcripts, choices: make(map[string]int), turns: make(map[int][]*liveTurn)}
	p.client = newClient(s.answer)
	p.first = p.process()
	defer p.stop()
	synctest.Wait()
	ended := make(chan struct{}) // closed when the replay is recorded
	var recorded []byte
	exit, exitNow := context.WithCancel(context.Background())
	defer exitNow()
	options := s.gatewayOptions()
	options.Exit, options.Record = exit, recorder.Rule{Mode: recorder.All, Texts: s.head.Texts, Sent: p.sent, Store: func(_ string, recording []byte) {
		recorded = recording
		close(ended)
	}}
	if err := s.seed(options.Responses); err != nil {
		return "", false, err
	}
	g := gateway.New(p, options)
	ctx, leave := context.WithCancel(context.Background())
	arrived := time.Now()
	r := s.request(ctx, route, arrived)
	p.client.body = r.Body.(*timedBody)
	var serving sync.WaitGroup
	serving.Go(func() {
		defer func() { _ = recover() }() // of http.ErrAbortHandler
		g.Serve(route, p.client, r, args...)
	})
	defer func() {
		if difference != "" && err == nil && s.guess != "" {
			difference, err = "", fmt.Errorf("%w: %s", ErrUnjudged, s.guess)
		}
	}()
	difference = p.play(arrived, ended)
	if difference == "" {
		wait(ended, time.Until(arrived.Add(s.end+2*time.Microsecond))) // the times in a recording are rounded
		synctest.Wait()
		switch {
		case s.clientLeft():
			leave()
		case s.code == "server_shutting_down":
			exitNow()
		case s.code == "response_cancelled":
			p.client.cancel(g)
		}
		if !wait(ended, longest) {
			difference = "the request does not end"
		}
	}
	leave()
	p.stop()
	serving.Wait()
	if difference != "" {
		return difference, false, nil
	}
	replayed, err := recorder.Parse(recorded)
	if err != nil {
		return "", false, err
	}
	got := answerIn(replayed)
	difference = s.answer.differs(&got, s.clientLeft(), s.head.Texts)
	return difference, difference != "" && p.reads != got.reads, nil
}

// clientLeft reports whether the recorded client did not wait for its answer.
func (s *script) clientLeft() bool {
	return s.code == "client_gone" || s.code == "client_closed_request"
}

// wait reports whether ended is closed within a time.
func wait(ended <-chan struct{}, within time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(within):
		return false
	}
}

// judge returns the route of a recording, or why it cannot be replayed.
func (s *script) judge() (route *gateway.Route, args []string, err error) {
	switch s.code {
	case "codex_queue_full", "codex_queue_timeout", "codex_body_memory", "codex_answer_memory", "codex_not_ready":
		return nil, nil, fmt.Errorf("other requests, or the state of the server, have caused the error %s", s.code)
	}
	switch {
	case s.head.Cut:
		return nil, nil, errors.New("the recording is not complete, since the exchange was too large")
	case bytes.ContainsRune(s.body, utf8.RuneError):
		return nil, nil, errors.New("its body has bytes that are not UTF-8")
	case s.head.Proto == "WebSocket":
		return nil, nil, errors.New("it came over a WebSocket")
	}
	if route, args = s.route(); route == nil {
		return nil, nil, fmt.Errorf("there is no route %s", s.head.Path)
	}
	return route, args, nil
}

// gatewayOptions returns the options of the recorded server.
func (s *script) gatewayOptions() gateway.Options {
	o := &s.options
	discard := slog.New(slog.DiscardHandler)
	return gateway.Options{
		MaxBody: o.MaxBody, MaxBodyMemory: 1 << 30, MaxConcurrent: o.MaxChoices, MaxPerUser: o.MaxChoices, MaxQueue: 1, QueueWait: time.Minute,
		IdleTimeout: o.IdleTimeout, Keepalive: o.Keepalive, Tools: o.Tools, StopGrace: o.StopGrace,
		WebSearch: o.WebSearch, NoReasoning: o.NoReasoning, Shorten: o.Shorten, Ollama: o.Ollama,
		Instructions: conversation.InstructionsAppend, // so that no turn is started again because of its instructions
		Responses:    objects.NewStore(store.NewMemory(64<<20, time.Hour), discard), Running: objects.NewRunning(),
		User: func(*http.Request) string { return "" }, Logger: discard, Recorder: recorder.New(nil),
	}
}

// route returns the route of the request, with what stands for the * in its path.
func (s *script) route() (route *gateway.Route, args []string) {
	if route = gateway.Find(s.head.Path); route != nil {
		return route, nil
	}
	segments := strings.Split(s.head.Path, "/")
	for i := 3; i < len(segments); i += 2 {
		args = append(args, segments[i])
		segments[i] = "*"
	}
	return gateway.Find(strings.Join(segments, "/")), args
}

func (s *script) request(ctx context.Context, route *gateway.Route, arrived time.Time) *http.Request {
	if route.API != nil && route.API.Errors != nil {
		ctx = context.WithValue(ctx, apierror.EncoderKey{}, route.API.Errors.Encode)
	}
	body := s.body
	if !s.head.Texts {
		body = pictures.ReplaceAll(body, []byte("data:image/png;base64,"+picture))
	}
	if len(s.actions) > 0 { // otherwise a summary may be the mistake in the request
		body = sealed.ReplaceAllFunc(body, reseal)
	}
	if s.code == "request_too_large" {
		body = bytes.Repeat([]byte(" "), int(s.options.MaxBody)+1)
	}
	r, err := http.NewRequestWithContext(ctx, s.head.Method, "http://replay"+s.head.Path, &timedBody{
		ctx: ctx, rest: body, size: len(body), arrived: arrived, took: s.bodyAt, expired: make(chan struct{}),
		cut: len(s.actions) == 0 && (s.clientLeft() || s.code == "request_timeout" || s.code == "server_shutting_down"), // perhaps
	})
	if err != nil {
		panic(err) // a path that has a route can be parsed
	}
	for name, value := range s.head.Header {
		r.Header.Set(name, value)
	}
	r.Header.Set("X-Request-Id", s.head.RequestID)
	r.ContentLength = -1
	r.Proto = s.head.Proto
	if major, minor, ok := http.ParseHTTPVersion(s.head.Proto); ok {
		r.ProtoMajor, r.ProtoMinor = major, minor
	}
	return r
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
