package responses

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestResponsesSocket: responses over one WebSocket follow each other, stored or not.
func TestResponsesSocket(t *testing.T) {
	for _, store := range []string{"store memory", "store off"} {
		t.Run(store, func(t *testing.T) {
			s := e2e.NewSite(t, "api_key sk-ann ann\n"+store)
			c := s.DialResponses(e2e.Bearer("sk-ann"))
			warm := c.Respond(e2e.Asks([]e2e.Fields{}, e2e.Fields{"generate": false, "store": false, "instructions": "Be brief."}))
			if warm.Status != "completed" || len(warm.Output) != 0 {
				t.Fatalf("%+v", warm)
			}
			first := c.Respond(e2e.Asks([]e2e.Fields{e2e.Says("user", `tool:1 localSearch {"query":"n"}`)}, e2e.Fields{
				"previous_response_id": warm.ID, "store": false, "instructions": "Be brief.", "tools": []e2e.Fields{e2e.FunctionTool("localSearch")},
			}))
			call := first.Calls()[0].CallID
			second := c.Respond(e2e.Asks([]e2e.Fields{{"type": "function_call_output", "call_id": call, "output": "found"}}, e2e.Fields{"previous_response_id": first.ID, "store": false}))
			third := c.Respond(e2e.Asks("say:Bye.", e2e.Fields{"previous_response_id": second.ID, "store": false}))
			request, _ := s.Model.Last()
			want := []string{`user: tool:1 localSearch {"query":"n"}`, "call " + call + ` localSearch({"query":"n"})`, "output " + call + " found", "assistant: " + second.Text(), "user: say:Bye."}
			if got := e2e.Describe(request); !slices.Equal(got[len(got)-len(want):], want) || third.Text() != "Bye." {
				t.Errorf("the model was given %q, and says %q", got, third.Text())
			}
			// What is not right is an error, after which the WebSocket is of use.
			for want, request := range map[string]e2e.Fields{
				"previous_response_not_found": e2e.Asks("q", e2e.Fields{"previous_response_id": first.ID}),
				"missing_required_parameter":  {"input": "q"},
				"unsupported_parameter":       e2e.Asks("q", e2e.Fields{"background": true}),
			} {
				if _, refused := c.Ask(request); refused == nil || refused.Error.Code == nil || *refused.Error.Code != want {
					t.Errorf("want %s: %s", want, e2e.EncodeJSON(refused))
				}
			}
			c.Send(`{"type":"something"}`)
			if _, message, err := c.Conn.Read(e2e.Context(t)); err != nil || !strings.Contains(string(message), `"status":400`) {
				t.Error(string(message), err)
			}
			if r, refused := c.Ask(e2e.Asks("say:x; fail:server_error", nil)); r == nil || r.Status != "failed" {
				t.Errorf("%+v %+v", r, refused)
			}
			if r, refused := c.Ask(e2e.Asks("http:401", nil)); refused == nil {
				t.Errorf("%+v", r)
			}
			again := c.Respond(e2e.Asks("say:Still here.", e2e.Fields{"previous_response_id": third.ID, "store": false}))
			if again.Text() != "Still here." {
				t.Errorf("%+v", again)
			}
			// A client that leaves ends its turn.
			c.Send(e2e.EncodeJSON(e2e.Asks("say:It begins; hang", e2e.Fields{"type": "response.create"})))
			s.WaitOpen(1)
			_ = c.Conn.CloseNow()
			s.WaitOpen(0)
		})
	}
}

// TestResponsesSocketAccess: it needs a key and an allowed page; an id is of one WebSocket only.
func TestResponsesSocketAccess(t *testing.T) {
	s := e2e.NewSite(t, "api_key sk-ann ann\ncors https://app.example")
	ann := e2e.Bearer("sk-ann")
	foreign, listed := ann.Clone(), ann.Clone()
	foreign.Set("Origin", "https://evil.example")
	listed.Set("Origin", "https://app.example")
	for want, header := range map[int]http.Header{http.StatusUnauthorized: nil, http.StatusForbidden: foreign} {
		conn, answer, err := websocket.Dial(e2e.Context(t), s.URL+"/v1/responses", &websocket.DialOptions{HTTPHeader: header})
		if err == nil {
			_ = conn.CloseNow()
		}
		if answer == nil || answer.StatusCode != want {
			t.Errorf("want %d: %v", want, err)
		}
	}
	if status, _ := s.Get("/v1/responses"); status != http.StatusUnauthorized {
		t.Error(status)
	}
	one, other := s.DialResponses(listed), s.DialResponses(ann)
	made := one.Respond(e2e.Asks("say:One.", e2e.Fields{"store": false}))
	if _, refused := other.Ask(e2e.Asks("q", e2e.Fields{"previous_response_id": made.ID})); refused == nil || *refused.Error.Code != "previous_response_not_found" {
		t.Errorf("%+v", refused)
	}
	// A reload ends the WebSocket, so that clients get to the new configuration.
	s.Load(s.Caddyfile("api_key sk-ann ann"))
	if _, _, err := one.Conn.Read(e2e.Context(t)); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Error(err)
	}
}

// TestResponsesSocketTooLarge: a message above max_body is refused, and read no further.
func TestResponsesSocketTooLarge(t *testing.T) {
	s := e2e.NewSite(t, "max_body 10KB")
	c := s.DialResponses(nil)
	if _, refused := c.Ask(e2e.Asks(strings.Repeat("x", 20_000), nil)); refused == nil || *refused.Error.Code != "request_too_large" {
		t.Errorf("%+v", refused)
	}
	if r := c.Respond(e2e.Asks("say:Fine.", nil)); r.Text() != "Fine." {
		t.Errorf("%+v", r)
	}
	_ = c.Conn.Write(e2e.Context(t), websocket.MessageText, []byte(strings.Repeat("x", 3<<20))) // it may be cut
	for {
		if _, _, err := c.Conn.Read(e2e.Context(t)); err != nil {
			break
		}
	}
}

// TestCodexAsSocketClient runs the Codex CLI over a WebSocket, and leaves it no other way.
func TestCodexAsSocketClient(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Load(s.Wrap("route {\n@post {\nmethod POST\n}\nrespond @post 500\ncodex {\n" + s.AppServer() + "\n}\n}"))
	s.WaitReady()
	for _, model := range []string{"gpt-5", "gpt-5.5"} {
		t.Run(model, func(t *testing.T) {
			s, dir := s.At(t), t.TempDir()
			tool := map[string]string{
				"gpt-5":   `tool:1 client_exec_command {"cmd":"echo by the command > made.txt"}`,
				"gpt-5.5": `tool:1 client_apply_patch {"input":"*** Begin Patch\n*** Add File: made.txt\n+by the command\n*** End Patch\n"}`,
			}[model]
			output, err := codexExecOver(s, codexhome.Options{WebSockets: true}, dir, model, tool+"; then; say:All done.")
			if err != nil || !strings.Contains(output, "All done.") {
				t.Errorf("%v\n%s", err, output)
			}
			if made, err := os.ReadFile(filepath.Join(dir, "made.txt")); err != nil || string(made) != "by the command\n" {
				t.Errorf("%q, %v\n%s", made, err, output)
			}
		})
	}
	if _, err := s.Model.Wait(e2e.Context(t), func(now scriptedmodel.Stats) bool { return now.Open == 0 }); err != nil {
		t.Error("the model goes on:", err)
	}
}
