package operations

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

// TestKeyFile checks keys of a file with the real codex: expired, limited to models, made
// and revoked without a reload, also for a WebSocket that is open.
func TestKeyFile(t *testing.T) {
	keys := map[string]string{
		"sk-ann": "user ann", "sk-bob": "user bob\nmodels fast", "sk-old": "user ann\nexpires 2020-01-01",
	}
	file := e2e.NewKeyFile(t, keys)
	s := e2e.NewSite(t, "model fast gpt-5.5\napi_keys_file "+file.Path)
	for key, want := range map[string]int{
		"sk-ann": http.StatusOK, "sk-bob": http.StatusNotFound, "sk-old": http.StatusUnauthorized, "sk-new": http.StatusUnauthorized,
	} {
		if status, text := e2e.StatusOf(s, key, nil); status != want || key == "sk-old" && !strings.Contains(text, "expired at 2020-01-01") {
			t.Errorf("%s: %d %s", key, status, text)
		}
	}
	if status, text := e2e.StatusOf(s, "sk-bob", e2e.Fields{"model": "fast"}); status != http.StatusOK {
		t.Error("an allowed model:", status, text)
	}
	_, list := s.Call(http.MethodGet, "/v1/models", nil, e2e.Bearer("sk-bob"))
	if strings.Count(list, `"object":"model"`) != 1 || !strings.Contains(list, `"fast"`) {
		t.Error("the models of bob:", list)
	}
	for model, want := range map[string]int{"fast": http.StatusOK, "gpt-5.5": http.StatusNotFound} {
		response, _ := s.Call(http.MethodGet, "/v1/models/"+model, nil, e2e.Bearer("sk-bob"))
		if response.StatusCode != want {
			t.Errorf("the model %s: %s", model, response.Status)
		}
	}
	socket := s.DialResponses(e2e.Bearer("sk-ann"))
	socket.Respond(e2e.Fields{"model": "gpt-5.5", "input": "say:ok"})

	delete(keys, "sk-ann")
	keys["sk-new"] = "user ann"
	file.Write(keys)
	e2e.WaitFor(t, "the new key", func() bool { status, _ := e2e.StatusOf(s, "sk-new", nil); return status == http.StatusOK })
	if status, text := e2e.StatusOf(s, "sk-ann", nil); status != http.StatusUnauthorized {
		t.Error("the revoked key:", status, text)
	}
	if _, refused := socket.Ask(e2e.Fields{"model": "gpt-5.5", "input": "say:ok"}); refused == nil || *refused.Error.Code != "invalid_api_key" {
		t.Errorf("the WebSocket of the revoked key: %+v", refused)
	}

	socket = s.DialResponses(e2e.Bearer("sk-new"))
	secret := socket.Respond(e2e.Fields{"model": "gpt-5.5", "input": "say:secret", "store": false})
	keys["sk-new"], keys["sk-later"] = "user eve", ""
	file.Write(keys)
	e2e.WaitFor(t, "the key of another user", func() bool { status, _ := e2e.StatusOf(s, "sk-later", nil); return status == http.StatusOK })
	for range 2 {
		_, refused := socket.Ask(e2e.Fields{"model": "gpt-5.5", "input": "say:ok", "previous_response_id": secret.ID})
		if refused == nil || *refused.Error.Code != "invalid_api_key" {
			t.Errorf("the WebSocket of a key that is another user's: %+v", refused)
		}
	}
}

// TestKeyRequests uses up the requests of a key by every route.
func TestKeyRequests(t *testing.T) {
	file := e2e.NewKeyFile(t, map[string]string{"sk-each": "requests 5 24h\nrequests 1000 day"})
	s := e2e.NewSite(t, "api_keys_file "+file.Path)
	for i, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/responses/input_tokens"} {
		body := []string{
			e2e.ChatBody("say:ok", nil), `{"model":"gpt-5","input":"say:ok"}`, `{"model":"gpt-5","input":"say:ok"}`,
		}[i]
		response, text := s.Call(http.MethodPost, path, body, e2e.Bearer("sk-each"))
		if left := response.Header.Get("X-Ratelimit-Remaining-Requests"); response.StatusCode != http.StatusOK || left != strconv.Itoa(4-i) {
			t.Errorf("%s: %s, %s left, %s", path, response.Status, left, text)
		}
	}
	if response, text := s.Post("{", e2e.Bearer("sk-each")); response.StatusCode != http.StatusBadRequest {
		t.Error("a request that is wrong, which does not count:", response.Status, text)
	}
	background, text := s.Call(http.MethodPost, "/v1/responses", e2e.Asks("say:ok", e2e.Fields{"background": true}), e2e.Bearer("sk-each"))
	if background.StatusCode != http.StatusOK {
		t.Error("in the background:", background.Status, text)
	}
	socket := s.DialResponses(e2e.Bearer("sk-each"))
	socket.Respond(e2e.Fields{"model": "gpt-5", "input": "say:ok"})
	if _, refused := socket.Ask(e2e.Fields{"model": "gpt-5", "input": "say:ok"}); refused == nil || *refused.Error.Code != "rate_limit_exceeded" {
		t.Errorf("over a WebSocket: %+v", refused)
	}
	limited, text := s.Post(e2e.ChatBody("say:ok", nil), e2e.Bearer("sk-each"))
	if limited.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, `"code":"rate_limit_exceeded"`) || limited.Header.Get("Retry-After") != "" || limited.Header.Get("X-Should-Retry") != "false" {
		t.Error(limited.Status, limited.Header, text)
	}
	response, text := s.Call(http.MethodGet, "/v1/models", nil, e2e.Bearer("sk-each"))
	if response.StatusCode != http.StatusOK {
		t.Error("the models:", response.Status, text)
	}

	// Neither a reload nor a change of the file frees anything.
	s.Load(s.Caddyfile("reasoning off\napi_keys_file " + file.Path))
	file.Write(map[string]string{"sk-each": "requests 6 24h\nuser x"})
	e2e.WaitFor(t, "the file is read", func() bool { status, _ := e2e.StatusOf(s, "sk-each", nil); return status == http.StatusOK })
	if status, text := e2e.StatusOf(s, "sk-each", nil); status != http.StatusTooManyRequests {
		t.Errorf("after changes: %d %s", status, text)
	}
}

// TestKeyConcurrency checks how many turns of a key run at once.
func TestKeyConcurrency(t *testing.T) {
	file := e2e.NewKeyFile(t, map[string]string{"sk-two": "max_concurrent 2", "sk-other": "max_concurrent 2"})
	s := e2e.NewSite(t, "api_keys_file "+file.Path)
	s.WaitReady()
	ctx, leave := context.WithCancel(e2e.Context(t))
	defer leave()
	for range 2 {
		response, err := s.Chat(ctx, e2e.ChatBody("say:x; hang", e2e.Fields{"stream": true}), e2e.Bearer("sk-two"))
		must.OK(t, err)
		defer response.Body.Close()
	}
	response, text := s.Post(e2e.ChatBody("say:ok", nil), e2e.Bearer("sk-two"))
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "1" || !strings.Contains(text, "rate_limit_exceeded") {
		t.Error("the third:", response.Status, text)
	}
	if status, text := e2e.StatusOf(s, "sk-other", nil); status != http.StatusOK {
		t.Error("another key:", status, text)
	}
	if status, text := e2e.StatusOf(s, "sk-other", e2e.Fields{"n": 3}); status != http.StatusBadRequest || !strings.Contains(text, `"param":"n"`) {
		t.Error("more choices than turns:", status, text)
	}
	leave()
	e2e.WaitFor(t, "the places are free", func() bool { status, _ := e2e.StatusOf(s, "sk-two", nil); return status == http.StatusOK })
}

// neededTokens finds in the refusal of a request how many tokens it needs at least.
var neededTokens = regexp.MustCompile(`needs about ([0-9]+) tokens`)

// TestKeyTokens checks that an answer ends at the token where the limit of its key does,
// streamed and whole, in every API, and that the next request is refused.
func TestKeyTokens(t *testing.T) {
	const rest = 37 // for the output
	text := strings.TrimSpace(strings.Repeat("one two, three 1234; ", 60))
	script := "chunk=7; say:" + text
	file := e2e.NewKeyFile(t, map[string]string{"sk-probe": "tokens 1 1h"})
	s := e2e.NewSite(t, "api_keys_file "+file.Path)
	chat, input := []any{e2e.Fields{"role": "user", "content": script}}, script
	cases := map[string]struct {
		path string
		body e2e.Fields
		want []string
	}{
		"chat":     {"/v1/chat/completions", e2e.Fields{"messages": chat}, []string{`"finish_reason":"length"`}},
		"chunks":   {"/v1/chat/completions", e2e.Fields{"messages": chat, "stream": true}, []string{`"finish_reason":"length"`, ": the answer ends here: a limit of tokens"}},
		"response": {"/v1/responses", e2e.Fields{"input": input}, []string{`"reason":"max_output_tokens"`, `"status":"incomplete"`}},
		"events":   {"/v1/responses", e2e.Fields{"input": input, "stream": true}, []string{`"reason":"max_output_tokens"`, "event: response.incomplete", ": the answer ends here"}},
	}
	keys := make(map[string]string)
	for name, c := range cases {
		c.body["model"] = "gpt-5"
		_, refusal := answerTo(s, "sk-probe", c.path, c.body)
		needed := neededTokens.FindStringSubmatch(refusal)
		if needed == nil {
			t.Fatal(name, refusal)
		}
		n, _ := strconv.Atoi(needed[1]) // with one for the output
		keys["sk-"+name] = fmt.Sprintf("tokens %d 1h", n-1+rest)
	}
	file.Write(keys)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			e2e.WaitFor(t, "the key", func() bool {
				response, _ := s.Call(http.MethodGet, "/v1/models", nil, e2e.Bearer("sk-"+name))
				return response.StatusCode == http.StatusOK
			})
			response, answer := answerTo(s, "sk-"+name, c.path, c.body)
			for _, want := range c.want {
				if !strings.Contains(answer, want) {
					t.Errorf("the answer lacks %s: %s", want, answer)
				}
			}
			if c.body["stream"] == nil && (response.Header.Get("X-Codex-Key-Budget") != "spent" || response.Header.Get("X-Ratelimit-Remaining-Tokens") != "0") {
				t.Errorf("%v", response.Header)
			}
			if got := textOf(t, c.path, answer); !strings.HasPrefix(text, got) || tokens.Count(got) != rest {
				t.Errorf("%d tokens, want %d: %q", tokens.Count(got), rest, got)
			}
			response, refusal := answerTo(s, "sk-"+name, c.path, c.body)
			if response.StatusCode != http.StatusTooManyRequests || !strings.Contains(refusal, "rate_limit_exceeded") || response.Header.Get("X-Should-Retry") != "false" {
				t.Error("the next request:", response.Status, refusal)
			}
		})
	}
}

// answerTo returns the answer to a request with a key.
func answerTo(s *e2e.Site, key, path string, body e2e.Fields) (*http.Response, string) {
	s.T.Helper()
	return s.Call(http.MethodPost, path, body, e2e.Bearer(key))
}

// textOf returns the text of an answer of any API, whole or as events.
func textOf(t *testing.T, path, answer string) string {
	t.Helper()
	read, err := apiclient.Read([]byte(answer), apiclient.At(path), strings.Contains(answer, "data: "), 1)
	if err != nil {
		t.Fatal(err, answer)
	}
	return read.Choices[0].Text
}

// tokensLeft returns what is left of the tokens of a key, by the header of a small request.
func tokensLeft(s *e2e.Site, key string) int {
	s.T.Helper()
	response, text := answerTo(s, key, "/v1/responses/input_tokens", e2e.Fields{"model": "gpt-5", "input": "x"})
	left, err := strconv.Atoi(response.Header.Get("X-Ratelimit-Remaining-Tokens"))
	if err != nil {
		s.T.Fatal(response.Header, text)
	}
	return left
}

// TestKeyTokensUsed checks that the usage that Codex reports counts, that a turn whose
// client leaves is estimated, and that a failed one is not counted.
func TestKeyTokensUsed(t *testing.T) {
	file := e2e.NewKeyFile(t, map[string]string{"sk-used": "tokens 100000 1h\ntokens 1000000 30d"})
	s := e2e.NewSite(t, "api_keys_file "+file.Path)
	ask := func(prompt string, more e2e.Fields) *http.Response {
		response, _ := s.Post(e2e.ChatBody(prompt, more), e2e.Bearer("sk-used"))
		return response
	}
	left := 100_000 - 1500
	for _, more := range []e2e.Fields{nil, {"stream": true}} {
		if response := ask("usage:1000,400,500,200; say:ok", more); response.StatusCode != http.StatusOK {
			t.Fatal(response.Status)
		}
		if got := tokensLeft(s, "sk-used"); got != left {
			t.Errorf("%v: %d tokens are left, want %d", more, got, left)
		}
		left -= 1500
	}
	left += 1500
	if response := ask("usage:100,0,50,0; say:ok", e2e.Fields{"n": 2}); response.Header.Get("X-Ratelimit-Remaining-Tokens") != strconv.Itoa(left-300) {
		t.Errorf("two choices: %v, before %d", response.Header, left)
	}
	left -= 300
	if response := ask("http:500", nil); response.StatusCode == http.StatusOK {
		t.Error("it did not fail")
	}
	if got := tokensLeft(s, "sk-used"); got != left {
		t.Errorf("after a failure %d tokens are left, want %d", got, left)
	}
	ctx, leave := context.WithCancel(e2e.Context(t))
	defer leave()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.PostUntil(ctx, e2e.ChatBody("say:"+strings.Repeat("one two ", 500)+"; hang", e2e.Fields{"stream": true}), e2e.Bearer("sk-used"))
	}()
	s.WaitOpen(1)
	leave()
	e2e.Receive(t, "the client to leave", done)
	// The input has as many tokens as the output, of which some may not have come.
	e2e.WaitFor(t, "the turn is counted", func() bool { got := tokensLeft(s, "sk-used"); return got < left-1000 && got > left-2500 })
}

// TestKeyTokensOverReload reloads the configuration and replaces the file of keys in the
// middle of an answer: it ends at the same token, and the next request is refused.
func TestKeyTokensOverReload(t *testing.T) {
	const rest = 60
	text := strings.TrimSpace(strings.Repeat("one two, three 1234; ", 60))
	body := e2e.Fields{"model": "gpt-5", "stream": true, "messages": []any{e2e.Fields{"role": "user", "content": "chunk=7; delay=20ms; say:" + text}}}
	file := e2e.NewKeyFile(t, map[string]string{"sk-probe": "tokens 1 1h"})
	s := e2e.NewSite(t, "api_keys_file "+file.Path)
	_, refusal := answerTo(s, "sk-probe", "/v1/chat/completions", body)
	needed := neededTokens.FindStringSubmatch(refusal)
	if needed == nil {
		t.Fatal(refusal)
	}
	n, _ := strconv.Atoi(needed[1])
	limit := fmt.Sprintf("tokens %d 1h", n-1+rest)
	file.Write(map[string]string{"sk-k": limit})
	e2e.WaitFor(t, "the key", func() bool {
		response, _ := s.Call(http.MethodGet, "/v1/models", nil, e2e.Bearer("sk-k"))
		return response.StatusCode == http.StatusOK
	})
	response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.EncodeJSON(body)), e2e.Bearer("sk-k"))
	begin := make([]byte, 600)
	if _, err := io.ReadFull(response.Body, begin); err != nil {
		t.Fatal(err)
	}
	s.Load(s.Caddyfile("reasoning off\napi_keys_file " + file.Path))
	file.Write(map[string]string{"sk-k": limit + "\nuser somebody", "sk-other": ""})
	answer := string(begin) + s.Read(response)
	if got := textOf(t, "/v1/chat/completions", answer); tokens.Count(got) != rest || !strings.Contains(answer, `"finish_reason":"length"`) {
		t.Errorf("%d tokens, want %d: %s", tokens.Count(got), rest, answer)
	}
	if status, text := e2e.StatusOf(s, "sk-k", nil); status != http.StatusTooManyRequests {
		t.Error("the next request:", status, text)
	}
}

// TestKeysInOutages checks what keys with limits and others get while Redis is killed, stopped, cut
// off, full, emptied and slow, that it is told, and that everything comes back by itself.
func TestKeysInOutages(t *testing.T) {
	server := redisserver.Start(t)
	proxy := server.NewProxy(t)
	file := e2e.NewKeyFile(t, map[string]string{"sk-limited": "requests 1000 24h\ntokens 1000000 24h", "sk-free": ""})
	options := func(more string) string {
		return "api_keys_file " + file.Path + "\nstore redis redis://" + proxy.Addr + more
	}
	s := e2e.NewSite(t, options("?read_timeout=300ms&dial_timeout=300ms"))
	// ask sends a request and returns its status, the code of its error, and how long it took.
	ask := func(key, path, body string) (status int, code string, took time.Duration) {
		t.Helper()
		begin := time.Now()
		response, text := s.Call(http.MethodPost, path, body, e2e.Bearer(key))
		if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", text)
		}
		code = gjson.Get(text, "error.code").String()
		if path == "/v1/messages" {
			code = gjson.Get(text, "error.message").String()
		}
		return response.StatusCode, code, time.Since(begin)
	}
	chat := func(key string) (int, string, time.Duration) {
		return ask(key, "/v1/chat/completions", e2e.ChatBody("say:ok", nil))
	}
	// fastest is chat, several times if one takes too long: a busy machine may stop for a moment.
	fastest := func(key string, within time.Duration) (status int, code string, took time.Duration) {
		for range 5 {
			if status, code, took = chat(key); status != http.StatusOK || took <= within {
				break
			}
		}
		return status, code, took
	}
	requests := func() int64 { return s.Used("sk-limited", "requests") }
	works := func() bool {
		status, _, _ := chat("sk-limited")
		return status == http.StatusOK
	}
	if !works() || requests() != 1 {
		t.Fatal("it does not work")
	}
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"killed", server.Kill, server.Restart},
		{"stopped", server.Pause, server.Resume},
		{"cut off", proxy.Cut, proxy.Mend},
	} {
		before := requests()
		outage.begin()
		status, code, took := chat("sk-limited")
		if status != http.StatusServiceUnavailable || code != "key_limits_unavailable" || took > 8*time.Second {
			t.Errorf("%s: %d %s after %s", outage.name, status, code, took)
		}
		status, message, _ := ask("sk-limited", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"say:no"}]}`)
		if status != http.StatusServiceUnavailable || !strings.Contains(message, "cannot be counted at the moment") {
			t.Errorf("%s: %d %s", outage.name, status, message)
		}
		if status, code, took := fastest("sk-free", 5*time.Second); status != http.StatusOK || took > 5*time.Second {
			t.Errorf("%s: a key without limits gets %d %s after %s", outage.name, status, code, took)
		}
		e2e.WaitFor(t, "/readyz to say it", func() bool {
			status, text := s.Get("/readyz")
			return status == http.StatusOK && gjson.Get(text, "store").String() == "unavailable"
		})
		if _, _, took := chat("sk-limited"); took > time.Second {
			t.Errorf("%s: an outage that is known takes %s", outage.name, took)
		}
		outage.end()
		e2e.WaitFor(t, "the end of the outage", works)
		e2e.WaitFor(t, "what was counted", func() bool { return requests() > before })
		if got := requests(); got > before+8 { // those of works, and what was sent and not answered
			t.Errorf("%s: %d requests were counted, before %d", outage.name, got, before)
		}
	}

	for i := 0; !strings.HasPrefix(server.Do(fmt.Sprintf("SETRANGE fill %d y", i<<20)), "-OOM"); i++ {
		if i == 0 {
			server.Do("CONFIG SET maxmemory-policy noeviction")
			server.Do("CONFIG SET maxmemory 16mb")
		}
	}
	before := requests()
	if status, code, _ := chat("sk-limited"); status != http.StatusOK || requests() != before+1 {
		t.Errorf("full: %d %s, %d requests", status, code, requests()-before)
	}
	if status, code, _ := chat("sk-free"); status != http.StatusOK {
		t.Errorf("full: %d %s", status, code)
	}
	server.Do("FLUSHALL")
	if status, code, _ := chat("sk-limited"); status != http.StatusOK || requests() != 1 {
		t.Errorf("emptied: %d %s, %d requests", status, code, requests())
	}

	s.Load(s.Caddyfile(options(""))) // with the default timeouts
	proxy.Slow(2 * time.Second)
	if status, code, took := fastest("sk-free", 2*time.Second); status != http.StatusOK || took > 2*time.Second {
		t.Errorf("slow: %d %s after %s", status, code, took)
	}
	for range 2 { // the first one connects
		status, code, took := chat("sk-limited")
		t.Logf("slow: %d %s after %s", status, code, took)
		if status != http.StatusOK && code != "key_limits_unavailable" || took > 15*time.Second {
			t.Errorf("slow: %d %s after %s", status, code, took)
		}
	}
	proxy.Mend()

	s.Load(s.Caddyfile(options(" {\nfail open\n}")))
	e2e.WaitFor(t, "a connection", works)
	before = requests()
	server.Kill()
	if status, code, _ := chat("sk-limited"); status != http.StatusOK {
		t.Errorf("open: %d %s", status, code)
	}
	server.Restart()
	e2e.WaitFor(t, "the end of the outage", func() bool { return requests() == before })
}
