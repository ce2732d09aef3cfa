package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

var (
	// holdsRow is a row of the table in SECURITY.md, with one route or several.
	holdsRow = regexp.MustCompile("(?m)^\\| ((?:(?:, )?`(?:GET|POST|DELETE) /[^`]*`)+) \\| ([^|]*) \\| ([^|]*) \\|$")
	// holdsRoute is a route in such a row.
	holdsRoute = regexp.MustCompile("`([^`]*)`")
	// holdsElse is the sentence below the table about the routes that it lacks.
	holdsElse = regexp.MustCompile(`Every other route with a key holds (\w+) and (\w+), and counts as (\w+)\.`)
)

// TestHolds compares what each route holds with its row in SECURITY.md, or with the sentence about all
// other routes. A row without a route fails.
func TestHolds(t *testing.T) {
	security, err := os.ReadFile("../SECURITY.md")
	must.OK(t, err)
	rows := make(map[string][2]string)
	for _, row := range holdsRow.FindAllStringSubmatch(string(security), -1) {
		for _, name := range holdsRoute.FindAllStringSubmatch(row[1], -1) {
			rows[name[1]] = [2]string{row[2], row[3]}
		}
	}
	others := holdsElse.FindSubmatch(security)
	if others == nil {
		t.Fatal("SECURITY.md does not say what every other route holds")
	}
	h := allOn(t, fakeHandler(t, t.Name()))
	h.Page = true
	h.APIKeysFile = writeKeys(t, map[string]string{"ann": "user ann\nrequests 1000 day"})
	h = running(t, h)
	all := map[string]route{"/v1/models/*": modelRoute, "/codex/status": pageRoutes["/codex/status"]}
	for pattern, rt := range routes {
		if !rt.noAPIKey {
			all[pattern] = rt
		}
	}
	for pattern, rt := range all {
		for _, method := range rt.methods {
			if method == http.MethodHead { // like GET
				continue
			}
			name := method + " " + pattern
			row, found := rows[name]
			if !found {
				row = [2]string{fmt.Sprintf("%s, %s", others[1], others[2]), string(others[3])}
			}
			holds, counts := observe(t, h, method, pattern)
			if want := fmt.Sprint(strings.Join(holds, ", "), " | ", counts); want != row[0]+" | "+row[1] {
				t.Errorf("%s: the table says %q, but it holds %q", name, row[0]+" | "+row[1], want)
			}
			delete(rows, name)
		}
	}
	if len(rows) > 0 {
		t.Errorf("rows without a route: %v", rows)
	}
}

// holdsObserver observes what a gateway holds while it reads a body and writes an answer.
type holdsObserver struct {
	*httptest.ResponseRecorder
	body *strings.Reader
	of   *gateway.Gateway
	mu   sync.Mutex
	seen map[string]bool
}

func (o *holdsObserver) look() { o.see(o.of.Held()) }

func (o *holdsObserver) see(held gateway.Held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, n := range map[string]int64{"place": held.Places, "body": held.Bodies, "turn": int64(held.Turns), "Codex": int64(held.Codex), "answer": held.Answers} {
		if n > 0 {
			o.seen[name] = true
		}
	}
}

func (o *holdsObserver) Read(p []byte) (int, error) {
	o.look()
	return o.body.Read(p[:min(len(p), 100<<10)])
}

func (o *holdsObserver) Write(p []byte) (int, error) {
	o.look()
	return o.ResponseRecorder.Write(p)
}

func observe(t *testing.T, h *Handler, method, pattern string) (holds []string, counts string) {
	t.Helper()
	ids := storedFor(t, h)
	if strings.HasSuffix(pattern, "/cancel") {
		begin(ids["/v1/respo"], accountOfAnn(h))
	}
	path := pattern
	for _, id := range []string{ids[pattern[:min(len(pattern), 9)]], "msg_1"} {
		path = strings.Replace(path, "*", id, 1)
	}
	r, _ := prepared(method, path)
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	r = r.WithContext(ctx)
	r.Header.Set("Authorization", "Bearer ann")
	r.Header.Set("Content-Type", "application/json")
	o := &holdsObserver{httptest.NewRecorder(), strings.NewReader(bodyFor(pattern)), h.gateway, sync.Mutex{}, make(map[string]bool)}
	if method == http.MethodPost {
		r.Body, r.ContentLength = io.NopCloser(o), int64(o.body.Len())
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() {
			if aborted := recover(); aborted != nil && aborted != http.ErrAbortHandler { // a stream has begun before its client left
				panic(aborted)
			}
		}()
		_ = h.ServeHTTP(o, r, nil)
	}()
	if o.waitForTurn(over) {
		o.look()
		if !strings.HasSuffix(pattern, "_tokens") {
			for h.gateway.Held().Codex == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			o.look()
			cancel()
		}
	}
	<-over
	must.Happen(t, method+" "+pattern+" leaves nothing", func() bool { return h.gateway.Held() == gateway.Held{} }) // Codex ends the turn after its client
	if o.seen["Codex"] {
		o.seen["answer"] = true // the fake's turns never have one
	}
	for _, name := range []string{"place", "body", "turn", "Codex", "answer"} {
		if o.seen[name] {
			holds = append(holds, name)
		}
	}
	counts = "nothing"
	if o.Header().Get("X-Ratelimit-Limit-Requests")+o.Header().Get("Anthropic-Ratelimit-Requests-Limit") != "" {
		counts = "requests"
		if o.seen["Codex"] {
			counts = "requests, tokens"
		}
	}
	return holds, counts
}

// waitForTurn waits until a request is over, or waits for the model.
func (o *holdsObserver) waitForTurn(over <-chan struct{}) bool {
	for {
		select {
		case <-over:
			return false
		case <-time.After(time.Millisecond):
			if held := o.of.Held(); held.Turns > 0 {
				o.see(held)
				return true
			}
		}
	}
}

// bodies has a body for each route, by the beginning of its path. The first that fits counts.
var bodies = []struct{ path, body string }{
	{"/v1/responses/input_tokens", `{"model":"plain","input":"` + strings.Repeat("word ", 60_000) + `"}`}, // counting takes a moment
	{"/v1/responses", `{"model":"plain","input":"x"}`},
	{"/v1/conversations/*/items", `{"items":[{"type":"message","role":"user","content":"x"}]}`},
	{"/v1/conversations", `{"metadata":{}}`},
	{"/v1/images/generations", `{"prompt":"x"}`},
	{"/v1/images/edits", `{"prompt":"x","images":[{"image_url":"data:image/png;base64,` +
		`iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNiAAAABgADNjd8qAAAAABJRU5ErkJggg=="}]}`},
	{"/api/generate", `{"model":"plain","prompt":"x"}`},
	{"/", `{"model":"plain","max_tokens":10,"messages":[{"role":"user","content":"x"}]}`},
}

// bodyFor returns a body for a route that is large enough to count.
func bodyFor(pattern string) string {
	for _, b := range bodies {
		if strings.HasPrefix(pattern, b.path) {
			return b.body + strings.Repeat(" ", 300<<10)
		}
	}
	return ""
}

// accountOfAnn returns the account of the user of the key.
func accountOfAnn(h *Handler) string {
	r, repl := prepared(http.MethodGet, "/")
	repl.Set(userVariable, "ann")
	return h.accountOf(r)
}

// begin lets a response run until it is cancelled.
func begin(id, user string) {
	response := json.RawMessage(`{"status":"cancelled"}`)
	ctx, end := runningResponses.Begin(context.Background(), objects.Response{
		ID: id, Stored: true, Entry: &objects.Entry{User: user}, InProgress: func() json.RawMessage { return response },
	})
	go func() {
		<-ctx.Done()
		runningResponses.Ended(id, response)
		end()
	}()
}

// storedFor stores a conversation and a response of the user, and returns the ids that a route
// needs, by the beginnings of the routes.
func storedFor(t *testing.T, h *Handler) map[string]string {
	t.Helper()
	engine, _, release := storemodules.Open(h.storeModule, slog.New(slog.DiscardHandler))
	defer release()
	suffix := responseid.NewSuffix(time.Now())
	ids := map[string]string{"/v1/respo": responseid.Prefix + suffix, "/v1/conve": responseid.ConversationPrefix + suffix, "/v1/model": "plain", "/api/blob": "sha256:0"}
	item := json.RawMessage(`{"id":"msg_1","type":"message","role":"user","content":"x"}`)
	for _, id := range slices.Sorted(func(yield func(string) bool) {
		_ = yield(ids["/v1/respo"]) && yield(ids["/v1/conve"])
	}) {
		entry := &objects.Entry{User: accountOfAnn(h), Response: bytes.Clone(item), Input: []json.RawMessage{item}}
		must.OK(t, engine.Store.Put(t.Context(), id, entry))
	}
	return ids
}
