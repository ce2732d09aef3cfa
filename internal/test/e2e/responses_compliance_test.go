package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// weatherTool is the tool of the cases with a tool.
var weatherTool = fields{
	"type": "function", "name": "get_weather", "description": "Get the current weather of a place",
	"parameters": fields{"type": "object", "properties": fields{"location": fields{"type": "string"}}, "required": []string{"location"}},
}

// TestOpenResponses runs the compliance cases of Open Responses. Every body and event
// is checked against its schema.
func TestOpenResponses(t *testing.T) {
	s := newSite(t, "")
	callsWeather := `tool:1 get_weather {"location":"San Francisco, CA"}`

	t.Run("text", func(t *testing.T) {
		r := s.at(t).respond(asks([]fields{says("user", "say:Hello there, friend.")}, nil), nil)
		if r.Status != "completed" || r.text() != "Hello there, friend." || r.types() != "message" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("streaming", func(t *testing.T) {
		r := s.at(t).respond(asks([]fields{says("user", "chunk=2; say:1 2 3 4 5")}, fields{"stream": true}), nil)
		want := "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
		// Deltas that arrive together may be one.
		if got := strings.Join(slices.Compact(r.eventTypes()), " "); got != want || r.text() != "1 2 3 4 5" {
			t.Errorf("%s\n%s", got, r.text())
		}
	})
	t.Run("system prompt", func(t *testing.T) {
		r := s.at(t).respond(asks([]fields{says("system", "You are a pirate."), says("user", "say:Ahoy")}, nil), nil)
		if r.Status != "completed" || r.text() != "Ahoy" {
			t.Errorf("%+v", r)
		}
		request, _ := s.model.Last()
		if got := describe(request); !slices.Equal(got, []string{"developer: You are a pirate.", "user: say:Ahoy"}) {
			t.Errorf("the model was given %q", got)
		}
	})
	t.Run("tool call", func(t *testing.T) {
		r := s.at(t).respond(asks([]fields{says("user", callsWeather)}, fields{"tools": []fields{weatherTool}}), nil)
		checkWeather(t, r)
	})
	t.Run("streaming tool call", func(t *testing.T) {
		r := s.at(t).respond(asks([]fields{says("user", callsWeather)}, fields{"tools": []fields{weatherTool}, "stream": true}), nil)
		checkWeather(t, r)
		want := "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed"
		if got := strings.Join(r.eventTypes(), " "); got != want {
			t.Error(got)
		}
	})
	t.Run("image", func(t *testing.T) {
		r := s.at(t).respond(asks([]fields{{"type": "message", "role": "user", "content": []fields{
			{"type": "input_text", "text": "say:One pixel."}, {"type": "input_image", "image_url": pixel},
		}}}, nil), nil)
		if r.Status != "completed" || r.text() != "One pixel." {
			t.Errorf("%+v", r)
		}
		request, _ := s.model.Last()
		if got := describe(request); !slices.Contains(got, "user: say:One pixel. [image "+pixel[:22]+"]") {
			t.Errorf("the model was given %q", got)
		}
	})
	t.Run("round trip of a call", func(t *testing.T) {
		s := s.at(t)
		first := s.respond(asks(callsWeather, fields{
			"tools": []fields{weatherTool}, "tool_choice": fields{"type": "function", "name": "get_weather"},
		}), nil)
		checkWeather(t, first)
		// The second request has no tools.
		output := fields{"type": "function_call_output", "call_id": first.calls()[0].CallID, "output": "64 degrees and clear"}
		second := s.respond(asks([]fields{output}, fields{"previous_response_id": first.ID}), nil)
		if second.Status != "completed" || second.types() != "message" || !strings.Contains(second.text(), "64 degrees") {
			t.Errorf("%+v", second)
		}
	})
	t.Run("previous response", func(t *testing.T) {
		s := s.at(t)
		first := s.respond(asks("say:OK", nil), nil)
		second := s.respond(asks("say:papaya", fields{"previous_response_id": first.ID}), nil)
		if second.Status != "completed" || second.text() != "papaya" {
			t.Errorf("%+v", second)
		}
		request, _ := s.model.Last()
		if got := describe(request)[1:]; !slices.Equal(got, []string{"user: say:OK", "assistant: OK", "user: say:papaya"}) {
			t.Errorf("the model was given %q", got)
		}
	})
	// Codex takes no files, and has no file search.
	t.Run("file", func(t *testing.T) {
		file := fields{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjEK"}
		s.at(t).refusesFiles(asks([]fields{{"type": "message", "role": "user", "content": []fields{{"type": "input_text", "text": "Read it."}, file}}}, nil), "input[0].content[1].type")
	})
	t.Run("file search", func(t *testing.T) {
		s.at(t).refusesFiles(asks("Search it.", fields{
			"tools":       []fields{{"type": "file_search", "vector_store_ids": []string{"vs_1"}}},
			"tool_choice": fields{"type": "file_search"}, "include": []string{"file_search_call.results"},
		}), "tool_choice.type")
	})
	t.Run("several turns", func(t *testing.T) {
		r := s.at(t).respond(asks([]fields{
			says("user", "My name is Alice."), says("assistant", "Hello Alice!"), says("user", "say:Alice."),
		}, nil), nil)
		if r.Status != "completed" || r.text() != "Alice." {
			t.Errorf("%+v", r)
		}
		request, _ := s.model.Last()
		if got := describe(request)[1:]; !slices.Equal(got, []string{"user: My name is Alice.", "assistant: Hello Alice!", "user: say:Alice."}) {
			t.Errorf("the model was given %q", got)
		}
	})
}

func checkWeather(t *testing.T, r *response) {
	t.Helper()
	calls := r.calls()
	if r.Status != "completed" || len(r.Output) != 1 || len(calls) != 1 ||
		calls[0].Name != "get_weather" || calls[0].Arguments != `{"location":"San Francisco, CA"}` || calls[0].CallID == "" || calls[0].Status != "completed" {
		t.Errorf("%+v", r)
	}
}

// refusesFiles checks that a request is refused as unsupported, for this parameter.
func (s *site) refusesFiles(request fields, param string) {
	s.t.Helper()
	response, refused := s.refuseResponse(request, nil)
	if response.StatusCode != http.StatusBadRequest || *refused.Error.Param != param || *refused.Error.Code != "unsupported_parameter" {
		s.t.Errorf("%s %s", response.Status, encodeJSON(refused))
	}
}

// TestOpenResponsesWebSearch runs the case with a search that must not read live pages. The
// schema of a Response knows the choice of a search under its older name only.
func TestOpenResponsesWebSearch(t *testing.T) {
	s := newSite(t, "web_search on")
	searchingModel(s)
	r := s.respond(asks("Find it.", fields{
		"tools":       []fields{{"type": "web_search", "external_web_access": false}},
		"tool_choice": fields{"type": "web_search_preview"}, "include": []string{"web_search_call.action.sources"},
	}), nil)
	if r.Status != "completed" || r.types() != "message web_search_call message" {
		t.Errorf("%+v", r)
	}
	request, _ := s.model.Last()
	if body := string(request.Body); !strings.Contains(body, `"external_web_access":false`) {
		t.Errorf("the model was offered %s", body)
	}
}
