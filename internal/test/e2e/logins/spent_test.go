package logins

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// arrival is a request as the server behind `reverse_proxy` got it.
type arrival struct {
	method, uri, hash string
	header            http.Header
	length            int64
}

// echo is that server. Its answers have the header Echo, with the hash of the body.
type echo struct {
	*httptest.Server
	mu  sync.Mutex
	all []arrival
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func newEcho(t *testing.T) *echo {
	e := new(echo)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error("the next handler cannot read the body:", err)
		}
		got := arrival{r.Method, r.RequestURI, hashOf(body), r.Header, r.ContentLength}
		e.mu.Lock()
		e.all = append(e.all, got)
		e.mu.Unlock()
		w.Header().Set("Echo", got.hash)
		w.Header().Set("X-Request-Id", "of-echo")
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprint(w, "data: echo\n\n")
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// take returns what has arrived since the last call.
func (e *echo) take() (all []arrival) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all, e.all = e.all, nil
	return all
}

// proxyTo returns directives that send everything to a server, which gets the client's headers alone.
func proxyTo(e *echo) string {
	return "reverse_proxy " + strings.TrimPrefix(e.URL, "http://") + " {\nheader_up -X-Forwarded-*\nheader_up -Via\n}"
}

// spentSite returns a site whose login has a plan of which nothing is left if spent, with options of codex
// and the directives after it.
func spentSite(t *testing.T, spent bool, options, after string) (*e2e.Site, e2e.Home) {
	t.Helper()
	e2e.WithLogin(t)
	model := scriptedmodel.New(scriptedmodel.Options{})
	home := e2e.NewHome(t, model, codexhome.Options{})
	t.Cleanup(model.Close)
	home.Login.SetMeters(planbackend.AllMeters(0))
	if spent {
		home.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) { m.Use(100) })
	}
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap("metrics /metrics\ncodex {\napp_server " + e2e.CodexBinary + " app-server {\nhome " + home.Dir + "\n}\nspent next\n" + options + "\n}\n" + after))
	e2e.WaitFor(t, "the app-server", func() bool {
		_, ready := s.Readiness()
		return ready.AppServer == "ready"
	})
	return s, home
}

// TestSpentNext checks what the next handler and the client get when the plan is spent, with each API.
func TestSpentNext(t *testing.T) {
	e := newEcho(t)
	keys := e2e.NewKeyFile(t, map[string]string{"sk-may": "requests 1000 1h\ntokens 100000 1h\nmax_concurrent 1", "sk-stays": "spent no"})
	s, home := spentSite(t, true, "ollama on\nimages on\ncors https://page.example\napi_keys_file "+keys.Path, proxyTo(e))
	asked := 0 // requests of the model
	chat := e2e.ChatBody("say:ok", nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(chat))
	must.OK(t, z.Close())
	key := e2e.Bearer("sk-may")
	for i, c := range []struct {
		path, body string
		header     http.Header
	}{
		{"/v1/chat/completions", chat, nil}, // this one finds the plan spent
		{"/v1/chat/completions?a=1&b=%20/", chat, http.Header{"X-Request-Id": {"mine"}, "Origin": {"https://page.example"}}},
		{"/v1//v1/chat/completions/", chat, http.Header{"X-Request-Id": {"not valid\u00e4"}}},
		{"/v1/chat/completions", e2e.ChatBody("say:ok", e2e.Fields{"stream": true}), nil},
		{"/v1/chat/completions", packed.String(), http.Header{"Content-Encoding": {"gzip"}}},
		{"/v1/responses", `{"model":"gpt-5.5","input":"say:ok","stream":true}`, nil},
		{"/v1/responses", `{"model":"gpt-5.5","input":"say:ok","background":true}`, nil},
		{"/v1/messages?beta=true", `{"model":"gpt-5.5","max_tokens":9,"messages":[{"role":"user","content":"say:ok"}]}`, http.Header{"Anthropic-Version": {"2023-06-01"}}},
		{"/api/chat", `{"model":"gpt-5.5","messages":[{"role":"user","content":"say:ok"}]}`, nil},
		{"/api/generate", `{"model":"gpt-5.5","prompt":"say:ok"}`, nil},
	} {
		header := key.Clone()
		for name, values := range c.header {
			header[name] = values
		}
		response, text := s.Call(http.MethodPost, c.path, c.body, header)
		all := e.take()
		if response.StatusCode != http.StatusOK || text != strings.Repeat("data: echo\n\n", 3) || len(all) != 1 {
			t.Errorf("%s: %s %s, and %d requests came", c.path, response.Status, text, len(all))
			continue
		}
		got := all[0]
		if got.method != http.MethodPost || got.uri != c.path || got.hash != hashOf([]byte(c.body)) || got.length != int64(len(c.body)) {
			t.Errorf("%s: %+v", c.path, got)
		}
		header.Set("User-Agent", "Go-http-client/1.1")
		header["Content-Length"] = got.header["Content-Length"]
		if header.Get("Content-Encoding") == "" {
			header.Set("Accept-Encoding", "gzip")
		}
		header["Accept-Encoding"] = got.header["Accept-Encoding"]
		if fmt.Sprint(got.header) != fmt.Sprint(header) {
			t.Errorf("%s: the header is\n%v, not\n%v", c.path, got.header, header)
		}
		for name, values := range response.Header {
			if len(values) > 1 && name != "Via" || strings.HasPrefix(name, "X-Codex") || strings.HasPrefix(name, "X-Ratelimit") || strings.HasPrefix(name, "Access-Control") || name == "Vary" || name == "X-Proxy-Output-Mode" || name == "Request-Id" {
				t.Errorf("%s: the answer has %s: %q", c.path, name, values)
			}
		}
		if id := response.Header["X-Request-Id"]; len(id) != 1 || id[0] != "of-echo" {
			t.Errorf("%s: the id is %q", c.path, id)
		}
		if n := home.Plan.Count(planbackend.Responses) + home.Plan.Count(planbackend.Socket); n == 0 || i > 0 && n != asked {
			t.Errorf("request %d: the provider was asked %d times, %d before", i, n, asked)
		} else {
			asked = n
		}
	}
	if requests, tokens := s.Used("sk-may", "requests"), s.Used("sk-may", "tokens"); requests != 10 || tokens != 0 {
		t.Errorf("the key has used %d requests and %d tokens", requests, tokens)
	}
	response, raw := s.Call(http.MethodGet, "/v1/usage/raw", nil, key)
	if n := strings.Count(raw, `"code":"spent_next"`); response.StatusCode != http.StatusOK || n != 10 || strings.Count(raw, `"model":"gpt-5`) != n {
		t.Errorf("%d are listed: %s", n, raw)
	}
	for name, c := range map[string]struct {
		path, body, key string
		status          int
	}{
		"a key that stays": {"/v1/chat/completions", chat, "sk-stays", http.StatusTooManyRequests},
		"invalid":          {"/v1/chat/completions", `{"model":"gpt-5.5"`, "sk-may", http.StatusBadRequest},
		"a wrong key":      {"/v1/chat/completions", chat, "sk-other", http.StatusUnauthorized},
		"a count":          {"/v1/messages/count_tokens", `{"model":"gpt-5.5","messages":[{"role":"user","content":"say:ok"}]}`, "sk-may", http.StatusOK},
	} {
		if response, text := s.Call(http.MethodPost, c.path, c.body, e2e.Bearer(c.key)); response.StatusCode != c.status || len(e.take()) > 0 {
			t.Errorf("%s: %s %s", name, response.Status, text)
		}
	}
}

// TestSpentNextUntilReset checks that the plan serves again after its reset.
func TestSpentNextUntilReset(t *testing.T) {
	e := newEcho(t)
	s, home := spentSite(t, false, "", proxyTo(e))
	home.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) {
		m.Spent, m.Primary.Used, m.Primary.Resets = true, 100, time.Now().Add(3*time.Second)
	})
	passed := 0
	e2e.WaitFor(t, "the plan to serve again", func() bool {
		s.Get("/backend-api/wham/usage") // asks for the limits
		response, text := s.Post(e2e.ChatBody("say:By the plan.", nil), nil)
		switch {
		case response.StatusCode != http.StatusOK:
			t.Errorf("%s %s", response.Status, text)
		case response.Header.Get("Echo") != "":
			passed++
		default:
			return strings.Contains(text, "By the plan.")
		}
		return false
	})
	if n := home.Plan.Count(planbackend.Responses) + home.Plan.Count(planbackend.Socket); passed < 3 || passed != len(e.take()) || n > passed {
		t.Errorf("%d were passed on, the provider was asked %d times", passed, n)
	}
}

// TestSpentNextUnanswered checks that the client gets the error if no handler follows, or only one that fails.
func TestSpentNextUnanswered(t *testing.T) {
	s, _ := spentSite(t, true, "cors *", "")
	for range 2 { // with the provider's answer, and without
		response, text := s.Post(e2e.ChatBody("say:ok", nil), nil)
		if response.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, `"code":"insufficient_quota"`) || len(response.Header["X-Request-Id"]) != 1 || response.Header.Get("Access-Control-Allow-Origin") != "" || response.Header.Get("Vary") != "Origin" {
			t.Errorf("%s %v %s", response.Status, response.Header, text)
		}
	}
	if _, raw := s.Get("/v1/usage/raw"); strings.Contains(raw, "spent_next") {
		t.Error(raw)
	}
	s, _ = spentSite(t, true, "", "reverse_proxy "+e2e.FreeAddr(t))
	if response, text := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusBadGateway || text != "" {
		t.Errorf("%s %v %s", response.Status, response.Header, text)
	}
	if _, raw := s.Get("/v1/usage/raw"); !strings.Contains(raw, "spent_next") {
		t.Error(raw)
	}
}

// spentRequest is a request of TestSpentNextRandom.
type spentRequest struct {
	path    string
	header  http.Header
	body    []byte
	chunked bool
	valid   bool
}

const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// anySpentRequest returns a request to any API, of 1 byte to 30 MB, with any of what requests have.
func anySpentRequest(t *testing.T, random *rand.Rand, filler string) *spentRequest {
	size := int(math.Exp(random.Float64() * math.Log(30e6)))
	pad := filler[:min(size, len(filler))]
	text := "say:ok"
	if random.IntN(2) == 0 {
		text, pad = "say:ok\n"+pad, ""
	}
	said := []any{map[string]any{"role": "user", "content": text}}
	withPixel := random.IntN(3) == 0
	stream, tools := random.IntN(2) == 0, random.IntN(2) == 0
	fields := e2e.Fields{"model": "gpt-5.5", "stream": stream}
	function := map[string]any{"name": "search", "description": "Searches.", "parameters": map[string]any{"type": "object", "properties": map[string]any{"q": map[string]any{"type": "string"}}}}
	q := &spentRequest{header: http.Header{}, valid: random.IntN(8) > 0, chunked: random.IntN(3) == 0}
	switch random.IntN(6) {
	case 0, 1:
		q.path, fields["messages"] = "/v1/chat/completions", said
		if withPixel {
			said[0] = map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": pixel}}}}
		}
		if tools {
			fields["tools"] = []any{map[string]any{"type": "function", "function": function}}
		}
	case 2, 3:
		q.path, fields["input"], fields["store"] = "/v1/responses", text, random.IntN(2) == 0
		if withPixel {
			fields["input"] = []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}, map[string]any{"type": "input_image", "image_url": pixel}}}}
		}
		if tools {
			fields["tools"] = []any{map[string]any{"type": "function", "name": "search", "parameters": function["parameters"]}}
		}
	case 4:
		q.path, fields["messages"], fields["max_tokens"] = "/v1/messages?beta=true", said, 100
		if tools {
			fields["tools"] = []any{map[string]any{"name": "search", "input_schema": function["parameters"]}}
		}
	default:
		q.path, fields["messages"] = "/api/chat", said
	}
	q.body = []byte(e2e.EncodeJSON(fields))
	q.body = append(q.body, strings.Repeat(" ", len(pad))...)
	switch {
	case size < 60:
		q.body, q.valid = []byte(strings.Repeat("[", size)), false
	case !q.valid:
		q.body[len(q.body)/2] = 0
	}
	switch random.IntN(6) {
	case 0:
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(q.body)
		must.OK(t, z.Close())
		q.body = packed.Bytes()
		q.header.Set("Content-Encoding", "gzip")
	case 1:
		z, err := zstd.NewWriter(nil)
		must.OK(t, err)
		q.body = z.EncodeAll(q.body, nil)
		q.header.Set("Content-Encoding", "zstd")
	case 2:
		if random.IntN(4) == 0 {
			q.header.Set("Content-Encoding", "br")
			q.valid = false
		}
	}
	return q
}

// send sends the request, and checks what comes back and what the next handler got. passed says that the next
// handler has served it, planned that the plan has.
func (q *spentRequest) send(t *testing.T, s *e2e.Site, e *echo, id string) (passed, planned bool) {
	var body io.Reader = bytes.NewReader(q.body)
	if q.chunked {
		body = io.MultiReader(body)
	}
	request, err := http.NewRequestWithContext(e2e.Context(t), http.MethodPost, s.URL+q.path, body)
	must.OK(t, err)
	request.Header = q.header
	request.Header.Set("X-Request-Id", id)
	begin := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return false, false
	}
	text := s.At(t).Read(response)
	what := fmt.Sprintf("%s %s %v, %d bytes: %s %.300s", id, q.path, q.header, len(q.body), response.Status, text)
	arrived := e.of(id)
	switch hash := response.Header.Get("Echo"); {
	case hash != "":
		want := arrival{method: http.MethodPost, uri: q.path, hash: hashOf(q.body), length: int64(len(q.body))}
		if q.chunked {
			want.length = -1
		}
		if len(arrived) == 1 {
			arrived[0].header = nil
		}
		if len(arrived) != 1 || fmt.Sprint(arrived[0]) != fmt.Sprint(want) || hash != want.hash || !q.valid {
			t.Errorf("%s\n%d arrived: %v, want %v", what, len(arrived), arrived, want)
		}
		return true, false
	case len(arrived) > 0:
		t.Errorf("%s, but it has arrived", what)
	case !q.valid && (response.StatusCode == http.StatusBadRequest || response.StatusCode == http.StatusUnsupportedMediaType):
	case q.valid && response.StatusCode == http.StatusBadRequest && strings.Contains(text, "maximum context length"):
	case q.valid && response.StatusCode == http.StatusOK && strings.Contains(text, "ok") && !strings.Contains(text, "limit"):
		return false, true
	case !e2e.IsLate(response, begin):
		t.Error(what)
	}
	return false, false
}

// of returns the requests with an id that have arrived.
func (e *echo) of(id string) (all []arrival) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.all {
		if a.header.Get("X-Request-Id") == id {
			all = append(all, a)
		}
	}
	return all
}

// TestSpentNextRandom sends requests of all kinds at once to a plan that becomes spent meanwhile. Each is answered
// once: by the plan, by this server's error, or by the next handler, which gets the same bytes. Nothing is held
// in the end.
func TestSpentNextRandom(t *testing.T) {
	const rounds, clients = 4, 8
	random := draw.Random(t)
	filler := make([]byte, 30e6)
	for i := range filler {
		filler[i] = "etaoin shrdl"[random.IntN(12)]
	}
	e := newEcho(t)
	var passed, planned atomic.Int64
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			e2e.OwnTemp(t)
			s, home := spentSite(t, false, "ollama on", proxyTo(e))
			passedBefore, countedBefore := passed.Load(), s.Samples()[`codex_request_errors_total{code="spent_next"}`]
			n := draw.Cases(40, 250)
			spentAt := n/4 + random.IntN(n/4)
			requests := make(chan *spentRequest)
			var all sync.WaitGroup
			var number atomic.Int64
			for range clients {
				all.Go(func() {
					for q := range requests {
						isPassed, isPlanned := q.send(t, s, e, fmt.Sprintf("r%d-%d", round, number.Add(1)))
						if isPassed {
							passed.Add(1)
						}
						if isPlanned {
							planned.Add(1)
						}
					}
				})
			}
			for i := range n {
				if i == spentAt {
					home.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) { m.Use(100) })
				}
				requests <- anySpentRequest(t, random, string(filler))
			}
			close(requests)
			all.Wait()
			e2e.WaitFor(t, "nothing to be held", func() bool {
				now := s.Samples()
				return now["codex_body_memory_bytes"]+now["codex_turns_running"]+now["codex_queue_waiting"] == 0
			})
			if counted := s.Samples()[`codex_request_errors_total{code="spent_next"}`] - countedBefore; counted != float64(passed.Load()-passedBefore) {
				t.Errorf("%f requests count as passed on, not %d", counted, passed.Load()-passedBefore)
			}
		})
	}
	t.Logf("%d requests were passed on, the plan has served %d", passed.Load(), planned.Load())
	if passed.Load() < int64(rounds*draw.Cases(40, 250)/8) || planned.Load() < rounds {
		t.Errorf("%d requests were passed on, the plan has served %d", passed.Load(), planned.Load())
	}
}

// TestSpentRecipes runs the configurations in docs/logins.md with a plan that is spent.
func TestSpentRecipes(t *testing.T) {
	_, section, _ := strings.Cut(e2e.ReadFile(t, "../../../../docs/logins.md"), "\n## When every plan is spent\n")
	section, _, _ = strings.Cut(section, "\n## ")
	recipes := regexp.MustCompile(`(?m)(^    .*\n)+`).FindAllString(section, -1)
	if len(recipes) != 2 {
		t.Fatalf("%d recipes: %q", len(recipes), recipes)
	}
	e := newEcho(t)
	s, home := spentSite(t, true, "", "")
	keys := e2e.NewKeyFile(t, map[string]string{"sk-a": "requests 10 1h"})
	server := "app_server " + e2e.CodexBinary + " app-server {\nhome "
	load := func(t *testing.T, recipe string, replace ...string) {
		for i := 0; i < len(replace); i += 2 {
			if !strings.Contains(recipe, replace[i]) {
				t.Errorf("the recipe has no %s", replace[i])
			}
		}
		replace = append(replace, "spent next", "spent next\n"+server+home.Dir+"\n}")
		s.Load("{\nadmin off\npersist_config off\nauto_https off\n}\n" + strings.NewReplacer(replace...).Replace(recipe))
	}
	t.Run("a second codex", func(t *testing.T) {
		model := scriptedmodel.New(scriptedmodel.Options{})
		provider := httptest.NewServer(model)
		t.Cleanup(func() { provider.Close(); model.Close() })
		byKey := t.TempDir()
		e2e.WriteHome(t, byKey, provider.URL+"/v1", codexhome.Options{})
		load(t, recipes[0], "api.example.com {", s.URL+" {", "/var/lib/caddy-codex/keys", keys.Path, "app_server {", strings.TrimSuffix(server, "\nhome "), "/var/lib/codex/by-key", byKey)
		s := s.At(t)
		for _, stream := range []bool{false, true} {
			var response *http.Response
			var text string
			e2e.WaitFor(t, "the second codex", func() bool {
				response, text = s.Post(e2e.ChatBody("say:By key.", e2e.Fields{"stream": stream}), e2e.Bearer("sk-a"))
				return response.StatusCode != http.StatusServiceUnavailable
			})
			id := response.Header["X-Request-Id"]
			if response.StatusCode != http.StatusOK || !strings.Contains(text, "key.") || len(id) != 1 || len(response.Header["X-Proxy-Output-Mode"]) != 1 {
				t.Fatalf("%s %v %s", response.Status, response.Header, text)
			}
			if _, raw := s.Call(http.MethodGet, "/v1/usage/raw", nil, e2e.Bearer("sk-a")); strings.Count(raw, `"request_id":"`+id[0]) != 2 || !strings.Contains(raw, "spent_next") {
				t.Errorf("the usage of %s: %s", id, raw)
			}
		}
		if n := s.Used("sk-a", "requests"); n < 2 || n > 3 || len(model.Requests()) == 0 {
			t.Errorf("the key has used %d requests, the provider has got %d", n, len(model.Requests()))
		}
	})
	t.Run("a proxy", func(t *testing.T) {
		load(t, recipes[1], "http://localhost:8080 {", s.URL+" {", "localhost:11434", strings.TrimPrefix(e.URL, "http://"))
		s := s.At(t)
		header := e2e.Bearer("sk-mine")
		header.Set("X-Api-Key", "sk-mine")
		response, text := s.Post(e2e.ChatBody("say:ok", nil), header)
		all := e.take()
		if response.StatusCode != http.StatusOK || !strings.Contains(text, "echo") || len(all) != 1 || strings.Contains(fmt.Sprint(all[0].header), "sk-mine") {
			t.Errorf("%s %s: %v", response.Status, text, all)
		}
		if status, _ := s.Get("/elsewhere"); len(e.take()) > 0 {
			t.Errorf("the proxy gets other paths: %d", status)
		}
	})
}
