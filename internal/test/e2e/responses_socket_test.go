package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// responsesSocket is a client's WebSocket at /v1/responses.
type responsesSocket struct {
	*site
	conn *websocket.Conn
}

// dialResponses opens a WebSocket.
func (s *site) dialResponses(header http.Header) *responsesSocket {
	s.t.Helper()
	conn, _, err := websocket.Dial(testContext(s.t), s.url+"/v1/responses", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return &responsesSocket{s, conn}
}

// ask sends a request and reads the events of its answer, or the error.
func (s *responsesSocket) ask(request fields) (r *response, refused *apiError) {
	s.t.Helper()
	request["type"] = "response.create"
	s.send(encodeJSON(request))
	for n := 0; ; n++ {
		_, message, err := s.conn.Read(testContext(s.t))
		if err != nil {
			s.t.Fatal(err)
		}
		var e responseEvent
		if err := json.Unmarshal(message, &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Type == "error" {
			refused = new(apiError)
			if err := json.Unmarshal(message, refused); err != nil {
				s.t.Fatal(err)
			}
			return nil, refused
		}
		if err := apischema.CheckEvent(message); err != nil || e.Sequence != n {
			s.t.Errorf("%s: %v", message, err)
		}
		switch e.Type {
		case "response.completed", "response.incomplete", "response.failed":
			return s.parseResponse(e.Response), nil
		}
	}
}

// respond sends a request and wants a response.
func (s *responsesSocket) respond(request fields) *response {
	s.t.Helper()
	r, refused := s.ask(request)
	if r == nil {
		s.t.Fatal(encodeJSON(refused))
	}
	return r
}

func (s *responsesSocket) send(message string) {
	s.t.Helper()
	if err := s.conn.Write(testContext(s.t), websocket.MessageText, []byte(message)); err != nil {
		s.t.Fatal(err)
	}
}

// TestResponsesSocket makes responses over one WebSocket, which follow each other whether
// they are stored or not.
func TestResponsesSocket(t *testing.T) {
	for _, store := range []string{"response_store memory", "response_store off"} {
		t.Run(store, func(t *testing.T) {
			s := newSite(t, "api_key sk-ann ann\n"+store)
			c := s.dialResponses(bearer("sk-ann"))
			warm := c.respond(asks([]fields{}, fields{"generate": false, "store": false, "instructions": "Be brief."}))
			if warm.Status != "completed" || len(warm.Output) != 0 {
				t.Fatalf("%+v", warm)
			}
			first := c.respond(asks([]fields{says("user", `tool:1 localSearch {"query":"n"}`)}, fields{
				"previous_response_id": warm.ID, "store": false, "instructions": "Be brief.", "tools": []fields{functionTool("localSearch")},
			}))
			call := first.calls()[0].CallID
			second := c.respond(asks([]fields{{"type": "function_call_output", "call_id": call, "output": "found"}}, fields{"previous_response_id": first.ID, "store": false}))
			third := c.respond(asks("say:Bye.", fields{"previous_response_id": second.ID, "store": false}))
			request, _ := s.model.Last()
			want := []string{`user: tool:1 localSearch {"query":"n"}`, "call " + call + ` localSearch({"query":"n"})`, "output " + call + " found", "assistant: " + second.text(), "user: say:Bye."}
			if got := describe(request); !slices.Equal(got[len(got)-len(want):], want) || third.text() != "Bye." {
				t.Errorf("the model was given %q, and says %q", got, third.text())
			}
			// What is not right is an error, after which the WebSocket is of use.
			for want, request := range map[string]fields{
				"previous_response_not_found": asks("q", fields{"previous_response_id": first.ID}),
				"missing_required_parameter":  {"input": "q"},
				"unsupported_parameter":       asks("q", fields{"background": true}),
			} {
				if _, refused := c.ask(request); refused == nil || refused.Error.Code == nil || *refused.Error.Code != want {
					t.Errorf("want %s: %s", want, encodeJSON(refused))
				}
			}
			c.send(`{"type":"something"}`)
			if _, message, err := c.conn.Read(testContext(t)); err != nil || !strings.Contains(string(message), `"status":400`) {
				t.Error(string(message), err)
			}
			if r, refused := c.ask(asks("say:x; fail:server_error", nil)); r == nil || r.Status != "failed" {
				t.Errorf("%+v %+v", r, refused)
			}
			if r, refused := c.ask(asks("http:401", nil)); refused == nil {
				t.Errorf("%+v", r)
			}
			again := c.respond(asks("say:Still here.", fields{"previous_response_id": third.ID, "store": false}))
			if again.text() != "Still here." {
				t.Errorf("%+v", again)
			}
			// A client that leaves ends its turn.
			c.send(encodeJSON(asks("say:It begins; hang", fields{"type": "response.create"})))
			s.waitOpen(1)
			_ = c.conn.CloseNow()
			s.waitOpen(0)
		})
	}
}

// TestResponsesSocketAccess: the handshake needs a key and a page that may use the API, and
// the id of one WebSocket's response is no other's.
func TestResponsesSocketAccess(t *testing.T) {
	s := newSite(t, "api_key sk-ann ann\ncors https://app.example")
	ann := bearer("sk-ann")
	foreign, listed := ann.Clone(), ann.Clone()
	foreign.Set("Origin", "https://evil.example")
	listed.Set("Origin", "https://app.example")
	for want, header := range map[int]http.Header{http.StatusUnauthorized: nil, http.StatusForbidden: foreign} {
		conn, answer, err := websocket.Dial(testContext(t), s.url+"/v1/responses", &websocket.DialOptions{HTTPHeader: header})
		if err == nil {
			_ = conn.CloseNow()
		}
		if answer == nil || answer.StatusCode != want {
			t.Errorf("want %d: %v", want, err)
		}
	}
	if status, _ := s.get("/v1/responses"); status != http.StatusUnauthorized {
		t.Error(status)
	}
	one, other := s.dialResponses(listed), s.dialResponses(ann)
	made := one.respond(asks("say:One.", fields{"store": false}))
	if _, refused := other.ask(asks("q", fields{"previous_response_id": made.ID})); refused == nil || *refused.Error.Code != "previous_response_not_found" {
		t.Errorf("%+v", refused)
	}
	// A reload ends the WebSocket, so that clients get to the new configuration.
	s.load(s.caddyfile("api_key sk-ann ann"))
	if _, _, err := one.conn.Read(testContext(t)); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Error(err)
	}
}

// TestResponsesSocketTooLarge: a message above max_body is refused, and read no further.
func TestResponsesSocketTooLarge(t *testing.T) {
	s := newSite(t, "max_body 10KB")
	c := s.dialResponses(nil)
	if _, refused := c.ask(asks(strings.Repeat("x", 20_000), nil)); refused == nil || *refused.Error.Code != "request_too_large" {
		t.Errorf("%+v", refused)
	}
	if r := c.respond(asks("say:Fine.", nil)); r.text() != "Fine." {
		t.Errorf("%+v", r)
	}
	_ = c.conn.Write(testContext(t), websocket.MessageText, []byte(strings.Repeat("x", 3<<20))) // it may be cut
	for {
		if _, _, err := c.conn.Read(testContext(t)); err != nil {
			break
		}
	}
}

// TestCodexAsSocketClient runs the Codex CLI over a WebSocket, and leaves it no other way.
func TestCodexAsSocketClient(t *testing.T) {
	s := newSite(t, "")
	s.load(s.wrap("route {\n@post {\nmethod POST\n}\nrespond @post 500\ncodex {\n" + s.appServer() + "\n}\n}"))
	s.waitReady()
	for _, model := range []string{"gpt-5", "gpt-5.5"} {
		t.Run(model, func(t *testing.T) {
			s, dir := s.at(t), t.TempDir()
			tool := map[string]string{
				"gpt-5":   `tool:1 client_exec_command {"cmd":"echo by the command > made.txt"}`,
				"gpt-5.5": `tool:1 client_apply_patch {"input":"*** Begin Patch\n*** Add File: made.txt\n+by the command\n*** End Patch\n"}`,
			}[model]
			output, err := s.codexExecOver(codexhome.Options{WebSockets: true}, dir, model, tool+"; then; say:All done.")
			if err != nil || !strings.Contains(output, "All done.") {
				t.Errorf("%v\n%s", err, output)
			}
			if made, err := os.ReadFile(filepath.Join(dir, "made.txt")); err != nil || string(made) != "by the command\n" {
				t.Errorf("%q, %v\n%s", made, err, output)
			}
		})
	}
	if _, err := s.model.Wait(testContext(t), func(now scriptedmodel.Stats) bool { return now.Open == 0 }); err != nil {
		t.Error("the model goes on:", err)
	}
}
