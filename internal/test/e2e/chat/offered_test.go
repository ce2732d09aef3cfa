package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestWhatTheModelIsOffered checks the request that reaches the model.
func TestWhatTheModelIsOffered(t *testing.T) { e2e.OverBoth(t, testWhatTheModelIsOffered) }

func testWhatTheModelIsOffered(t *testing.T) {
	s := e2e.NewSite(t, "")
	response, body := s.Post(strings.Replace(e2e.Conversation, "PIXEL", e2e.Pixel, 1), nil)
	if response.StatusCode != 200 || !strings.Contains(body, "A picture.") {
		t.Fatal(response.Status, body)
	}
	request, _ := s.Model.Last()
	want := []string{
		"developer: You are a librarian.\n\nAnswer in rhyme.",
		"user: Find <my> notes & more",
		"assistant: Looking.",
		`call call_a localSearch({"query": "notes" })`,
		"output call_a 3 notes",
		"developer: Be brief from here on.",
		"assistant: There are three.",
		"user: say:A picture. [image " + e2e.Pixel[:22] + "]",
	}
	got := e2e.Describe(request)
	if !slices.Equal(got, want) {
		t.Errorf("the model was given\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	e2e.CheckTools(t, request.Tools, "localSearch")
	e2e.CheckNothingOfTheHost(t, request)
}

// TestToolSchema checks that the model gets the client's declaration of a tool.
func TestToolSchema(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Post(strings.Replace(e2e.Conversation, "PIXEL", e2e.Pixel, 1), nil)
	request, _ := s.Model.Last()
	for _, tool := range request.Tools {
		if tool.Name != "localSearch" {
			continue
		}
		var schema struct {
			Required   []string
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		if tool.Description != "Search the vault" || !slices.Equal(schema.Required, []string{"query"}) || schema.Properties["query"].Type != "string" {
			t.Errorf("the model is offered %s", tool.Raw)
		}
		return
	}
	t.Error("the tool did not reach the model")
}

func TestToolChoice(t *testing.T) {
	s := e2e.NewSite(t, "")
	two := []any{e2e.Tool("localSearch"), e2e.Tool("readNote")}
	for name, c := range map[string]struct {
		choice any
		want   []string
	}{
		"auto":     {"auto", []string{"localSearch", "readNote"}},
		"none":     {"none", nil},
		"required": {"required", []string{"localSearch", "readNote"}},
		"named":    {map[string]any{"type": "function", "function": map[string]any{"name": "readNote"}}, []string{"readNote"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.At(t).Post(e2e.ChatBody("say:ok", map[string]any{"tools": two, "tool_choice": c.choice}), nil)
			request, _ := s.Model.Last()
			e2e.CheckTools(t, request.Tools, c.want...)
			told := strings.Contains(string(request.Body), "must call")
			if wanted := name == "required" || name == "named"; told != wanted {
				t.Errorf("the model is told to call a tool: %t; want %t", told, wanted)
			}
		})
	}
}

// TestSingleCall checks that an answer has one call if parallel_tool_calls is false.
func TestSingleCall(t *testing.T) {
	s := e2e.NewSite(t, "")
	_, body := s.Post(e2e.ChatBody(`tool:3 localSearch {"query":"%d"}`, map[string]any{
		"tools": []any{e2e.Tool("localSearch")}, "parallel_tool_calls": false,
	}), nil)
	if n := strings.Count(body, `"type":"function"`); n != 1 {
		t.Errorf("%d calls in %s", n, body)
	}
}
