package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
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
func (s *site) conversation(method, path string, request fields, header http.Header, want int) (c conversationOf, body string) {
	s.t.Helper()
	var sent *strings.Reader
	if sent = strings.NewReader(""); request != nil {
		sent = strings.NewReader(encodeJSON(request))
	}
	answer := s.do(method, "/v1/conversations"+path, sent, header)
	body = s.read(answer)
	if err := json.Unmarshal([]byte(body), &c); answer.StatusCode != want || err != nil {
		s.t.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, body, err)
	}
	return c, body
}

// TestConversationResponses lets responses belong to a conversation: each gets its items and adds
// its own, with calls in between.
func TestConversationResponses(t *testing.T) {
	for _, store := range []string{"", "response_store storage"} {
		t.Run(store, func(t *testing.T) {
			s := newSite(t, store)
			eachWay(t, s, func(t *testing.T, s *site, stream bool) {
				c, _ := s.conversation(http.MethodPost, "", fields{"items": []fields{says("user", "Hello."), says("assistant", "Hi.")}, "metadata": fields{"k": "v"}}, nil, http.StatusOK)
				if !strings.HasPrefix(c.ID, "conv_") || c.Object != "conversation" || c.Metadata["k"] != "v" {
					t.Fatalf("%+v", c)
				}
				tools := []fields{functionTool("localSearch")}
				first := s.respond(asks(`tool:1 localSearch {"query":"n"}`, fields{"conversation": c.ID, "tools": tools, "stream": stream}), nil)
				if len(first.calls()) != 1 {
					t.Fatalf("%+v", first)
				}
				output := []fields{{"type": "function_call_output", "call_id": first.calls()[0].CallID, "output": "found"}}
				second := s.respond(asks(output, fields{"conversation": fields{"id": c.ID}, "tools": tools, "stream": stream, "store": false}), nil)
				s.respond(asks("say:Bye.", fields{"conversation": c.ID, "stream": stream, "background": !stream}), nil)
				waitFor(t, "the last response", func() bool {
					list, _ := s.conversation(http.MethodGet, "/"+c.ID+"/items?limit=1", nil, nil, http.StatusOK)
					return list.Data[0].Content != nil && list.Data[0].Content[0].Text == "Bye."
				})
				request, _ := s.model.Last()
				want := []string{
					"user: Hello.", "assistant: Hi.", `user: tool:1 localSearch {"query":"n"}`,
					"call " + first.calls()[0].CallID + ` localSearch({"query":"n"})`, "output " + first.calls()[0].CallID + " found",
					"assistant: " + second.text(), "user: say:Bye.",
				}
				if got := describe(request); !slices.Equal(got[len(got)-len(want):], want) {
					t.Errorf("the model was given %q", got)
				}
				list, _ := s.conversation(http.MethodGet, "/"+c.ID+"/items?order=asc&limit=100", nil, nil, http.StatusOK)
				ids := make(map[string]bool)
				for _, item := range list.Data {
					ids[item.ID] = true
				}
				if len(list.Data) != 8 || len(ids) != 8 || list.HasMore {
					t.Errorf("%+v", list)
				}
				_, refused := s.refuseResponse(asks("q", fields{"previous_response_id": first.ID}), nil)
				if !strings.Contains(*refused.Error.Message, "conversation") {
					t.Errorf("a response of a conversation is followed: %s", encodeJSON(refused))
				}
			})
		})
	}
}

// TestConversationObjects creates, changes and deletes conversations and items.
func TestConversationObjects(t *testing.T) {
	s := newSite(t, "api_key sk-ann ann\napi_key sk-bob bob")
	ann, bob := bearer("sk-ann"), bearer("sk-bob")
	c, _ := s.conversation(http.MethodPost, "", nil, ann, http.StatusOK)
	path := "/" + c.ID
	if again, _ := s.conversation(http.MethodPost, path, fields{"metadata": fields{"topic": "x"}}, ann, http.StatusOK); again.Metadata["topic"] != "x" || again.ID != c.ID {
		t.Errorf("%+v", again)
	}
	added, _ := s.conversation(http.MethodPost, path+"/items", fields{"items": []fields{{"id": "mine", "role": "user", "content": "one"}, says("user", "two")}}, ann, http.StatusOK)
	if len(added.Data) != 2 || added.FirstID != added.Data[0].ID || added.Data[0].ID == "mine" {
		t.Fatalf("%+v", added)
	}
	item := path + "/items/" + added.Data[0].ID
	if _, body := s.conversation(http.MethodGet, item, nil, ann, http.StatusOK); !strings.Contains(body, `"one"`) {
		t.Error(body)
	}
	for _, other := range []string{path, path + "/items", item} {
		s.conversation(http.MethodGet, other, nil, bob, http.StatusNotFound)
	}
	s.conversation(http.MethodDelete, path, nil, bob, http.StatusNotFound)
	s.conversation(http.MethodDelete, item, nil, bob, http.StatusNotFound)
	if _, refused := s.refuseResponse(asks("q", fields{"conversation": c.ID}), bob); *refused.Error.Param != "conversation" {
		t.Errorf("%s", encodeJSON(refused))
	}
	if left, _ := s.conversation(http.MethodDelete, item, nil, ann, http.StatusOK); left.Object != "conversation" || left.Metadata["topic"] != "x" {
		t.Errorf("%+v", left)
	}
	s.conversation(http.MethodGet, item, nil, ann, http.StatusNotFound)
	if list, _ := s.conversation(http.MethodGet, path+"/items", nil, ann, http.StatusOK); len(list.Data) != 1 {
		t.Errorf("%+v", list)
	}
	for _, request := range []fields{
		{"items": "x"}, {"items": []fields{{"type": "item_reference", "id": "x"}}}, {}, {"items": slices.Repeat([]fields{says("user", "x")}, 21)},
	} {
		s.conversation(http.MethodPost, path+"/items", request, ann, http.StatusBadRequest)
	}
	s.conversation(http.MethodPost, path, fields{"metadata": fields{"k": 1}}, ann, http.StatusBadRequest)
	for _, request := range []fields{
		{"conversation": c.ID, "previous_response_id": "resp_x"}, {"conversation": 5}, {"conversation": fields{}}, {"previous_response_id": c.ID},
	} {
		if answer, refused := s.refuseResponse(asks("q", request), ann); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", encodeJSON(request), encodeJSON(refused))
		}
	}
	if gone, _ := s.conversation(http.MethodDelete, path, nil, ann, http.StatusOK); !gone.Deleted || gone.Object != "conversation.deleted" {
		t.Errorf("%+v", gone)
	}
	s.conversation(http.MethodGet, path, nil, ann, http.StatusNotFound)
	s.load(s.caddyfile("response_store off"))
	s.waitReady()
	if _, body := s.conversation(http.MethodPost, "", nil, nil, http.StatusBadRequest); !strings.Contains(body, "response_store") {
		t.Error(body)
	}
	if _, refused := s.refuseResponse(asks("q", fields{"conversation": c.ID}), nil); *refused.Error.Param != "conversation" || !strings.Contains(*refused.Error.Message, "response_store") {
		t.Errorf("%s", encodeJSON(refused))
	}
}
