package e2e

import (
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
		want := "created in_progress output_item.added content_part.added " + strings.Repeat("output_text.delta ", 5) + "output_text.done content_part.done output_item.done completed"
		if got := strings.Join(r.eventTypes(), " "); got != want || r.text() != "1 2 3 4 5" {
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
