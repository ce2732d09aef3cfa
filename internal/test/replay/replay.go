package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// ErrUnjudged is wrapped by errors that say why a recording cannot be replayed.
var ErrUnjudged = errors.New("this recording cannot be replayed")

// webSocket is the protocol in the head of a request that came over a WebSocket.
const webSocket = "WebSocket"

// longest bounds the virtual time of a replay.
const longest = 3 * time.Hour

// Run replays a recording. It returns how what went out differs, or nothing.
//
// With one processor, the gateway reads all events at once that are sent at once, unless the operating system takes
// the processor away in between. So a replay with other reads than the recording is repeated.
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
	if err == nil {
		err = s.judge()
	}
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUnjudged, err)
	}
	time.Sleep(time.Until(s.head.Time)) // so that times in the answer are the same, too
	p := newPlayer(s, transcripts)
	defer p.stop()
	synctest.Wait() // for the first app-server
	replayed, difference, err := s.serve(p)
	got := answerIn(replayed)
	if err == nil && difference == "" {
		difference = s.answer.differs(got, s.clientLeft(), s.head.Texts)
	}
	if difference == "" {
		return "", false, err
	}
	if why := s.doubt(got); why != "" {
		return "", false, fmt.Errorf("%w: %s", ErrUnjudged, why)
	}
	return difference, replayed != nil && p.reads != got.reads, err
}

// serve lets a gateway serve the request. It returns the recording of that, or how the request went on in another way.
func (s *script) serve(p *player) (replayed []recorder.Entry, difference string, err error) {
	ended := make(chan struct{}) // closed when the replay is recorded
	var recording []byte
	exit, exitNow := context.WithCancel(context.Background())
	defer exitNow()
	options := s.gatewayOptions()
	options.Exit, options.Record = exit, recorder.Rule{Mode: recorder.All, Texts: s.head.Texts, Sent: p.sent, Store: func(_, _ string, text []byte) {
		recording = text
		close(ended)
	}}
	if err := s.seed(options.Responses); err != nil {
		return nil, "", err
	}
	g := gateway.New(p, options)
	ctx, leave := context.WithCancel(context.Background())
	route, args := s.route()
	arrived := time.Now()
	r, body := s.request(ctx, route, arrived)
	p.client.body = body
	if strings.Contains(s.answer.text, `"request_id":`) { // the module repeats the id in a header, and an error repeats that
		p.client.header.Set(messages.RequestIDHeader, s.head.RequestID)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if s.head.Proto == webSocket {
			serveSocket(ctx, g, route, r, body.rest)
			return
		}
		defer func() { _ = recover() }() // of http.ErrAbortHandler
		g.Serve(route, p.client, r, args...)
	})
	if difference = p.play(arrived, ended); difference == "" && !wait(ended, time.Until(arrived.Add(s.end+rounding))) {
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
		return nil, difference, nil
	}
	replayed, err = recorder.Parse(recording)
	return replayed, "", err
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

// judge returns why a recording cannot be replayed, or nil.
func (s *script) judge() error {
	switch s.code {
	case "codex_queue_timeout", "codex_answer_memory", "codex_not_ready":
		return fmt.Errorf("other requests, or the state of the server, have caused the error %s", s.code)
	}
	switch {
	case s.head.Cut:
		return errors.New("the recording is not complete, since the exchange was too large")
	case bytes.ContainsRune(s.body, utf8.RuneError):
		return errors.New("its body has bytes that are not UTF-8")
	}
	if route, _ := s.route(); route == nil {
		return fmt.Errorf("there is no route %s", s.head.Path)
	}
	return nil
}

// gatewayOptions returns the options of the recorded server.
func (s *script) gatewayOptions() gateway.Options {
	o := &s.options
	discard := slog.New(slog.DiscardHandler)
	bodies, turns := int64(1<<30), o.MaxChoices
	switch s.code { // as if other requests had all of it
	case "codex_body_memory":
		bodies = o.MaxBody
	case "codex_queue_full":
		turns = 0
	}
	return gateway.Options{
		MaxBody: o.MaxBody, MaxBodyMemory: bodies, MaxConcurrent: turns, MaxPerUser: turns,
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
