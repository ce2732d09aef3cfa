package gateway

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// several is an upstream of processes with catalogues.
type several []*appserver.Process

func (s several) Lease() (conversation.Lease, error) { return severalLease{processes: s}, nil }

// severalLease implements [conversation.Lease] as far as windows need it.
type severalLease struct {
	conversation.Lease
	processes several
}

func (l severalLease) Members() (all []conversation.Member) {
	for _, p := range l.processes {
		all = append(all, conversation.Member{Process: p})
	}
	return all
}

func (severalLease) Release() {}

// startKnowing starts a process whose catalogue has models, with a plan or without.
func startKnowing(t *testing.T, name, models string) *appserver.Process {
	t.Helper()
	command, env := fakeserver.Command(t, name)
	env[fakeserver.CatalogueEnv] = `{"models":[` + models + `]}`
	p := appserver.New(appserver.Config{Command: command, Env: env}, nil)
	p.Start()
	t.Cleanup(p.Stop)
	_, err := p.Instance(t.Context())
	must.OK(t, err)
	return p
}

// windowOf is a model in a catalogue. A fake's default model is plain.
func windowOf(slug string, window int) string {
	return fmt.Sprintf(`{"slug":%q,"context_window":%d,"max_context_window":872000}`, slug, window)
}

// TestWindow checks that the window of a model is the smallest that an app-server has for it, and that a prompt is
// too long only if it is so for all of them.
func TestWindow(t *testing.T) {
	small := startKnowing(t, fakeserver.Planned, windowOf("plain", 100)+","+windowOf("a", 300)+`,{"slug":"b"}`)
	large := startKnowing(t, fakeserver.Planned, windowOf("plain", 150)+","+windowOf("a", 400))
	byKey := startKnowing(t, "by key", windowOf("a", 350))
	stopped := appserver.New(appserver.Config{}, nil)
	for _, c := range []struct {
		processes    []*appserver.Process
		model        string
		window, most int
	}{
		{[]*appserver.Process{small}, "", 100, 100},
		{[]*appserver.Process{small}, "a", 300, 300},
		{[]*appserver.Process{small}, "a-2027-01-01", 300, 300},
		{[]*appserver.Process{small}, "b", 0, math.MaxInt},
		{[]*appserver.Process{small}, "x", 0, math.MaxInt},
		{[]*appserver.Process{small, large}, "", 100, 150},
		{[]*appserver.Process{small, large}, "a", 300, 400},
		{[]*appserver.Process{large, small, stopped}, "a", 300, 400},
		{[]*appserver.Process{byKey}, "a", 350, math.MaxInt},
		{[]*appserver.Process{byKey, large}, "a", 350, math.MaxInt},
		{[]*appserver.Process{byKey, large}, "plain", 150, math.MaxInt},
		{[]*appserver.Process{stopped}, "a", 0, math.MaxInt},
		{nil, "a", 0, math.MaxInt},
	} {
		g := newGateway(several(c.processes), Options{MaxConcurrent: 1})
		if window, most := g.window(t.Context(), c.model); window != c.window || most != c.most {
			t.Errorf("%q with %d processes: %d, %d; want %d, %d", c.model, len(c.processes), window, most, c.window, c.most)
		}
	}
	if window, most := newGateway(exitingUpstream{}, Options{MaxConcurrent: 1}).window(t.Context(), "a"); window != 0 || most != math.MaxInt {
		t.Errorf("at the exit: %d, %d", window, most)
	}
}

// TestCheckWindow checks which conversations are refused, for the model that the request asks for, and how.
func TestCheckWindow(t *testing.T) {
	upstream := several{startKnowing(t, fakeserver.Planned, windowOf("plain", 1000)+","+windowOf("large", 1_000_000))}
	g := newGateway(upstream, Options{MaxConcurrent: 1, Aliases: []prompt.Alias{{ID: "claude-large", Model: "large"}, {ID: "mine", Model: "plain"}}})
	decoders := map[string]func(string) (api.Request, *api.API, *apierror.Error){
		"chat": func(body string) (api.Request, *api.API, *apierror.Error) {
			r, apiErr := chat.Decode([]byte(body))
			return r, &chat.API, apiErr
		},
		"messages": func(body string) (api.Request, *api.API, *apierror.Error) {
			r, apiErr := messages.Decode([]byte(body))
			return r, &messages.API, apiErr
		},
		"responses": func(body string) (api.Request, *api.API, *apierror.Error) {
			r, apiErr := responses.Decode([]byte(body))
			if apiErr == nil {
				apiErr = r.Resolve(nil, nil)
			}
			return r, &responses.API, apiErr
		},
	}
	check := func(name, body string) *apierror.Error {
		decoded, of, apiErr := decoders[name](body)
		if apiErr != nil {
			t.Fatal(name, apiErr)
		}
		ex := g.newExchange(httptest.NewRecorder(), posting(chatPath, ""))
		defer ex.close()
		req := &request{api: of, body: g.bodies.Claim("a")}
		if apiErr := g.countTurns(ex, req, decoded.Asked()); apiErr != nil {
			t.Fatal(apiErr)
		}
		return g.checkWindow(ex, req, decoded.Asked())
	}
	asking := func(model, text string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"` + text + `"}]}`
	}
	long := strings.Repeat("word ", 3000) // so many tokens
	dense := strings.Repeat("1,", 2500)   // two tokens in two bytes
	for name, c := range map[string]struct {
		api, body string
		tokens    int // about; 0: it is not refused
	}{
		"short":                        {"chat", asking("plain", "Hi"), 0},
		"as long as fits for sure":     {"chat", asking("plain", dense[:900]), 0},
		"nearly as long":               {"chat", asking("plain", strings.Repeat("word ", 950)), 0},
		"too long":                     {"chat", asking("plain", long), 3000},
		"too long, an alias":           {"chat", asking("mine", long), 3000},
		"too long, the default":        {"chat", asking("default", long), 3000},
		"a model with a larger window": {"chat", asking("large", long), 0},
		"a model that is not known":    {"chat", asking("other", long), 0},
		"the estimate is wrong":        {"chat", asking("plain", dense[:600]+strings.Repeat(" ", 30_000)), 0},
		"Claude":                       {"messages", asking("claude-x", long), 3000},
		"Claude, an alias":             {"messages", asking("claude-large", long), 0},
		"encrypted reasoning":          {"responses", `{"model":"plain","input":[{"type":"reasoning","summary":[],"encrypted_content":"` + strings.Repeat("gAAAAABpX3", 400) + `"},{"role":"user","content":"Hi"}]}`, 0},
		"much encrypted reasoning":     {"responses", `{"model":"plain","input":[{"type":"reasoning","summary":[],"encrypted_content":"` + strings.Repeat("gAAAAABpX3", 1000) + `"},{"role":"user","content":"` + strings.Repeat("word ", 900) + `"}]}`, 2910},
		"the client wants a summary":   {"responses", `{"model":"plain","input":[{"role":"user","content":"` + long + `"},{"type":"compaction_trigger"}]}`, 0},
		"tools":                        {"chat", `{"model":"plain","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","description":"` + long + `"}}]}`, 3000},
		"a picture":                    {"chat", `{"model":"plain","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64.StdEncoding.EncodeToString(largePNG(8)) + strings.Repeat("AAAA", 5000) + `"}}]}]}`, 0},
	} {
		apiErr := check(c.api, c.body)
		if c.tokens == 0 {
			if apiErr != nil {
				t.Errorf("%s: %v", name, apiErr)
			}
			continue
		}
		var tokens, window int
		if apiErr == nil || apiErr.Code != apierror.CodeContextLength || apiErr.Status != 400 || apiErr.Param != map[bool]string{true: "input", false: "messages"}[c.api == "responses"] {
			t.Errorf("%s: %+v", name, apiErr)
		} else if _, err := fmt.Sscanf(apiErr.Message, "%d tokens > %d maximum. This model's maximum context length is 1000 tokens.", &tokens, &window); err != nil || window != 1000 || tokens < c.tokens || tokens > c.tokens+50 {
			t.Errorf("%s: %v, want some %d tokens", name, apiErr, c.tokens)
		}
	}
	if held := g.Held(); held != (Held{}) {
		t.Errorf("%+v is left", held)
	}
}
