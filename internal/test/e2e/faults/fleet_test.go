package faults

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// streaming is a stream whose first text was read.
type streaming struct {
	*http.Response
	begun string
}

// openStreams opens n streams whose text begins with Half, and reads that of each.
func openStreams(s *e2e.Site, n int, prompt string) []streaming {
	s.T.Helper()
	opened := make([]streaming, n)
	var all sync.WaitGroup
	for i := range opened {
		all.Go(func() {
			response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.ChatBody(prompt, map[string]any{"stream": true})), nil)
			opened[i] = streaming{response, e2e.ReadUntil(s.T, response.Body, "Half")}
		})
	}
	all.Wait()
	return opened
}

// rest reads the rest of a stream and returns all of it.
func rest(s *e2e.Site, of streaming) string { return of.begun + s.Read(of.Response) }

// isWhole reports whether a stream is complete.
func isWhole(text string) bool {
	return strings.Contains(text, `"finish_reason":"stop"`) && strings.HasSuffix(text, "data: [DONE]\n\n")
}

// isCut reports whether a stream ended with the error of a lost app-server.
func isCut(text string) bool {
	return strings.Contains(text, `"code":"codex_exited"`) && strings.HasSuffix(text, "data: [DONE]\n\n") && !strings.Contains(text, "finish_reason\":\"stop")
}

// TestRemoteSite checks the whole API with a remote app-server, started as in
// docs/remote.md, over each transport.
func TestRemoteSite(t *testing.T) {
	for name, listen := range map[string]string{
		"ws":   "ws://127.0.0.1:0",
		"unix": "unix://" + filepath.Join(t.TempDir(), "codex.sock"),
	} {
		t.Run(name, func(t *testing.T) {
			l := e2e.NewUnstarted(t)
			token, args := "", []string{"-c", "model_catalog_json=" + l.Catalogue()}
			if name == "ws" {
				token, args = e2e.FleetToken, append(args, e2e.Guarded(t)...)
			}
			address, _ := l.Listen(listen, args...)
			l.Serve(e2e.Remote(address, token))
			l.WaitReady()
			checkAPI(l)
		})
	}
}

// checkAPI tries each part of the API.
func checkAPI(s *e2e.Site) {
	s.T.Helper()
	t := s.T.(*testing.T)
	t.Run("offered", func(t *testing.T) {
		s := s.At(t)
		response, body := s.Post(strings.Replace(e2e.Conversation, "PIXEL", e2e.Pixel, 1), nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, "A picture.") {
			t.Fatal(response.Status, body)
		}
		request, _ := s.Model.Last()
		if last := e2e.Describe(request)[len(e2e.Describe(request))-1]; last != "user: say:A picture. [image "+e2e.Pixel[:22]+"]" {
			t.Errorf("the model was given %q at the end", last)
		}
		e2e.CheckTools(t, request.Tools, "localSearch")
		e2e.CheckNothingOfTheHost(t, request)
	})
	t.Run("models", func(t *testing.T) {
		models := slices.DeleteFunc(s.At(t).Models(), func(id string) bool { return id == "default" })
		if len(models) < 2 {
			t.Fatalf("there are %q", models)
		}
		for _, model := range models {
			s.At(t).CheckModel(model, s.At(t).Stream)
		}
	})
	t.Run("text and usage", func(t *testing.T) {
		const text = "Grüße — 你好 👋🏽; a < b && \"c\""
		got, err := s.At(t).Stream(e2e.UserSays("usage:100,20,30,4; chunk=3; verbatim:" + text))
		if err != nil || got.Content != text || got.Finish != "stop" {
			t.Fatalf("%+v %v", got, err)
		}
		e2e.CheckUsage(t, got.Usage, scriptedmodel.Usage{Input: 100, Cached: 20, Output: 30, Reasoning: 4})
	})
	t.Run("tools", func(t *testing.T) {
		got := s.At(t).AskBoth(e2e.Question{Prompt: `tool:3 localSearch {"query":"note %d"}`, Tools: true})
		e2e.CheckReply(t, got, nil, e2e.Searches("note 1", "note 2", "note 3"), "tool_calls")
	})
	t.Run("textual blocks", func(t *testing.T) {
		got := s.At(t).AskBoth(e2e.Question{Prompt: `say:Let me see. ; usetool:2 localSearch {"query":"note %d"}`, Tools: true, System: e2e.Taught})
		if got.Finish != "tool_calls" || len(got.Calls) != 2 || !strings.Contains(got.Content, "Let me see.") || strings.Contains(got.Content, "<use_tool>") {
			t.Errorf("as calls: %+v", got)
		}
		xml := s.At(t).AskBoth(e2e.Question{Prompt: `usetool:1 localSearch {"query":"note %d"}`, Tools: true, Mode: e2e.ModeXML})
		if len(xml.Calls) != 1 || !strings.Contains(xml.Content, "<use_tool>") {
			t.Errorf("as text: %+v", xml)
		}
	})
	t.Run("reasoning", func(t *testing.T) {
		if got := s.At(t).AskBoth(e2e.Question{Prompt: "reason:Let me think.; say:Done."}); got.Reasoning != "Let me think." || got.Content != "Done." {
			t.Errorf("%+v", got)
		}
	})
	t.Run("choices", func(t *testing.T) {
		response, body := s.At(t).Post(e2e.ChatBody("say:ok", map[string]any{"n": 3}), nil)
		if response.StatusCode != http.StatusOK || strings.Count(body, `"finish_reason":"stop"`) != 3 {
			t.Error(response.Status, body)
		}
	})
	t.Run("errors", func(t *testing.T) {
		response, body := s.At(t).Post(e2e.ChatBody("fail:context_length_exceeded", nil), nil)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "context_length_exceeded") {
			t.Error(response.Status, body)
		}
	})
}

// TestRemoteOverTLS runs a Caddy in front of the app-server, as in docs/remote.md, with
// a certificate of Caddy's own authority, which the other Caddy's system trusts.
func TestRemoteOverTLS(t *testing.T) {
	l := e2e.NewUnstarted(t)
	address, _ := l.Listen("ws://127.0.0.1:0", e2e.Guarded(t)...)
	storage := t.TempDir()
	_, port, err := net.SplitHostPort(e2e.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	l.Node().RunFile(fmt.Sprintf("{\nadmin off\npersist_config off\nauto_https disable_redirects\nskip_install_trust\nstorage file_system %s\n}\n"+
		"https://localhost:%s {\ntls internal\nreverse_proxy %s\n}\n", storage, port, strings.TrimPrefix(address, "ws://")))
	authority := filepath.Join(storage, "pki", "authorities", "local", "root.crt")
	e2e.WaitFor(t, "the authority", func() bool {
		_, err := os.Stat(authority)
		return err == nil
	})
	s := l.Node()
	options := e2e.Remote("wss://localhost:"+port, e2e.FleetToken)
	stranger := s.RunFile(s.Caddyfile(options))
	e2e.WaitFor(t, "a Caddy that does not trust the certificate to say so", func() bool {
		return strings.Contains(stranger.Log.String(), "certificate signed by unknown authority")
	})
	_ = stranger.Cmd.Process.Kill()
	_ = stranger.Wait()
	friend := s.RunFile(s.Caddyfile(options), "SSL_CERT_FILE="+authority)
	friend.WaitUp()
	if got, err := s.Stream(e2e.UserSays("chunk=3; say:over TLS")); err != nil || got.Content != "over TLS" {
		t.Error(got, err)
	}
	if strings.Contains(friend.Log.String(), e2e.FleetToken) {
		t.Error("the token is in the log")
	}
}

// half is a prompt for a stream that continues for some seconds after "Half".
var half = "chunk=4; delay=50ms; say:Half" + strings.Repeat(".", 240)

// TestTwoCaddies checks that killing one of two nodes with the same app-server does not
// affect the other.
func TestTwoCaddies(t *testing.T) {
	l := e2e.NewUnstarted(t)
	address, _ := l.Listen("ws://127.0.0.1:0", e2e.Guarded(t)...)
	var nodes []*e2e.Running
	for range 2 {
		s := l.Node()
		nodes = append(nodes, s.RunFile(s.Caddyfile(e2e.Remote(address, e2e.FleetToken))))
	}
	for _, node := range nodes {
		node.WaitUp()
	}
	dead, alive := nodes[0], nodes[1]
	lost := openStreams(dead.Site, 2, half)
	lost = append(lost, openStreams(dead.Site, 1, "say:Half; hang")...)
	lost = append(lost, openStreams(dead.Site, 1, `say:Half; tool:localSearch {"query":"x"}; hang`)...)
	kept := openStreams(alive.Site, 3, half)
	if err := dead.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, stream := range lost {
		if _, err := io.Copy(io.Discard, stream.Body); err == nil {
			t.Error("a stream of the dead one ended as if it were complete")
		}
		_ = stream.Body.Close()
	}
	for range 4 {
		if response, text := alive.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("a turn of the other: %s %s", response.Status, text)
		}
	}
	for _, stream := range kept {
		if text := rest(alive.Site, stream); !isWhole(text) {
			t.Errorf("a stream of the other ended with %q", text)
		}
	}
}

// connect returns a connection without turns.
func connect(l *e2e.Site, address string) *codexrpc.Conn {
	l.T.Helper()
	socket, err := codexrpc.DialWebSocket(e2e.Context(l.T), address, e2e.FleetToken)
	if err != nil {
		l.T.Fatal(err)
	}
	conn := codexrpc.NewConn(socket, nil)
	l.T.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Initialize(e2e.Context(l.T), codexrpc.ClientInfo{Name: "e2e", Version: "1"}); err != nil {
		l.T.Fatal(err)
	}
	return conn
}

// TestTwoRemotes kills one of two remote app-servers. Its streams end with an error,
// others continue, new turns go to the other one, and it is used again when it is back.
func TestTwoRemotes(t *testing.T) {
	s := e2e.NewUnstarted(t)
	first, _ := s.Listen("ws://127.0.0.1:0", e2e.Guarded(t)...)
	second, stop := s.Listen("ws://127.0.0.1:0", e2e.Guarded(t)...)
	s.Serve(e2e.Remote(first, e2e.FleetToken) + "\n" + e2e.Remote(second, e2e.FleetToken))
	s.WaitMembers(2)
	streams := openStreams(s, 4, half)
	stop()
	for range 6 {
		if response, text := s.Post(e2e.ChatBody("say:on the other", nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("a turn after the death: %s %s", response.Status, text)
		}
	}
	whole, cut := 0, 0
	for _, stream := range streams {
		switch text := rest(s, stream); {
		case isWhole(text):
			whole++
		case isCut(text):
			cut++
		default:
			t.Errorf("a stream ended with %q", text)
		}
	}
	if whole != 2 || cut != 2 {
		t.Errorf("%d streams went on and %d were cut, want 2 and 2", whole, cut)
	}
	e2e.WaitFor(t, "the reason", func() bool {
		status, body := s.Readiness()
		return status == http.StatusOK && body.AppServer == "ready" && len(body.AppServers) == 2 && strings.Contains(body.AppServers[1].Reason, "cannot be reached")
	})
	s.Listen(second, e2e.Guarded(t)...)
	s.WaitMembers(2)
	streams = openStreams(s, 4, half)
	if d, err := connect(s, second).Diagnostics(e2e.Context(t)); err != nil || d.ActiveTurns != 2 {
		t.Errorf("it runs %d turns of 4, %v", d.ActiveTurns, err)
	}
	for _, stream := range streams {
		if text := rest(s, stream); !isWhole(text) {
			t.Errorf("a stream ended with %q", text)
		}
	}
}

// TestRemoteReload checks that a reload to another app-server leaves the streams of the
// old one alone, whose connection ends with them, and that neither validating a
// configuration nor a failed reload dials.
func TestRemoteReload(t *testing.T) {
	s := e2e.NewUnstarted(t)
	first, _ := s.Listen("ws://127.0.0.1:0", e2e.Guarded(t)...)
	second, _ := s.Listen("ws://127.0.0.1:0", e2e.Guarded(t)...)
	near, far := newWire(t, strings.TrimPrefix(first, "ws://")), newWire(t, strings.TrimPrefix(second, "ws://"))
	s.Serve(e2e.Remote("ws://"+near.addr, e2e.FleetToken))
	s.WaitReady()
	streams := openStreams(s, 2, half)
	other := e2e.Remote("ws://"+far.addr, e2e.FleetToken)
	config := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(config, []byte(s.Caddyfile(other)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(e2e.Context(t), e2e.BuiltCaddy(t), "validate", "--adapter", "caddyfile", "--config", config).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := e2e.LoadCaddyfile(s.Caddyfile(other + "\n" + e2e.Remote(first, "{env.NO_SUCH_VARIABLE}"))); err == nil {
		t.Error("a token that is not there was taken")
	}
	if n := far.dialled(); n != 0 {
		t.Errorf("a configuration that does not run has dialled %d times", n)
	}
	s.Load(s.Caddyfile(other))
	s.WaitReady()
	if response, text := s.Post(e2e.ChatBody("say:over there", nil), nil); response.StatusCode != http.StatusOK {
		t.Error(response.Status, text)
	}
	if n := far.dialled(); n != 1 {
		t.Errorf("the new one was dialled %d times", n)
	}
	for _, stream := range streams {
		if text := rest(s, stream); !isWhole(text) {
			t.Errorf("a stream over the reload ended with %q", text)
		}
	}
	e2e.WaitFor(t, "the old connection to end", func() bool { return near.open() == 0 })
}
