package chat

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

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
	tool, _ := request.Tool("localSearch")
	schema := gjson.ParseBytes(tool.Parameters)
	if tool.Description != "Search the vault" || schema.Get("required.0").Str != "query" || schema.Get("properties.query.type").Str != "string" {
		t.Errorf("the model is offered %s", tool.Raw)
	}
	e2e.CheckNothingOfTheHost(t, request)
}

// awkward are tools' names that Codex refuses, reserves or never offers. Clients can use them all.
var awkward = []string{"mcp", "mcp__vault__search", "exec_command", "shell_command", "request_user_input", "shell", "apply_patch", "update_plan", "view_image", "web_search"}

func TestAwkwardToolNames(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, name := range awkward {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			// The model calls the tool by the name that it got.
			remove := s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
				for _, tool := range r.Tools {
					if tool.Description == "Search the vault" {
						return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Call{Name: tool.Name, Arguments: `{"query":"x"}`}}}, true
					}
				}
				return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("not offered")}}, true
			})
			defer remove()
			params := e2e.UserSays("find it")
			params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool(name)}
			got, err := s.Stream(params)
			must.OK(t, err)
			if len(got.Calls) != 1 || got.Calls[0].Function.Name != name {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestManyToolsAtOnce checks a request with very many tools, also with awkward names.
func TestManyToolsAtOnce(t *testing.T) {
	s := e2e.NewSite(t, "")
	var tools []any
	for i := range 200 {
		tools = append(tools, e2e.Tool(fmt.Sprintf("tool_%d", i)))
	}
	for _, name := range awkward {
		tools = append(tools, e2e.Tool(name))
	}
	response, body := s.Post(e2e.ChatBody("say:ok", map[string]any{"tools": tools}), nil)
	if response.StatusCode != http.StatusOK {
		t.Fatal(body)
	}
	request, _ := s.Model.Last()
	if got := len(request.Tools); got < len(tools) {
		t.Errorf("%d tools offered of %d", got, len(tools))
	}
}

// TestRetriedStream checks that when Codex retries a cut stream, a client without output
// gets the second answer, and one with output gets an error.
func TestRetriedStream(t *testing.T) { e2e.OverBoth(t, testRetriedStream) }

func testRetriedStream(t *testing.T) {
	s := e2e.NewSiteWith(t, codexhome.Options{StreamRetries: 2}, "")
	var cut scriptedmodel.Script
	asked := 0
	defer s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if asked++; asked == 1 {
			return cut, true
		}
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("the second attempt")}}, true
	})()

	cut = scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("")}, End: scriptedmodel.Cut{}}
	got, err := s.Stream(e2e.UserSays("hello"))
	if err != nil || got.Content != "the second attempt" {
		t.Errorf("a cut before the first output: %+v, %v", got, err)
	}

	asked = 0
	cut.Output = []scriptedmodel.Output{scriptedmodel.Say("the first attempt")}
	if got, err := s.Stream(e2e.UserSays("hello")); err == nil {
		t.Errorf("a cut after some output: %+v; want an error", got)
	}
}
