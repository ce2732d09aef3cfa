package e2e

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

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// fleetToken is the token of the app-servers in these tests.
const fleetToken = "a-secret-of-the-fleet"

// guarded returns the arguments of an app-server that requires fleetToken.
func guarded(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(fleetToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--ws-auth", "capability-token", "--ws-token-file", path}
}

// remote returns an app_server block that connects.
func remote(address, token string) string {
	block := "app_server {\nconnect " + address + "\nstart_timeout " + deadline.String() + "\n"
	if token != "" {
		block += "token " + token + "\n"
	}
	return block + "}"
}

// newSite returns a site without a configuration.
func (l *lab) newSite() *site {
	l.t.Helper()
	s := &site{t: l.t, home: l.home, addr: freeAddr(l.t), model: l.model}
	s.url = "http://" + s.addr
	return s
}

// site returns a Caddy in front of app-servers of the lab, without waiting for them.
func (l *lab) site(options string) *site {
	l.t.Helper()
	s := l.newSite()
	s.load(s.caddyfile(options))
	l.t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			l.t.Error("stopping Caddy:", err)
		}
	})
	return s
}

// streaming is a stream whose first text was read.
type streaming struct {
	*http.Response
	begun string
}

// streams opens n streams and reads the first text of each.
func (s *site) streams(n int, prompt, first string) []streaming {
	s.t.Helper()
	opened := make([]streaming, n)
	var all sync.WaitGroup
	for i := range opened {
		all.Go(func() {
			response := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody(prompt, map[string]any{"stream": true})), nil)
			opened[i] = streaming{response, readUntil(s.t, response.Body, first)}
		})
	}
	all.Wait()
	return opened
}

// rest reads the rest of a stream and returns all of it.
func (s *site) rest(of streaming) string { return of.begun + s.read(of.Response) }

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
			l := newLab(t)
			token, args := "", []string{"-c", "model_catalog_json=" + l.catalogue()}
			if name == "ws" {
				token, args = fleetToken, append(args, guarded(t)...)
			}
			address, _ := l.listen(listen, args...)
			s := l.site(remote(address, token))
			s.waitReady()
			s.checkAPI()
		})
	}
}

// checkAPI tries each part of the API.
func (s *site) checkAPI() {
	s.t.Helper()
	t := s.t.(*testing.T)
	t.Run("offered", func(t *testing.T) {
		s := s.at(t)
		response, body := s.post(strings.Replace(conversation, "PIXEL", pixel, 1), nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(body, "A picture.") {
			t.Fatal(response.Status, body)
		}
		request, _ := s.model.Last()
		if last := describe(request)[len(describe(request))-1]; last != "user: say:A picture. [image "+pixel[:22]+"]" {
			t.Errorf("the model was given %q at the end", last)
		}
		checkTools(t, request.Tools, "localSearch")
		checkNothingOfTheHost(t, request)
	})
	t.Run("models", func(t *testing.T) {
		models := slices.DeleteFunc(s.at(t).models(), func(id string) bool { return id == "default" })
		if len(models) < 2 {
			t.Fatalf("there are %q", models)
		}
		for _, model := range models {
			s.at(t).checkModel(model, s.at(t).stream)
		}
	})
	t.Run("text and usage", func(t *testing.T) {
		const text = "Grüße — 你好 👋🏽; a < b && \"c\""
		got, err := s.at(t).stream(userSays("usage:100,20,30,4; chunk=3; verbatim:" + text))
		if err != nil || got.content != text || got.finish != "stop" {
			t.Fatalf("%+v %v", got, err)
		}
		checkUsage(t, got.usage, scriptedmodel.Usage{Input: 100, Cached: 20, Output: 30, Reasoning: 4})
	})
	t.Run("tools", func(t *testing.T) {
		got := s.at(t).askBoth(question{prompt: `tool:3 localSearch {"query":"note %d"}`, tools: true})
		checkReply(t, got, nil, searches("note 1", "note 2", "note 3"), "tool_calls")
	})
	t.Run("textual blocks", func(t *testing.T) {
		got := s.at(t).askBoth(question{prompt: `say:Let me see. ; usetool:2 localSearch {"query":"note %d"}`, tools: true, system: taught})
		if got.finish != "tool_calls" || len(got.calls) != 2 || !strings.Contains(got.content, "Let me see.") || strings.Contains(got.content, "<use_tool>") {
			t.Errorf("as calls: %+v", got)
		}
		xml := s.at(t).askBoth(question{prompt: `usetool:1 localSearch {"query":"note %d"}`, tools: true, mode: modeXML})
		if len(xml.calls) != 1 || !strings.Contains(xml.content, "<use_tool>") {
			t.Errorf("as text: %+v", xml)
		}
	})
	t.Run("reasoning", func(t *testing.T) {
		if got := s.at(t).askBoth(question{prompt: "reason:Let me think.; say:Done."}); got.reasoning != "Let me think." || got.content != "Done." {
			t.Errorf("%+v", got)
		}
	})
	t.Run("choices", func(t *testing.T) {
		response, body := s.at(t).post(chatBody("say:ok", map[string]any{"n": 3}), nil)
		if response.StatusCode != http.StatusOK || strings.Count(body, `"finish_reason":"stop"`) != 3 {
			t.Error(response.Status, body)
		}
	})
	t.Run("errors", func(t *testing.T) {
		response, body := s.at(t).post(chatBody("fail:context_length_exceeded", nil), nil)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "context_length_exceeded") {
			t.Error(response.Status, body)
		}
	})
}

// TestRemoteToken checks the errors of a wrong and a missing token, and that the right
// one is shown nowhere.
func TestRemoteToken(t *testing.T) {
	l := newLab(t)
	address, _ := l.listen("ws://127.0.0.1:0", guarded(t)...)
	s := l.site(remote(address, "another-secret"))
	const says = "check its address and its token"
	for _, token := range []string{"another-secret", ""} {
		s.load(s.caddyfile(remote(address, token)))
		waitFor(t, "the refusal", func() bool {
			status, body := s.readiness()
			return status == http.StatusServiceUnavailable && body.AppServer == "backoff" && strings.Contains(body.Reason, says)
		})
		for _, stream := range []bool{false, true} {
			response, text := s.post(chatBody("say:never", map[string]any{"stream": stream}), nil)
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("X-Should-Retry") != "false" ||
				!strings.Contains(text, `"code":"codex_not_ready"`) || !strings.Contains(text, says) || strings.Contains(text, "another-secret") {
				t.Errorf("%s %v %s", response.Status, response.Header, text)
			}
		}
		if status, text := s.get("/v1/models"); status != http.StatusServiceUnavailable || !strings.Contains(text, says) {
			t.Error(status, text)
		}
	}
	s.load(s.caddyfile(remote(address, fleetToken)))
	s.waitReady()
	if response, text := s.post(chatBody("say:let in", nil), nil); response.StatusCode != http.StatusOK {
		t.Error(response.Status, text)
	}
}

// TestRemoteOverTLS runs a Caddy in front of the app-server, as in docs/remote.md, with
// a certificate of Caddy's own authority, which the other Caddy's system trusts.
func TestRemoteOverTLS(t *testing.T) {
	l := newLab(t)
	address, _ := l.listen("ws://127.0.0.1:0", guarded(t)...)
	storage := t.TempDir()
	_, port, err := net.SplitHostPort(freeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	l.newSite().runFile(fmt.Sprintf("{\nadmin off\npersist_config off\nauto_https disable_redirects\nskip_install_trust\nstorage file_system %s\n}\n"+
		"https://localhost:%s {\ntls internal\nreverse_proxy %s\n}\n", storage, port, strings.TrimPrefix(address, "ws://")))
	authority := filepath.Join(storage, "pki", "authorities", "local", "root.crt")
	waitFor(t, "the authority", func() bool {
		_, err := os.Stat(authority)
		return err == nil
	})
	s := l.newSite()
	options := remote("wss://localhost:"+port, fleetToken)
	stranger := s.runFile(s.caddyfile(options))
	waitFor(t, "a Caddy that does not trust the certificate to say so", func() bool {
		return strings.Contains(stranger.log.String(), "certificate signed by unknown authority")
	})
	_ = stranger.cmd.Process.Kill()
	_ = stranger.cmd.Wait()
	friend := s.runFile(s.caddyfile(options), "SSL_CERT_FILE="+authority)
	friend.waitUp()
	if got, err := s.stream(userSays("chunk=3; say:over TLS")); err != nil || got.content != "over TLS" {
		t.Error(got, err)
	}
	if strings.Contains(friend.log.String(), fleetToken) {
		t.Error("the token is in the log")
	}
}

// half is a prompt for a stream that continues for some seconds after "Half".
var half = "chunk=4; delay=50ms; say:Half" + strings.Repeat(".", 240)

// TestTwoCaddies checks that killing one of two nodes with the same app-server does not
// affect the other.
func TestTwoCaddies(t *testing.T) {
	l := newLab(t)
	address, _ := l.listen("ws://127.0.0.1:0", guarded(t)...)
	var nodes []*running
	for range 2 {
		s := l.newSite()
		nodes = append(nodes, s.runFile(s.caddyfile(remote(address, fleetToken))))
	}
	for _, node := range nodes {
		node.waitUp()
	}
	dead, alive := nodes[0], nodes[1]
	lost := dead.streams(2, half, "Half")
	lost = append(lost, dead.streams(1, "say:Half; hang", "Half")...)
	lost = append(lost, dead.streams(1, `say:Half; tool:localSearch {"query":"x"}; hang`, "Half")...)
	kept := alive.streams(3, half, "Half")
	if err := dead.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, stream := range lost {
		if _, err := io.Copy(io.Discard, stream.Body); err == nil {
			t.Error("a stream of the dead one ended as if it were complete")
		}
		_ = stream.Body.Close()
	}
	for range 4 {
		if response, text := alive.post(chatBody("say:ok", nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("a turn of the other: %s %s", response.Status, text)
		}
	}
	for _, stream := range kept {
		if text := alive.rest(stream); !isWhole(text) {
			t.Errorf("a stream of the other ended with %q", text)
		}
	}
}

// connect returns a connection without turns.
func (l *lab) connect(address string) *codexrpc.Conn {
	l.t.Helper()
	socket, err := codexrpc.DialWebSocket(testContext(l.t), address, fleetToken)
	if err != nil {
		l.t.Fatal(err)
	}
	conn := codexrpc.NewConn(socket, nil)
	l.t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Initialize(testContext(l.t), codexrpc.ClientInfo{Name: "e2e", Version: "1"}); err != nil {
		l.t.Fatal(err)
	}
	return conn
}

// TestTwoRemotes kills one of two remote app-servers. Its streams end with an error,
// others continue, new turns go to the other one, and it is used again when it is back.
func TestTwoRemotes(t *testing.T) {
	l := newLab(t)
	first, _ := l.listen("ws://127.0.0.1:0", guarded(t)...)
	second, stop := l.listen("ws://127.0.0.1:0", guarded(t)...)
	s := l.site(remote(first, fleetToken) + "\n" + remote(second, fleetToken))
	s.waitMembers(2)
	streams := s.streams(4, half, "Half")
	stop()
	for range 6 {
		if response, text := s.post(chatBody("say:on the other", nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("a turn after the death: %s %s", response.Status, text)
		}
	}
	whole, cut := 0, 0
	for _, stream := range streams {
		switch text := s.rest(stream); {
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
	waitFor(t, "the reason", func() bool {
		status, body := s.readiness()
		return status == http.StatusOK && body.AppServer == "ready" && len(body.AppServers) == 2 && strings.Contains(body.AppServers[1].Reason, "cannot be reached")
	})
	l.listen(second, guarded(t)...)
	s.waitMembers(2)
	streams = s.streams(4, half, "Half")
	if d, err := l.connect(second).Diagnostics(testContext(t)); err != nil || d.ActiveTurns != 2 {
		t.Errorf("it runs %d turns of 4, %v", d.ActiveTurns, err)
	}
	for _, stream := range streams {
		if text := s.rest(stream); !isWhole(text) {
			t.Errorf("a stream ended with %q", text)
		}
	}
}

// TestRemoteReload checks that a reload to another app-server leaves the streams of the
// old one alone, whose connection ends with them, and that neither validating a
// configuration nor a failed reload dials.
func TestRemoteReload(t *testing.T) {
	l := newLab(t)
	first, _ := l.listen("ws://127.0.0.1:0", guarded(t)...)
	second, _ := l.listen("ws://127.0.0.1:0", guarded(t)...)
	near, far := newWire(t, strings.TrimPrefix(first, "ws://")), newWire(t, strings.TrimPrefix(second, "ws://"))
	s := l.site(remote("ws://"+near.addr, fleetToken))
	s.waitReady()
	streams := s.streams(2, half, "Half")
	other := remote("ws://"+far.addr, fleetToken)
	config := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(config, []byte(s.caddyfile(other)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(builtCaddy(t), "validate", "--adapter", "caddyfile", "--config", config).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := loadCaddyfile(s.caddyfile(other + "\n" + remote(first, "{env.NO_SUCH_VARIABLE}"))); err == nil {
		t.Error("a token that is not there was taken")
	}
	if n := far.dialled(); n != 0 {
		t.Errorf("a configuration that does not run has dialled %d times", n)
	}
	s.load(s.caddyfile(other))
	s.waitReady()
	if response, text := s.post(chatBody("say:over there", nil), nil); response.StatusCode != http.StatusOK {
		t.Error(response.Status, text)
	}
	if n := far.dialled(); n != 1 {
		t.Errorf("the new one was dialled %d times", n)
	}
	for _, stream := range streams {
		if text := s.rest(stream); !isWhole(text) {
			t.Errorf("a stream over the reload ended with %q", text)
		}
	}
	waitFor(t, "the old connection to end", func() bool { return near.open() == 0 })
}
