package fakeserver

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// LoginEnv names the directory of the login of a fake app-server.
const LoginEnv = "FAKE_LOGIN"

// Login is the directory of a fake app-server's login: its CODEX_HOME. The file "is" has what the
// provider says: "fine", "spent <seconds to the reset>" or "refused"; or that the fake is "dead",
// or the login "missing". "asked" has a byte for each turn. An empty name is a login that is fine.
type Login string

// NewLogin returns a login of a kind.
func NewLogin(t testing.TB, is string) Login {
	t.Helper()
	l := Login(t.TempDir())
	l.Set(t, is)
	return l
}

// Set changes the kind of the login.
func (l Login) Set(t testing.TB, is string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(string(l), "is"), []byte(is), 0o600))
}

// SignIn writes another login file.
func (l Login) SignIn(t testing.TB) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(string(l), "auth.json"), []byte("{}"), 0o600))
}

// Asked counts the turns.
func (l Login) Asked() int {
	text, _ := os.ReadFile(filepath.Join(string(l), "asked")) // none: no turn
	return len(text)
}

// is returns the kind of the login, without its number.
func (l Login) is() string {
	kind, _ := l.read()
	return kind
}

func (l Login) read() (kind string, seconds int) {
	if l == "" {
		return "fine", 0
	}
	text, err := os.ReadFile(filepath.Join(string(l), "is"))
	if err != nil {
		return "dead", 0
	}
	for i, c := range text {
		if c == ' ' {
			seconds, _ = strconv.Atoi(string(text[i+1:]))
			return string(text[:i]), seconds
		}
	}
	return string(text), 0
}

// limits is the answer about the limits of a spent plan; nil: the plan is not spent.
func (l Login) limits() any {
	if kind, seconds := l.read(); kind == "spent" {
		return spentLimits(seconds)
	}
	return nil
}

func spentLimits(seconds int) map[string]any {
	return map[string]any{"rateLimits": map[string]any{
		"limitId": "codex", "primary": map[string]any{"usedPercent": 100, "windowDurationMins": 300, "resetsAt": time.Now().Unix() + int64(seconds)},
	}}
}

// turn counts a turn and returns its events.
func (l Login) turn(thread string) []any {
	event := func(method string, params map[string]any) any {
		params["threadId"], params["turnId"] = thread, "turn"
		return map[string]any{"method": method, "params": params}
	}
	if l != "" {
		f, err := os.OpenFile(filepath.Join(string(l), "asked"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString("x")
		}
		if err != nil || f.Close() != nil {
			return nil // the turn does not end, and the test fails
		}
	}
	failed := func(message string, info any) any {
		return event("turn/completed", map[string]any{"turn": map[string]any{
			"id": "turn", "status": "failed", "error": map[string]any{"message": message, "codexErrorInfo": info},
		}})
	}
	started := event("turn/started", map[string]any{"turn": map[string]any{"id": "turn"}})
	switch kind, seconds := l.read(); kind {
	case "spent":
		limits := map[string]any{"method": "account/rateLimits/updated", "params": spentLimits(seconds)}
		return []any{started, limits, failed("You have hit your usage limit at http://provider.example/usage.", "usageLimitExceeded")}
	case "refused":
		return []any{started, failed("unexpected status 401: url: http://provider.example/v1", map[string]any{"httpConnectionFailed": map[string]any{"httpStatusCode": 401}})}
	}
	return []any{
		started,
		event("item/agentMessage/delta", map[string]any{"itemId": "m", "delta": "it works"}),
		event("item/completed", map[string]any{"item": map[string]any{"type": "agentMessage", "id": "m", "text": "it works"}}),
		event("rawResponse/completed", map[string]any{"responseId": "r", "usage": map[string]any{"totalTokens": 2, "inputTokens": 1, "outputTokens": 1}}),
		event("turn/completed", map[string]any{"turn": map[string]any{"id": "turn", "status": "completed"}}),
	}
}
