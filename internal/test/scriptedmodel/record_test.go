package scriptedmodel

import (
	"bytes"
	"reflect"
	"testing"
)

// TestRequests checks that Requests returns decoded copies.
func TestRequests(t *testing.T) {
	s := start(t)
	if _, ok := s.Last(); ok {
		t.Error("there is a last request before the first")
	}
	s.prompt("say:one", nil)
	s.refused("{", 400)
	s.prompt("say:three", object{
		"instructions": "Be brief.", "tool_choice": "auto", "parallel_tool_calls": false, "store": false,
		"reasoning":        object{"effort": "high", "summary": "auto"},
		"text":             object{"verbosity": "low", "format": object{"type": "text"}},
		"prompt_cache_key": "k", "include": []any{"x"}, "client_metadata": object{"a": "b"},
		"tools": []any{object{"type": "function", "name": "f", "strict": true, "parameters": object{}}},
	})
	requests := s.Requests()
	if len(requests) != 3 || requests[0].UserText() != "say:one" || string(requests[1].Body) != "{" {
		t.Fatalf("requests %+v", requests)
	}
	got := requests[2]
	want := Request{
		Number: 3, At: got.At, Header: got.Header, Body: got.Body, Delivery: Delivery{Transport: HTTP, Bytes: len(got.Body)},
		Model: "gpt-5", Stream: true, Instructions: "Be brief.",
		Input:      []Item{{Type: "message", Role: "user", Content: Content{{Type: "input_text", Text: "say:three"}}}},
		Tools:      []Tool{{Type: "function", Name: "f", Strict: true, Parameters: []byte("{}"), Raw: got.Tools[0].Raw}},
		ToolChoice: []byte(`"auto"`), ParallelToolCalls: new(false), Store: new(false),
		Text:      Text{Format: Format{Type: "text"}, Verbosity: "low"},
		Reasoning: Reasoning{Effort: "high", Summary: "auto"}, PromptCacheKey: "k",
		Include: []string{"x"}, Metadata: map[string]string{"a": "b"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the request is\n%+v, want\n%+v", got, want)
	}
	if got.Header.Get("User-Agent") == "" {
		t.Errorf("the header is %v", got.Header)
	}
}

// TestRequestsBound checks that the oldest requests are dropped, by number and by
// size.
func TestRequestsBound(t *testing.T) {
	s := start(t)
	s.log.limit = 2
	for range 5 {
		s.prompt("say:x", nil)
	}
	requests := s.Requests()
	if len(requests) != 2 || requests[0].Number != 4 || requests[1].Number != 5 {
		t.Errorf("kept %+v", requests)
	}
	if stats := s.Stats(); stats.Requests != 5 || stats.Finished != 5 {
		t.Errorf("stats %+v", stats)
	}

	r := New(Options{}).log
	big := bytes.Repeat([]byte{' '}, maxKeptBytes/2)
	for range 3 {
		r.add(&Request{Body: big})
	}
	if len(r.kept) != 2 || r.bytes != maxKeptBytes || r.kept[0].Number != 2 {
		t.Errorf("kept %d bodies of %d bytes, the first is number %d", len(r.kept), r.bytes, r.kept[0].Number)
	}
}
