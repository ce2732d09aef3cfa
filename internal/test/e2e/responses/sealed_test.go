package responses

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestSealedSummary: a summary from /v1/responses/compact can be read by its user alone, unchanged, also
// after a reload and the death of the app-server. Otherwise the error names the item.
func TestSealedSummary(t *testing.T) {
	s := e2e.NewSite(t, "api_key sk-ann ann\napi_key sk-bob bob\nrealm one")
	ann, bob := e2e.Bearer("sk-ann"), e2e.Bearer("sk-bob")
	conversation := e2e.Asks([]any{e2e.Says("user", "Remember this."), e2e.Says("assistant", "FACT secret = 4711")}, nil)
	answer, body := s.Call(http.MethodPost, "/v1/responses/compact", conversation, ann)
	var compacted struct{ Output []map[string]any }
	if err := json.Unmarshal([]byte(body), &compacted); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, body)
	}
	if len(compacted.Output) != 2 || compacted.Output[1]["type"] != "compaction" {
		t.Fatal(body)
	}
	sealed, _ := compacted.Output[1]["encrypted_content"].(string)
	asks := func(sealed string) e2e.Fields {
		return e2e.Asks([]any{compacted.Output[0], e2e.Fields{"type": "compaction", "encrypted_content": sealed}, e2e.Says("user", "RECALL secret")}, nil)
	}
	e2e.Kill(t, "codex")
	s.Load(s.Caddyfile("api_key sk-ann ann\napi_key sk-bob bob\nrealm one\nollama on"))
	s.WaitReady()
	if text := s.Respond(asks(sealed), ann).Text(); text != "4711" {
		t.Errorf("the model knows %q", text)
	}
	refused := func(what, sealed string, header http.Header) {
		t.Helper()
		answer, refused := s.RefuseResponse(asks(sealed), header)
		if param := refused.Error.Param; answer.StatusCode != http.StatusBadRequest || param == nil || *param != "input[1].encrypted_content" {
			t.Errorf("%s: %s %+v", what, answer.Status, refused.Error)
		}
	}
	refused("another user", sealed, bob)
	for _, at := range []int{20, len(sealed) / 2, len(sealed) - 2} {
		changed := []byte(sealed)
		if changed[at]++; changed[at] > 'z' {
			changed[at] = 'a'
		}
		refused("a changed byte", string(changed), ann)
	}
	refused("half of it", sealed[:len(sealed)/2], ann)
}

// TestSealedOnNodes: nodes with a common Redis read each other's summaries, also after a restart, and after the Redis
// has lost everything. While it does not answer, a node that has not asked it before says so; it recovers alone.
func TestSealedOnNodes(t *testing.T) {
	server := redisserver.Start(t)
	c := e2e.NewCluster(t, func(int) string { return "store redis " + server.URL("") })
	seals := func(node int) e2e.Fields {
		t.Helper()
		r := c.Through(node).Respond(e2e.Asks([]any{e2e.Says("user", "FACT secret = 4711"), e2e.Fields{"type": "compaction_trigger"}}, nil), nil)
		if r.Types() != "compaction" {
			t.Fatalf("node %d: %q", node, r.Types())
		}
		return e2e.Fields{"type": "compaction", "encrypted_content": r.Output[0].Encrypted}
	}
	asks := func(item e2e.Fields) e2e.Fields {
		return e2e.Asks([]any{item, e2e.Says("user", "RECALL secret")}, e2e.Fields{"store": false})
	}
	item := seals(0)
	if text := c.Through(1).Respond(asks(item), nil).Text(); text != "4711" {
		t.Errorf("another node reads %q", text)
	}
	server.Pause()
	answer, refused := c.Through(2).RefuseResponse(asks(item), nil)
	server.Resume()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without the Redis: %d %+v", answer.StatusCode, refused.Error)
	}
	e2e.WaitFor(t, "the node to read it", func() bool {
		answer, body := c.Through(2).Call(http.MethodPost, "/v1/responses", asks(item), nil)
		return answer.StatusCode == http.StatusOK && strings.Contains(body, "4711")
	})
	server.Do("FLUSHALL")
	c.Nodes[1].End()
	c.Nodes[1].Start()
	if text := c.Through(1).Respond(asks(item), nil).Text(); text != "4711" {
		t.Errorf("after a restart the node reads %q", text)
	}
	if text := c.Through(2).Respond(asks(seals(1)), nil).Text(); text != "4711" {
		t.Errorf("a node that was not restarted reads %q", text)
	}
}

// TestFailedSummaries: if the app-server dies or the configuration changes while the model summarises, the client gets
// its summary or an error with which it does not ask again and again. The conversation stays usable.
func TestFailedSummaries(t *testing.T) {
	s := e2e.NewSite(t, "")
	input := []any{e2e.Says("user", "FACT secret = 4711"), e2e.Says("assistant", "Fine."), e2e.Fields{"type": "compaction_trigger"}}
	for name, disturb := range map[string]func(){
		"killed":   func() { e2e.Kill(t, "codex") },
		"reloaded": func() { s.Load(s.Caddyfile("ollama on")) },
	} {
		begun := make(chan struct{}, 8)
		remove := s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			begun <- struct{}{}
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("All.")}, FirstDelay: 2 * time.Second}, true
		})
		answers := make(chan string, 1)
		go func() {
			response, body := s.Call(http.MethodPost, "/v1/responses", e2e.Asks(input, e2e.Fields{"store": false}), nil)
			answers <- strconv.Itoa(response.StatusCode) + " " + body
		}()
		<-begun
		disturb()
		if answer := <-answers; !strings.HasPrefix(answer, "200 ") && !strings.HasPrefix(answer, "400 ") {
			t.Errorf("%s: %s", name, answer)
		}
		remove()
		s.WaitReady()
		if r := s.Respond(e2e.Asks(input, e2e.Fields{"store": false}), nil); r.Types() != "compaction" {
			t.Errorf("%s, afterwards: %s", name, r.Types())
		}
	}
}
