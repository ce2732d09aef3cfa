package scriptedmodel

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// channel is a WebSocket of a client.
type channel struct {
	t    *testing.T
	conn *websocket.Conn
}

// dial opens a WebSocket.
func (s *site) dial() *channel {
	s.t.Helper()
	header := http.Header{"Session-Id": {"the session"}}
	conn, _, err := websocket.Dial(deadline(s.t), s.url+"/v1/responses", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(maxBody)
	return &channel{s.t, conn}
}

func (c *channel) send(message string) {
	c.t.Helper()
	if err := c.conn.Write(deadline(c.t), websocket.MessageText, []byte(message)); err != nil {
		c.t.Fatal(err)
	}
}

// create sends a request for a response.
func (c *channel) create(prompt any, more object) {
	c.t.Helper()
	request := object{"type": "response.create", "model": "gpt-5", "input": prompt}
	for k, v := range more {
		request[k] = v
	}
	data, err := json.Marshal(request)
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(string(data))
}

// read reads the next message.
func (c *channel) read() (object, error) {
	c.t.Helper()
	_, data, err := c.conn.Read(deadline(c.t))
	if err != nil {
		return nil, err
	}
	var message object
	if err := json.Unmarshal(data, &message); err != nil {
		c.t.Fatal(err)
	}
	return message, nil
}

// answer reads messages until the end of a response or an error.
func (c *channel) answer() (a answer) {
	c.t.Helper()
	for {
		var e object
		if e, a.err = c.read(); a.err != nil {
			return a
		}
		a.events = append(a.events, e)
		switch e["type"] {
		case "response.completed", "response.failed", "response.incomplete":
			checkEvents(c.t, a.events)
			return a
		case "error":
			return a
		}
	}
}

// ask sends a request and reads its answer.
func (c *channel) ask(prompt any, more object) answer {
	c.t.Helper()
	c.create(prompt, more)
	return c.answer()
}

// id returns the id of the response.
func (a answer) id() string {
	id, _ := a.last().at("response", "id").(string)
	return id
}

// code returns the code of an error.
func (a answer) code() string {
	code, _ := a.last().at("error", "code").(string)
	return code
}

// TestSocketEvents checks that an answer over a WebSocket has the same events as over
// HTTP.
func TestSocketEvents(t *testing.T) {
	s := start(t)
	c := s.dial()
	for _, prompt := range []string{
		"say:Grüße, alle", "reason:one\n\ntwo; say:x", "tool:2 f {\"a\":%d}", "usetool:f {}",
		"say:x; fail:server_error", "say:x; incomplete:max_output_tokens", "usage:1,2,3,4; say:x", "hello",
	} {
		over, want := c.ask(prompt, nil), s.ask(body(prompt, nil))
		if over.types() != want.types() || over.text() != want.text() || len(over.calls()) != len(want.calls()) {
			t.Errorf("%s: %s %q; over HTTP %s %q", prompt, over.types(), over.text(), want.types(), want.text())
		}
	}
	stats, err := s.Wait(deadline(t), func(now Stats) bool { return now.Finished == 16 })
	if err != nil || stats.Requests != 16 || stats.Sockets != 1 {
		t.Errorf("stats %+v, %v", stats, err)
	}
}

// TestSocketChain checks that a warm-up and a response can be continued with new items
// only, and that the kept requests have their whole input.
func TestSocketChain(t *testing.T) {
	s := start(t)
	c := s.dial()
	said := func(role, text string) object { return object{"type": "message", "role": role, "content": text} }
	warm := c.ask([]object{said("developer", "Be brief.")}, object{"generate": false, "prompt_cache_key": "k"})
	if warm.types() != "created in_progress completed" || warm.last().at("response", "usage", "total_tokens") != 0.0 {
		t.Fatalf("the warm-up is answered with %v", warm.events)
	}
	first := c.ask([]object{said("user", `reason:hm; tool:f {"a":1}; then; say:done`)},
		object{"previous_response_id": warm.id(), "include": []string{"reasoning.encrypted_content"}})
	calls := first.calls()
	if len(calls) != 1 {
		t.Fatalf("the first answer is %v", first.events)
	}
	output := object{"type": "function_call_output", "call_id": "call_2_1", "output": "the result"}
	second := c.ask([]object{output}, object{"previous_response_id": first.id()})
	if second.text() != "done" {
		t.Fatalf("the second answer is %v", second.events)
	}
	if third := c.ask("say:x", object{"previous_response_id": second.id()}); third.text() != "x" {
		t.Fatalf("the third answer is %v", third.events)
	}

	warmups, requests := s.Warmups(), s.Requests()
	if len(warmups) != 1 || !warmups[0].IsWarmup() || warmups[0].PromptCacheKey != "k" || warmups[0].Number != 1 {
		t.Errorf("warm-ups %+v", warmups)
	}
	var got []string
	for _, r := range requests {
		var types []string
		for _, it := range r.Input {
			types = append(types, strings.TrimPrefix(it.Type+" "+it.Role, "message "))
		}
		got = append(got, strings.Join(types, ", "))
		if again, err := decode(r.Header, r.Body, r.Delivery); err != nil || len(again.Input) != len(r.Input) {
			t.Errorf("request %d has the body %s", r.Number, r.Body)
		}
		if r.Transport != WebSocket || r.Socket != 1 || r.NewItems != 1 || r.Bytes == 0 || r.Header.Get("Session-Id") != "the session" {
			t.Errorf("request %d: %+v, %v", r.Number, r.Delivery, r.Header)
		}
	}
	want := "developer, user; developer, user, reasoning , function_call , function_call_output ; " +
		"developer, user, reasoning , function_call , function_call_output , assistant, user"
	if strings.Join(got, "; ") != want {
		t.Errorf("the inputs are\n%s, want\n%s", strings.Join(got, "; "), want)
	}
	if it := requests[1].Input[2]; it.EncryptedContent == "" || requests[1].Input[3].Arguments != `{"a":1}` {
		t.Errorf("the input is %+v", requests[1].Input)
	}
	sum := warmups[0].Bytes
	for _, r := range requests {
		sum += r.Bytes
	}
	stats, err := s.Wait(deadline(t), func(now Stats) bool { return now.Finished == 3 })
	if err != nil || stats.Bytes != sum || stats.Warmups != 1 || stats.Requests != 3 {
		t.Errorf("stats %+v, %v, want %d bytes", stats, err, sum)
	}
}

// TestSocketErrors checks the messages for invalid requests. The WebSocket can be used
// afterwards, but earlier responses cannot be continued.
func TestSocketErrors(t *testing.T) {
	s := start(t)
	c := s.dial()
	for message, code := range map[string]string{
		`{`: "invalid_request", `7`: "invalid_request", `{"type":"response.cancel"}`: "invalid_request",
		`{"type":"response.create"}`:                                              "invalid_request",
		`{"type":"response.create","input":7}`:                                    "invalid_request",
		`{"type":"response.create","input":[7]}`:                                  "invalid_request",
		`{"type":"response.create","input":"x","previous_response_id":7}`:         "invalid_request",
		`{"type":"response.create","input":"x","previous_response_id":"resp_99"}`: "previous_response_not_found",
	} {
		c.send(message)
		if a := c.answer(); a.code() != code || a.last()["status"] != 400.0 {
			t.Errorf("%s: %v", message, a.events)
		}
	}
	for _, prompt := range []string{"http:503", "fail:server_error", "chunk=0"} {
		first := c.ask("say:one", nil)
		c.ask(prompt, object{"previous_response_id": first.id()})
		if a := c.ask("say:two", object{"previous_response_id": first.id()}); a.code() != "previous_response_not_found" {
			t.Errorf("after %s: %v", prompt, a.events)
		}
	}
	s.refused(body("say:x", object{"previous_response_id": "resp_1"}), 400) // HTTP does not support it
}
