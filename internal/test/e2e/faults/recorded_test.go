package faults

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/replay"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// recordedFault is something that happens to a request, and what its timeline says then.
type recordedFault struct {
	name string
	// provoke sends a request with this header, lets the fault happen, reads the answer, and ends the fault. What the
	// client and the model say has the word Half.
	provoke func(s *e2e.Site, header http.Header)
	code    string // of the request; empty: it has not failed
	says    string // is in the cause or in a row
}

var recordedFaults = []recordedFault{
	{"nothing", func(s *e2e.Site, header http.Header) {
		s.Post(e2e.ChatBody("say:Half of it is all.", nil), header)
	}, "", "The client got the whole answer"},
	{"a killed app-server", func(s *e2e.Site, header http.Header) {
		stream := openStream(s, "say:Half of it; hang", header)
		for _, pid := range e2e.Codexes(0) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		rest(s, stream)
		s.WaitReady()
	}, "codex_exited", "no more events: closed"},
	{"a stream that is cut", func(s *e2e.Site, header http.Header) {
		s.Post(e2e.ChatBody("say:Half of it; cutoff", e2e.Fields{"stream": true}), header)
	}, "upstream_disconnected", "The provider broke off its answer"},
	{"a client that leaves", func(s *e2e.Site, header http.Header) {
		ctx, leave := context.WithCancel(e2e.Context(s.T))
		response, err := s.Chat(ctx, e2e.ChatBody("say:Half of it; hang", e2e.Fields{"stream": true}), header)
		must.OK(s.T, err)
		e2e.ReadUntil(s.T, response.Body, "Half")
		leave()
		_ = response.Body.Close()
	}, "client_closed_request", "The client left"},
	{"a slow client", readSlowly, "", "the client let this wait"},
	{"a limit", func(s *e2e.Site, header http.Header) {
		s.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) { m.Use(100) })
		s.Post(e2e.ChatBody("say:Half of it", e2e.Fields{"stream": true}), header)
		s.Login.Change(planbackend.PlanMeter, (*planbackend.Meter).Reset)
	}, "insufficient_quota", "The plan is spent"},
	{"a malformed block", func(s *e2e.Site, header http.Header) {
		header.Set("X-Proxy-Output-Mode", e2e.ModeXML)
		prompt := "chunk=9; verbatim:Half <use_tool><name>a<use_tool><name>localSearch</name><query>of it</query></use_tool>"
		s.Post(e2e.ChatBody(prompt, e2e.Fields{"stream": true, "tools": []any{e2e.Tool("localSearch")}}), header)
	}, "", "a begun tool block was no call blocks:1,reason:nested"},
	{"a picture", func(s *e2e.Site, header http.Header) {
		content := []any{e2e.Fields{"type": "text", "text": "say:Half of it."}, e2e.Fields{"type": "image_url", "image_url": e2e.Fields{"url": "data:image/png;base64," + planbackend.MadePicture}}}
		s.Post(e2e.EncodeJSON(e2e.Fields{"model": "gpt-5.5", "messages": []any{e2e.UserMessage(content)}}), header)
	}, "", "The client got the whole answer"},
	{"a picture that is made", func(s *e2e.Site, header http.Header) {
		defer s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
			call := scriptedmodel.Call{Namespace: "image_gen", Name: "imagegen", Arguments: `{"prompt":"Half a cat"}`}
			return scriptedmodel.Script{Output: []scriptedmodel.Output{call}}, true
		})()
		s.Call(http.MethodPost, "/v1/images/generations", e2e.Fields{"prompt": "Half a cat"}, header)
	}, "", "item/completed imageGeneration"},
	{"an outage", func(s *e2e.Site, header http.Header) {
		s.Plan.Fail(planbackend.All, planbackend.Down())
		s.Plan.Cut()
		s.Post(e2e.ChatBody("say:Half of it", nil), header)
		s.Plan.Heal()
	}, "upstream_disconnected", "Connection failed: error sending request"},
	{"a hanging app-server", func(s *e2e.Site, header http.Header) {
		stream := openStream(s, "say:Half of it; hang", header)
		for _, pid := range e2e.AppServers() {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		rest(s, stream)
		s.WaitReady()
	}, "codex_unresponsive", "Codex hung"},
}

// openStream asks for a stream, and reads until it has said Half.
func openStream(s *e2e.Site, prompt string, header http.Header) streaming {
	s.T.Helper()
	response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.ChatBody(prompt, e2e.Fields{"stream": true})), header)
	return streaming{response, e2e.ReadUntil(s.T, response.Body, "Half")}
}

// readSlowly pauses in a long answer, for which the connection has no room.
func readSlowly(s *e2e.Site, header http.Header) {
	s.T.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	body := e2e.ChatBody("chunk=10000; verbatim:"+strings.Repeat("Half ", 40_000), e2e.Fields{"stream": true})
	request, err := http.NewRequestWithContext(e2e.Context(s.T), http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
	must.OK(s.T, err)
	request.Header = header
	response, err := transport.RoundTrip(request)
	must.OK(s.T, err)
	time.Sleep(time.Second / 2)
	s.Read(response)
}

// TestRecordedFaults records requests to which each kind of fault happens that internal/test/cmd/soak provokes. Their
// timelines name the cause, and replays give the client the same answers.
func TestRecordedFaults(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	s.Login.SetMeters(planbackend.AllMeters(0))
	s.Serve("")
	admin := s.WithAdmin(strings.Replace(s.Caddyfile("images on\nrecord all"), "auto_https off", "auto_https off\nservers {\nprotocols h1 h2c\n}", 1))
	s.WaitReady()
	transcripts, err := fakecodex.Load("../../../../testdata/transcripts")
	must.OK(t, err)
	for _, fault := range recordedFaults {
		for id, texts := range map[string]bool{"masked": false, "with texts": true} {
			if texts && fault.code == "codex_unresponsive" {
				continue // it takes long
			}
			t.Run(fault.name+", "+id, func(t *testing.T) {
				testRecordedFault(s.At(t), admin.At(t), fault, texts, transcripts)
			})
		}
	}
}

func testRecordedFault(s, admin *e2e.Site, fault recordedFault, texts bool, transcripts *fakecodex.Transcripts) {
	t := s.T.(*testing.T)
	if texts {
		admin.Call(http.MethodPost, "/codex/trace", e2e.Fields{"requests": 1, "texts": true}, nil)
	}
	id := strings.NewReplacer(" ", "-", ",", "").Replace(t.Name())
	fault.provoke(s, http.Header{"X-Request-Id": {id}})
	text := ""
	e2e.WaitFor(t, "the recording", func() bool {
		status, recording := admin.Get("/codex/trace?id=" + id)
		text = recording
		return status == http.StatusOK
	})
	if strings.Contains(text, "Half") != texts {
		t.Errorf("whether the texts are in the recording should be %t: %s", texts, text)
	}
	entries, err := recorder.Parse([]byte(text))
	must.OK(t, err)
	timeline := recorder.NewTimeline(slices.Clone(entries))
	said := timeline.Cause
	for _, row := range timeline.Rows {
		said += "\n" + row.Text
	}
	if timeline.Code != fault.code || !strings.Contains(said, fault.says) {
		t.Errorf("the code is %q, want %q; there is to be %q in\n%s", timeline.Code, fault.code, fault.says, said)
	}
	if difference, err := replay.Run(t, entries, transcripts); err != nil || difference != "" {
		t.Errorf("the replay: %v %s", err, difference)
	}
}
