package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

type failingEngine struct {
	store.Engine
	err error
}

func (f failingEngine) Put(context.Context, string, string, *store.Put) error { return f.err }
func (f failingEngine) Read(context.Context, string, string, store.Query) ([]store.Page, error) {
	return nil, f.err
}
func (f failingEngine) Append(context.Context, string, string, *store.Append) (bool, error) {
	return false, f.err
}
func (f failingEngine) Delete(context.Context, string, string, int64) error { return f.err }

func failingStore(err error) *objects.Store {
	return objects.NewStore(failingEngine{store.NewMemory(1<<20, time.Hour), err}, discard())
}

func memoryStore(maxBytes int64, maxAge time.Duration) *objects.Store {
	return objects.NewStore(store.NewMemory(maxBytes, maxAge), discard())
}

// storeGateway is a gateway over a store, and what it logs.
func storeGateway(kept *objects.Store) (*Gateway, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return newGateway(nil, Options{
		MaxBodyMemory: 4 << 20,
		Responses:     kept,
		User:          func(*http.Request) string { return "ann" },
		Logger:        slog.New(slog.NewTextHandler(log, nil)),
	}), log
}

// TestStoreFails: a store that does not work is a 503 to those who need it. What
// is wrong with it is for the log alone.
func TestStoreFails(t *testing.T) {
	id := responseid.Prefix + strings.Repeat("0", 26)
	g, log := storeGateway(failingStore(fmt.Errorf("%w: open /var/lib/secret: denied", store.ErrUnavailable)))
	check := func(what string, status int, body string) {
		t.Helper()
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "response_store_unavailable") || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s", what, status, body)
		}
		if !strings.Contains(log.String(), "/var/lib/secret") {
			t.Errorf("%s: logged is %s", what, log)
		}
		log.Reset()
	}
	for _, what := range []string{"GET ", "DELETE ", "GET /input_items", "POST /cancel"} {
		method, path, _ := strings.Cut(what, " ")
		w := answerTo(g, httptest.NewRequest(method, responsesPath+"/"+id+path, nil))
		check(what, w.Code, w.Body.String())
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	for what, body := range map[string]string{
		"follow":    `{"model":"m","input":"q","previous_response_id":"` + id + `"}`,
		"reference": `{"model":"m","input":[{"type":"item_reference","id":"msg_` + strings.Repeat("0", 26) + `_0"}]}`,
	} {
		kept, x := keepResponse(t, g, body)
		apiErr := kept.resolve(x, g.bodies.Claim("a"))
		if apiErr == nil {
			t.Fatal(what, "is resolved")
		}
		check(what, apiErr.Status, string(apiErr.Body()))
	}
}

// TestNotCached checks that no cache may keep a stored response, nor that there is none.
func TestNotCached(t *testing.T) {
	store := memoryStore(1<<20, time.Hour)
	g, _ := storeGateway(store)
	id := responseid.Prefix + responseid.NewSuffix(time.Now())
	for _, status := range []int{http.StatusNotFound, http.StatusOK} {
		w := answerTo(g, httptest.NewRequest(http.MethodGet, responsesPath+"/"+id, nil))
		if w.Code != status || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		must.OK(t, store.Put(t.Context(), id, &objects.Entry{User: "ann", Response: json.RawMessage(`{}`)}))
	}
}

// keepResponse decodes the body of a request, and returns what the server keeps of its response, and
// its exchange.
func keepResponse(t *testing.T, g *Gateway, body string) (*keptResponse, *exchange) {
	t.Helper()
	decoded, apiErr := Find("/v1/responses").Turn(g, nil, []byte(body))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	ex := g.newExchange(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/responses", nil))
	kept := g.newKept(ex, decoded)
	kept.answer(decoded, api.Start{}, new(turn.Options))
	return kept, ex
}

// TestNotKept: a response that cannot be kept is its client's nevertheless.
func TestNotKept(t *testing.T) {
	for _, err := range []error{store.ErrTooLarge, store.ErrUnavailable} {
		g, log := storeGateway(failingStore(err))
		form, _ := keepResponse(t, g, `{"model":"m","input":"q"}`)
		form.meta.Keep(api.Record{Response: json.RawMessage("{}")})
		if !strings.Contains(log.String(), err.Error()) || !strings.Contains(log.String(), form.meta.ID) {
			t.Errorf("%v: logged is %s", err, log)
		}
	}
}

// TestSaysNotStored: a response that cannot be stored says so in its body and its last event,
// whatever its request quotes, and so does the record of its turn. What a store has stored does not.
func TestSaysNotStored(t *testing.T) {
	for i, kept := range []*objects.Store{failingStore(store.ErrTooLarge), failingStore(store.ErrUnavailable), memoryStore(1<<20, time.Hour)} {
		fails := i < 2
		observer := recorded{turns: make(chan usage.Record, 2)}
		url, _ := backgroundServer(t, Options{Responses: kept, Observer: observer}, fakecodex.Faults{})
		for _, stream := range []bool{false, true} {
			body := fmt.Sprintf(`{"model":"m","input":"q","user":"\"store\":true,","metadata":{"\"store\":true,":"x"},"tools":[{"type":"function","name":"f","parameters":{"store":true,"type":"object"}}],"stream":%t}`, stream)
			response, err := http.Post(url, "application/json", strings.NewReader(body))
			must.OK(t, err)
			answer, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			must.OK(t, err)
			last := gjson.ParseBytes(answer)
			if stream {
				events := strings.Split(strings.TrimSpace(string(answer)), "\n\n")
				_, data, _ := strings.Cut(events[len(events)-1], "data: ")
				last = gjson.Get(data, "response")
			}
			if last.Get("store").Bool() == fails || last.Get("status").String() != "completed" {
				t.Errorf("%d, stream %t: %s", i, stream, last)
			}
			if last.Get("user").String() != `"store":true,` || !last.Get("tools.0.parameters.store").Bool() || last.Get("metadata.@keys.0").String() != `"store":true,` {
				t.Errorf("what the request has was changed: %s", last)
			}
			if got := response.Header.Get(notStoredHeader); (got == "response") != (fails && !stream) {
				t.Errorf("%d, stream %t: %s: %q", i, stream, notStoredHeader, got)
			}
		}
		for range 2 {
			if r := <-observer.turns; (r.NotStored == "response") != fails {
				t.Errorf("%d: %+v", i, r)
			}
		}
	}
}

// slowChain calls end when a chain is read, which takes until its context has ended.
type slowChain struct {
	store.Engine
	reads int
	end   func()
}

func (c *slowChain) Read(ctx context.Context, _, _ string, _ store.Query) ([]store.Page, error) {
	c.reads++
	c.end()
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
}

// TestChainAtExit: a chain that is being read does not hold up the exit, nor outlive its client.
func TestChainAtExit(t *testing.T) {
	body := `{"model":"m","input":"q","previous_response_id":"` + responseid.Prefix + strings.Repeat("0", 26) + `"}`
	for code, end := range map[apierror.Code]func(leave, exit context.CancelFunc){
		"response_store_unavailable": func(leave, _ context.CancelFunc) { leave() },
		"server_shutting_down":       func(_, exit context.CancelFunc) { exit() },
	} {
		engine := new(slowChain)
		g, exit := exitingGateway(t, Options{MaxConcurrent: 1, Responses: objects.NewStore(engine, discard())})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		engine.end = func() { end(leave, exit) }
		_, apiErr := g.acceptAt(responsesPath, g.newExchange(httptest.NewRecorder(), posting(responsesPath, body).WithContext(ctx)))
		if apiErr == nil || apiErr.Code != code || engine.reads != 1 {
			t.Errorf("%+v after %d reads, want %s", apiErr, engine.reads, code)
		}
	}
}

// TestChainMemory: the items of a chain count with the bodies of requests.
func TestChainMemory(t *testing.T) {
	store := memoryStore(1<<20, time.Hour)
	id := responseid.Prefix + strings.Repeat("0", 26)
	item := `{"id":"msg_` + strings.Repeat("0", 26) + `_0","type":"message","role":"user","content":"` + strings.Repeat("x", 4<<10) + `"}`
	entry := &objects.Entry{User: "ann", Response: json.RawMessage("{}"), Input: []json.RawMessage{json.RawMessage(item)}}
	must.OK(t, store.Put(t.Context(), id, entry))
	for _, body := range []string{
		`{"model":"m","input":"q","previous_response_id":"` + id + `"}`,
		`{"model":"m","input":[{"type":"item_reference","id":"msg_` + strings.Repeat("0", 26) + `_0"}]}`,
	} {
		g, _ := storeGateway(store)
		read := func() *apierror.Error {
			kept, x := keepResponse(t, g, body)
			claim := g.bodies.Claim("a")
			defer claim.Release()
			apiErr := kept.resolve(x, claim)
			if apiErr == nil && claim.Size() < 4<<10 {
				t.Errorf("%s: %d bytes are counted", body, claim.Size())
			}
			return apiErr
		}
		if apiErr := read(); apiErr != nil {
			t.Error(apiErr)
		}
		var others []*claims.Claim
		for one := g.bodies.Claim("a"); one.Grow(1 << 10); one = g.bodies.Claim("a") {
			others = append(others, one)
		}
		if apiErr := read(); apiErr == nil || apiErr.Code != "codex_body_memory" {
			t.Errorf("without memory: %v", apiErr)
		}
		for _, one := range others {
			one.Release()
		}
		if apiErr := read(); apiErr != nil || g.bodies.Held() != 0 {
			t.Errorf("%d bytes are left, %v", g.bodies.Held(), apiErr)
		}
	}
}
