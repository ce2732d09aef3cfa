package appserver

import (
	"reflect"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestProviderSettings checks which settings of the model's provider threads get: all of
// OpenAI's under another name, since Codex does not let its own be changed, of a provider of
// the operator's those that the operator has not set, and none of others.
func TestProviderSettings(t *testing.T) {
	const openAISettings = `"name":"OpenAI","requires_openai_auth":true,"http_headers":{"version":"0.169.0"},` +
		`"env_http_headers":{"OpenAI-Organization":"OPENAI_ORGANIZATION","OpenAI-Project":"OPENAI_PROJECT"},` +
		`"request_max_retries":0,"websocket_connect_timeout_ms":3000,`
	plan := func(more string) string {
		return `{"model_provider":"openai-of-caddy-codex","model_providers":{"openai-of-caddy-codex":{` + openAISettings + more + `}}}`
	}
	for name, c := range map[string]struct {
		config, version string
		sockets, http   string // what threads get; empty: the same as sockets
		retries         int
	}{
		"nothing": {"", "0.169.0",
			plan(`"supports_websockets":true,"stream_max_retries":0`), plan(`"supports_websockets":false,"stream_max_retries":0`), 1},
		"another address": {"openai_base_url = \"https://eu.example/v1\"", "0.169.0",
			plan(`"base_url":"https://eu.example/v1","supports_websockets":true,"stream_max_retries":0`),
			plan(`"base_url":"https://eu.example/v1","supports_websockets":false,"stream_max_retries":0`), 1},
		"a provider of the operator's": {"model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"https://a\"", "0.170.0",
			`{"model_provider":"mine","model_providers":{"mine":{"request_max_retries":0,"stream_max_retries":0,"websocket_connect_timeout_ms":3000}}}`, "", 1},
		"one with WebSockets": {"model_provider = \"mine\"\n[model_providers.mine]\nsupports_websockets = true", "0.169.0",
			`{"model_provider":"mine","model_providers":{"mine":{"request_max_retries":0,"stream_max_retries":0,"websocket_connect_timeout_ms":3000,"supports_websockets":true}}}`,
			`{"model_provider":"mine","model_providers":{"mine":{"request_max_retries":0,"stream_max_retries":0,"websocket_connect_timeout_ms":3000,"supports_websockets":false}}}`, 1},
		"one with settings": {"model_provider = \"mine\"\n[model_providers.mine]\nrequest_max_retries = 7\nstream_max_retries = 8\nwebsocket_connect_timeout_ms = 9", "0.169.0",
			`{"model_provider":"mine","model_providers":{"mine":{}}}`, "", 0},
		"another one of Codex's": {"model_provider = \"amazon-bedrock\"", "0.169.0", `{}`, "", 0},
		"an unknown release":     {"", codexrpc.UnknownVersion, `{}`, "", 0},
	} {
		config, err := parseOperatorConfig([]byte(c.config))
		must.OK(t, err)
		got := newProviderSettings(&config.providerConfig, c.version)
		if c.http == "" {
			c.http = c.sockets
		}
		if got.retries != c.retries {
			t.Errorf("%s: %d retries", name, got.retries)
		}
		same := func(members codexrpc.Constant, want string) bool {
			return reflect.DeepEqual(parsed(t, []byte("{"+string(members)+"}")), parsed(t, []byte(want)))
		}
		if !same(got.socketMembers, c.sockets) || !same(got.httpMembers, c.http) {
			t.Errorf("%s:\n%s\n%s\nwant:\n%s\n%s", name, got.socketMembers, got.httpMembers, c.sockets, c.http)
		}
	}
}

// TestSocketPause checks that WebSockets which fail are left alone for longer and longer, and
// that those which have worked for a while are not.
func TestSocketPause(t *testing.T) {
	var s socketPause
	now := time.Now()
	if s.isActive(now) {
		t.Error("there is a pause before any failure")
	}
	for i, want := range []time.Duration{time.Minute, 4 * time.Minute, 16 * time.Minute, time.Hour, time.Hour} {
		pause, began := s.fail(now, now)
		if pause != want || !began || !s.isActive(now) || !s.isActive(now.Add(want-1)) || s.isActive(now.Add(want)) {
			t.Errorf("failure %d: %s %t", i, pause, began)
		}
		if _, again := s.fail(now.Add(want/2), now.Add(want/2)); again {
			t.Error("a pause began within another one")
		}
		now = now.Add(want + time.Second)
	}
	now = now.Add(2 * time.Hour)
	if pause, began := s.fail(now, now); pause != time.Minute || !began {
		t.Errorf("after two hours that were good: %s", pause)
	}
}

// TestSocketPauseWhileOthersWork checks that WebSockets which break at once do not end the use of
// WebSockets if others have worked, but those do that break afterwards while none works.
func TestSocketPauseWhileOthersWork(t *testing.T) {
	s := socketPause{worked: true}
	now := time.Now()
	for i := range 3 { // all turns began before the first failure
		if _, began := s.fail(now.Add(-time.Second), now.Add(time.Duration(i)*time.Second)); began {
			t.Errorf("a pause began with failure %d of those at once", i)
		}
	}
	s.worked = true
	now = now.Add(time.Minute)
	if _, began := s.fail(now, now); began {
		t.Error("a pause began although another WebSocket had worked")
	}
	now = now.Add(time.Second)
	if pause, began := s.fail(now, now); pause != time.Minute || !began {
		t.Errorf("no WebSocket has worked since: %s %t", pause, began)
	}
}
