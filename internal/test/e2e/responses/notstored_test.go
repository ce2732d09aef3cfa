package responses

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// TestNotStored lets Redis refuse to store, and be killed, while clients ask: a response that says
// that it is stored can be read, the others say that they are not, and the operator sees it.
func TestNotStored(t *testing.T) {
	server := redisserver.Start(t)
	s := e2e.NewUnstarted(t)
	options := "store redis " + server.URL("") + "?read_timeout=500ms&dial_timeout=500ms"
	admin := &e2e.Site{T: t, Addr: e2e.FreeAddr(t)}
	admin.URL = "http://" + admin.Addr
	r := s.RunFile(strings.Replace(s.WithMetrics(options), "admin off", "admin "+admin.Addr, 1))
	r.WaitUp()
	var mu sync.Mutex
	stored, unstored := make(map[string]string), 0
	// ask asks for responses, half of them streamed, and notes what they say.
	ask := func(what string, n int) {
		t.Helper()
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				stream := i%2 == 0
				answer := s.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(e2e.Asks("say:ok", e2e.Fields{"stream": stream}))), nil)
				body := s.Read(answer)
				if stream {
					_, data, _ := strings.Cut(body[strings.LastIndex(body, "event: "):], "data: ")
					var event e2e.ResponseEvent
					if err := json.Unmarshal([]byte(data), &event); err != nil {
						t.Errorf("%s: %v: %s", what, err, body)
						return
					}
					body = string(event.Response)
				}
				response := s.ParseResponse([]byte(body))
				if says := answer.Header.Get("X-Codex-Not-Stored"); (says == "response") != (!response.Store && !stream) {
					t.Errorf("%s: the header has %q, the body %t", what, says, response.Store)
				}
				mu.Lock()
				defer mu.Unlock()
				if response.Store {
					stored[response.ID] = what
				} else {
					unstored++
				}
			})
		}
		all.Wait()
	}
	ask("works", 19)
	for what, outage := range map[string][2]func(){
		"full":    {func() { server.Do("CONFIG SET maxmemory 1") }, func() { server.Do("CONFIG SET maxmemory 0") }},
		"replica": {func() { server.Do("REPLICAOF 127.0.0.1 1") }, func() { server.Do("REPLICAOF NO ONE") }},
		"alone":   {func() { server.Do("CONFIG SET min-replicas-to-write 1") }, func() { server.Do("CONFIG SET min-replicas-to-write 0") }},
		"killed":  {server.Kill, server.Restart},
	} {
		outage[0]()
		ask(what, 19)
		e2e.WaitFor(t, "/readyz to say it", func() bool {
			status, body := s.Get("/readyz")
			return status == http.StatusOK && strings.Contains(body, `"store":"unavailable"`)
		})
		if _, body := admin.Get("/codex/status"); !strings.Contains(body, `"stores":{"redis":{"state":"fails","unsettled":0}}`) {
			t.Errorf("%s: %s", what, body)
		}
		if samples := s.Samples(); samples[`codex_store_state{state="fails",store="redis"}`] != 1 {
			t.Errorf("%s: %v", what, samples)
		}
		outage[1]()
		e2e.WaitFor(t, "the end of the outage", func() bool {
			_, body := s.Get("/readyz")
			return !strings.Contains(body, `"store"`)
		})
	}
	wrong := make(map[string]int)
	for id, what := range stored {
		if status, _ := about(s, http.MethodGet, id, nil); status != http.StatusOK {
			wrong[fmt.Sprint(what, " ", status)]++
		}
	}
	if t.Logf("%d said that they are stored, %d that they are not", len(stored), unstored); len(wrong) > 0 || len(stored)+unstored != 95 {
		t.Errorf("of %d that said that they are stored, cannot be read: %v", len(stored), wrong)
	}
	samples := s.Samples()
	if got := samples["codex_answers_not_stored_total"]; got != float64(unstored) || got < 4*19/2 {
		t.Errorf("%v are counted, %d were not stored", got, unstored)
	}
	if samples[`codex_store_failures_total{operation="put"}`] < float64(unstored) || samples[`codex_store_duration_seconds_count{operation="put"}`] < 95 {
		t.Errorf("%v", samples)
	}
	if samples[`codex_store_state{state="works",store="redis"}`] != 1 {
		t.Error("it does not work again")
	}
}
