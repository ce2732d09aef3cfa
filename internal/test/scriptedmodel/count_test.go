package scriptedmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func message(role, text string) object {
	return object{"type": "message", "role": role, "content": text}
}

// counts returns the counts of the last request.
func (s *site) counts() [2]int {
	last, _ := s.Last()
	return [2]int{last.Tokens, last.Cached}
}

// TestCounts: a request has a quarter of its texts' bytes, and shares its beginning with an earlier one.
func TestCounts(t *testing.T) {
	s := start(t)
	s.prompt("say:x", nil)
	if got := s.counts(); got != [2]int{} {
		t.Errorf("without a window %v", got)
	}
	s.SetWindow(1000)
	long := strings.Repeat("word ", 80)
	ask := func(items ...object) [2]int {
		s.t.Helper()
		s.prompt("", object{"instructions": long, "input": items})
		return s.counts()
	}
	first, thought := message("user", long), object{"type": "reasoning", "id": "rs_1", "encrypted_content": long}
	if got := ask(first); got != [2]int{200, 0} {
		t.Errorf("the first has %v", got)
	}
	// The same with a history of 416 bytes more, whose members have another order.
	again := object{"content": []object{{"text": long, "type": "input_text"}}, "role": "user", "type": "message", "id": "msg_1"}
	if got := ask(again, thought, message("assistant", long), message("user", "Hi.\n")); got != [2]int{317, 200} {
		t.Errorf("the second has %v", got)
	}
	if got := ask(message("user", long+"!"), thought); got != [2]int{216, 100} {
		t.Errorf("another one has %v", got)
	}
	s.prompt("", object{"prompt_cache_key": "another", "instructions": long, "input": []object{first}})
	if got := s.counts(); got != [2]int{200, 0} {
		t.Errorf("with another key %v", got)
	}
	if got := ask(first, object{"type": "message", "role": "user", "content": []object{{"type": "input_image", "image_url": "data:"}}}); got != [2]int{1200, 200} {
		t.Errorf("an image has %v", got)
	}
}

// TestUsageWithWindow: the usage is that of the request, and what is too long fails.
func TestUsageWithWindow(t *testing.T) {
	s := start(t)
	s.SetWindow(100)
	for prompt, want := range map[string]string{
		"say:" + strings.Repeat("x", 36):           "response.completed 10 0 10",
		"say:abcd" + strings.Repeat("x", 396):      "response.failed context_length_exceeded",
		"usage:1,2,3,4; say:x":                     "response.completed 1 2 3",
		`tool:1 f {"a":"` + strings.Repeat("x", 9): "response.completed 6 0 5",
	} {
		response := s.post(deadline(t), body(prompt, nil))
		events, err := io.ReadAll(response.Body)
		must.OK(t, errors.Join(err, response.Body.Close()))
		last := gjson.Parse(string(events[bytes.LastIndex(events, []byte("data: "))+len("data: "):]))
		got := last.Get("type").Str + " " + last.Get("response.error.code").Str
		if usage := last.Get("response.usage"); usage.IsObject() {
			got += strings.Join([]string{usage.Get("input_tokens").Raw, usage.Get("input_tokens_details.cached_tokens").Raw, usage.Get("output_tokens").Raw}, " ")
		}
		if got != want {
			t.Errorf("%q: %s, want %s", prompt, got, want)
		}
	}
}

// TestCountsOverWebSocket: the whole history of a continued response was sent before.
func TestCountsOverWebSocket(t *testing.T) {
	s := start(t)
	s.SetWindow(1000)
	conn, _, err := websocket.Dial(deadline(t), strings.Replace(s.url, "http", "ws", 1)+"/v1/responses", nil)
	must.OK(t, err)
	defer func() { _ = conn.CloseNow() }()
	previous := ""
	ask := func(items ...object) [2]int {
		t.Helper()
		create, err := json.Marshal(object{"type": "response.create", "stream": true, "previous_response_id": previous, "input": items})
		must.OK(t, err)
		must.OK(t, conn.Write(deadline(t), websocket.MessageText, create))
		for {
			_, event, err := conn.Read(deadline(t))
			must.OK(t, err)
			if e := gjson.ParseBytes(event); e.Get("type").Str == "response.completed" {
				previous = e.Get("response.id").Str
				return s.counts()
			}
		}
	}
	said := strings.Repeat("x", 100)
	ask(message("user", "say:"+said))
	if got := ask(message("user", "say:y ; ")); got != [2]int{53, 51} {
		t.Errorf("the second has %v", got)
	}
	previous = "" // as after a reconnect, with the whole history as the client has it
	if got := ask(message("user", "say:"+said), message("assistant", said), message("user", "say:y ; "), message("user", "say:z ; ")); got != [2]int{55, 53} {
		t.Errorf("the third has %v", got)
	}
}
