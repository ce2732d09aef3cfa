package responses

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// conversationOf is a conversation, or a list of its items.
type conversationOf struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Metadata map[string]string `json:"metadata"`
	Deleted  bool              `json:"deleted"`
	itemList
}

// conversation makes a request about a conversation and wants a status.
func conversation(s *e2e.Site, method, path string, request e2e.Fields, header http.Header, want int) (c conversationOf, body string) {
	s.T.Helper()
	answer, body := s.Call(method, "/v1/conversations"+path, request, header)
	if err := json.Unmarshal([]byte(body), &c); answer.StatusCode != want || err != nil {
		s.T.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, body, err)
	}
	return c, body
}

// TestConversationResponses: a conversation's responses get its items and add theirs, with calls.
func TestConversationResponses(t *testing.T) {
	for _, store := range []string{"", "store disk " + t.TempDir(), "store redis " + redisserver.Start(t).URL("")} {
		_, kind, _ := strings.Cut(store, " ")
		kind, _, _ = strings.Cut(kind, " ")
		t.Run(kind, func(t *testing.T) {
			s := e2e.NewSite(t, store)
			e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
				c, _ := conversation(s, http.MethodPost, "", e2e.Fields{"items": []e2e.Fields{e2e.Says("user", "Hello."), e2e.Says("assistant", "Hi.")}, "metadata": e2e.Fields{"k": "v"}}, nil, http.StatusOK)
				if !strings.HasPrefix(c.ID, "conv_") || c.Object != "conversation" || c.Metadata["k"] != "v" {
					t.Fatalf("%+v", c)
				}
				tools := []e2e.Fields{e2e.FunctionTool("localSearch")}
				first := s.Respond(e2e.Asks(`tool:1 localSearch {"query":"n"}`, e2e.Fields{"conversation": c.ID, "tools": tools, "stream": stream}), nil)
				if len(first.Calls()) != 1 {
					t.Fatalf("%+v", first)
				}
				output := []e2e.Fields{{"type": "function_call_output", "call_id": first.Calls()[0].CallID, "output": "found"}}
				second := s.Respond(e2e.Asks(output, e2e.Fields{"conversation": e2e.Fields{"id": c.ID}, "tools": tools, "stream": stream, "store": false}), nil)
				s.Respond(e2e.Asks("say:Bye.", e2e.Fields{"conversation": c.ID, "stream": stream, "background": !stream}), nil)
				e2e.WaitFor(t, "the last response", func() bool {
					list, _ := conversation(s, http.MethodGet, "/"+c.ID+"/items?limit=1", nil, nil, http.StatusOK)
					return list.Data[0].Content != nil && list.Data[0].Content[0].Text == "Bye."
				})
				request, _ := s.Model.Last()
				want := []string{
					"user: Hello.", "assistant: Hi.", `user: tool:1 localSearch {"query":"n"}`,
					"call " + first.Calls()[0].CallID + ` localSearch({"query":"n"})`, "output " + first.Calls()[0].CallID + " found",
					"assistant: " + second.Text(), "user: say:Bye.",
				}
				if got := e2e.Describe(request); !slices.Equal(got[len(got)-len(want):], want) {
					t.Errorf("the model was given %q", got)
				}
				list, _ := conversation(s, http.MethodGet, "/"+c.ID+"/items?order=asc&limit=100", nil, nil, http.StatusOK)
				ids := make(map[string]bool)
				for _, item := range list.Data {
					ids[item.ID] = true
				}
				if len(list.Data) != 8 || len(ids) != 8 || list.HasMore {
					t.Errorf("%+v", list)
				}
				_, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"previous_response_id": first.ID}), nil)
				if !strings.Contains(*refused.Error.Message, "conversation") {
					t.Errorf("a response of a conversation is followed: %s", e2e.EncodeJSON(refused))
				}
			})
		})
	}
}

// TestConversationObjects creates, changes and deletes conversations and items.
func TestConversationObjects(t *testing.T) {
	s := e2e.NewSite(t, "api_key sk-ann ann\napi_key sk-bob bob")
	ann, bob := e2e.Bearer("sk-ann"), e2e.Bearer("sk-bob")
	c, _ := conversation(s, http.MethodPost, "", nil, ann, http.StatusOK)
	path := "/" + c.ID
	if again, _ := conversation(s, http.MethodPost, path, e2e.Fields{"metadata": e2e.Fields{"topic": "x"}}, ann, http.StatusOK); again.Metadata["topic"] != "x" || again.ID != c.ID {
		t.Errorf("%+v", again)
	}
	added, _ := conversation(s, http.MethodPost, path+"/items", e2e.Fields{"items": []e2e.Fields{{"id": "mine", "role": "user", "content": "one"}, e2e.Says("user", "two")}}, ann, http.StatusOK)
	if len(added.Data) != 2 || added.FirstID != added.Data[0].ID || added.Data[0].ID == "mine" {
		t.Fatalf("%+v", added)
	}
	item := path + "/items/" + added.Data[0].ID
	if _, body := conversation(s, http.MethodGet, item, nil, ann, http.StatusOK); !strings.Contains(body, `"one"`) {
		t.Error(body)
	}
	conversation(s, http.MethodGet, path, nil, bob, http.StatusNotFound)
	if _, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"conversation": c.ID}), bob); *refused.Error.Param != "conversation" {
		t.Errorf("%s", e2e.EncodeJSON(refused))
	}
	if left, _ := conversation(s, http.MethodDelete, item, nil, ann, http.StatusOK); left.Object != "conversation" || left.Metadata["topic"] != "x" {
		t.Errorf("%+v", left)
	}
	conversation(s, http.MethodGet, item, nil, ann, http.StatusNotFound)
	if list, _ := conversation(s, http.MethodGet, path+"/items", nil, ann, http.StatusOK); len(list.Data) != 1 {
		t.Errorf("%+v", list)
	}
	for _, request := range []e2e.Fields{
		{"items": "x"}, {"items": []e2e.Fields{{"type": "item_reference", "id": "x"}}}, {}, {"items": slices.Repeat([]e2e.Fields{e2e.Says("user", "x")}, 21)},
	} {
		conversation(s, http.MethodPost, path+"/items", request, ann, http.StatusBadRequest)
	}
	conversation(s, http.MethodPost, path, e2e.Fields{"metadata": e2e.Fields{"k": 1}}, ann, http.StatusBadRequest)
	for _, request := range []e2e.Fields{
		{"conversation": c.ID, "previous_response_id": "resp_x"}, {"conversation": 5}, {"conversation": e2e.Fields{}}, {"previous_response_id": c.ID},
	} {
		if answer, refused := s.RefuseResponse(e2e.Asks("q", request), ann); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", e2e.EncodeJSON(request), e2e.EncodeJSON(refused))
		}
	}
	if gone, _ := conversation(s, http.MethodDelete, path, nil, ann, http.StatusOK); !gone.Deleted || gone.Object != "conversation.deleted" {
		t.Errorf("%+v", gone)
	}
	conversation(s, http.MethodGet, path, nil, ann, http.StatusNotFound)
	s.Load(s.Caddyfile("store off"))
	s.WaitReady()
	if _, body := conversation(s, http.MethodPost, "", nil, nil, http.StatusBadRequest); !strings.Contains(body, "store to off") {
		t.Error(body)
	}
	if _, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"conversation": c.ID}), nil); *refused.Error.Param != "conversation" || !strings.Contains(*refused.Error.Message, "store to off") {
		t.Errorf("%s", e2e.EncodeJSON(refused))
	}
}
