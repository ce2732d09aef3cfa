package responses

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

var weatherTool = e2e.Fields{
	"type": "function", "name": "get_weather", "description": "Get the current weather of a place",
	"parameters": e2e.Fields{"type": "object", "properties": e2e.Fields{"location": e2e.Fields{"type": "string"}}, "required": []string{"location"}},
}

// TestOpenResponses runs Open Responses' compliance cases. Schemas check all bodies and events.
func TestOpenResponses(t *testing.T) {
	s := e2e.NewSite(t, "")
	callsWeather := `tool:1 get_weather {"location":"San Francisco, CA"}`

	t.Run("text", func(t *testing.T) {
		r := s.At(t).Respond(e2e.Asks([]e2e.Fields{e2e.Says("user", "say:Hello there, friend.")}, nil), nil)
		if r.Status != "completed" || r.Text() != "Hello there, friend." || r.Types() != "message" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("streaming", func(t *testing.T) {
		r := s.At(t).Respond(e2e.Asks([]e2e.Fields{e2e.Says("user", "chunk=2; say:1 2 3 4 5")}, e2e.Fields{"stream": true}), nil)
		want := "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
		// Deltas that arrive together may be one.
		if got := strings.Join(slices.Compact(r.EventTypes()), " "); got != want || r.Text() != "1 2 3 4 5" {
			t.Errorf("%s\n%s", got, r.Text())
		}
	})
	t.Run("system prompt", func(t *testing.T) {
		r := s.At(t).Respond(e2e.Asks([]e2e.Fields{e2e.Says("system", "You are a pirate."), e2e.Says("user", "say:Ahoy")}, nil), nil)
		if r.Status != "completed" || r.Text() != "Ahoy" {
			t.Errorf("%+v", r)
		}
		request, _ := s.Model.Last()
		if got := e2e.Describe(request); !slices.Equal(got, []string{"developer: You are a pirate.", "user: say:Ahoy"}) {
			t.Errorf("the model was given %q", got)
		}
	})
	t.Run("tool call", func(t *testing.T) {
		r := s.At(t).Respond(e2e.Asks([]e2e.Fields{e2e.Says("user", callsWeather)}, e2e.Fields{"tools": []e2e.Fields{weatherTool}}), nil)
		checkWeather(t, r)
	})
	t.Run("streaming tool call", func(t *testing.T) {
		r := s.At(t).Respond(e2e.Asks([]e2e.Fields{e2e.Says("user", callsWeather)}, e2e.Fields{"tools": []e2e.Fields{weatherTool}, "stream": true}), nil)
		checkWeather(t, r)
		want := "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed"
		if got := strings.Join(r.EventTypes(), " "); got != want {
			t.Error(got)
		}
	})
	t.Run("image", func(t *testing.T) {
		r := s.At(t).Respond(e2e.Asks([]e2e.Fields{{"type": "message", "role": "user", "content": []e2e.Fields{
			{"type": "input_text", "text": "say:One pixel."}, {"type": "input_image", "image_url": e2e.Pixel},
		}}}, nil), nil)
		if r.Status != "completed" || r.Text() != "One pixel." {
			t.Errorf("%+v", r)
		}
		request, _ := s.Model.Last()
		if got := e2e.Describe(request); !slices.Contains(got, "user: say:One pixel. [image "+e2e.Pixel[:22]+"]") {
			t.Errorf("the model was given %q", got)
		}
	})
	t.Run("round trip of a call", func(t *testing.T) {
		s := s.At(t)
		first := s.Respond(e2e.Asks(callsWeather, e2e.Fields{
			"tools": []e2e.Fields{weatherTool}, "tool_choice": e2e.Fields{"type": "function", "name": "get_weather"},
		}), nil)
		checkWeather(t, first)
		// The second request has no tools.
		output := e2e.Fields{"type": "function_call_output", "call_id": first.Calls()[0].CallID, "output": "64 degrees and clear"}
		second := s.Respond(e2e.Asks([]e2e.Fields{output}, e2e.Fields{"previous_response_id": first.ID}), nil)
		if second.Status != "completed" || second.Types() != "message" || !strings.Contains(second.Text(), "64 degrees") {
			t.Errorf("%+v", second)
		}
	})
	t.Run("previous response", func(t *testing.T) {
		s := s.At(t)
		first := s.Respond(e2e.Asks("say:OK", nil), nil)
		second := s.Respond(e2e.Asks("say:papaya", e2e.Fields{"previous_response_id": first.ID}), nil)
		if second.Status != "completed" || second.Text() != "papaya" {
			t.Errorf("%+v", second)
		}
		request, _ := s.Model.Last()
		if got := e2e.Describe(request)[1:]; !slices.Equal(got, []string{"user: say:OK", "assistant: OK", "user: say:papaya"}) {
			t.Errorf("the model was given %q", got)
		}
	})
	// Codex takes no files, and has no file search.
	t.Run("file", func(t *testing.T) {
		file := e2e.Fields{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjEK"}
		refusesFiles(s.At(t), e2e.Asks([]e2e.Fields{{"type": "message", "role": "user", "content": []e2e.Fields{{"type": "input_text", "text": "Read it."}, file}}}, nil), "input[0].content[1].type")
	})
	t.Run("file search", func(t *testing.T) {
		refusesFiles(s.At(t), e2e.Asks("Search it.", e2e.Fields{
			"tools":       []e2e.Fields{{"type": "file_search", "vector_store_ids": []string{"vs_1"}}},
			"tool_choice": e2e.Fields{"type": "file_search"}, "include": []string{"file_search_call.results"},
		}), "tool_choice.type")
	})
	t.Run("several turns", func(t *testing.T) {
		r := s.At(t).Respond(e2e.Asks([]e2e.Fields{
			e2e.Says("user", "My name is Alice."), e2e.Says("assistant", "Hello Alice!"), e2e.Says("user", "say:Alice."),
		}, nil), nil)
		if r.Status != "completed" || r.Text() != "Alice." {
			t.Errorf("%+v", r)
		}
		request, _ := s.Model.Last()
		if got := e2e.Describe(request)[1:]; !slices.Equal(got, []string{"user: My name is Alice.", "assistant: Hello Alice!", "user: say:Alice."}) {
			t.Errorf("the model was given %q", got)
		}
	})
}

func checkWeather(t *testing.T, r *e2e.Response) {
	t.Helper()
	calls := r.Calls()
	if r.Status != "completed" || len(r.Output) != 1 || len(calls) != 1 ||
		calls[0].Name != "get_weather" || calls[0].Arguments != `{"location":"San Francisco, CA"}` || calls[0].CallID == "" || calls[0].Status != "completed" {
		t.Errorf("%+v", r)
	}
}

// refusesFiles checks that a request is refused as unsupported, for this parameter.
func refusesFiles(s *e2e.Site, request e2e.Fields, param string) {
	s.T.Helper()
	response, refused := s.RefuseResponse(request, nil)
	if response.StatusCode != http.StatusBadRequest || *refused.Error.Param != param || *refused.Error.Code != "unsupported_parameter" {
		s.T.Errorf("%s %s", response.Status, e2e.EncodeJSON(refused))
	}
}

// TestOpenResponsesWebSearch searches without live pages. The schema knows the older name only.
func TestOpenResponsesWebSearch(t *testing.T) {
	s := e2e.NewSite(t, "web_search on")
	searchingModel(s)
	r := s.Respond(e2e.Asks("Find it.", e2e.Fields{
		"tools":       []e2e.Fields{{"type": "web_search", "external_web_access": false}},
		"tool_choice": e2e.Fields{"type": "web_search_preview"}, "include": []string{"web_search_call.action.sources"},
	}), nil)
	if r.Status != "completed" || r.Types() != "message web_search_call message" {
		t.Errorf("%+v", r)
	}
	request, _ := s.Model.Last()
	if body := string(request.Body); !strings.Contains(body, `"external_web_access":false`) {
		t.Errorf("the model was offered %s", body)
	}
}
