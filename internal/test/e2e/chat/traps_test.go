package chat

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// awkward are names of tools that Codex refuses, reserves, or accepts and does not
// offer. Clients can use them all.
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
			if err != nil {
				t.Fatal(err)
			}
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

// TestUnknownToolGoesOn checks that Codex answers a call of an undeclared tool, and that
// the turn continues.
func TestUnknownToolGoesOn(t *testing.T) {
	s := e2e.NewSite(t, "")
	bothWays(t, s, func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
		got, err := ask(e2e.UserSays(`tool:nobodysTool {"a":1}; then; say:Without it then.`))
		if err != nil {
			t.Fatal(err)
		}
		if got.Content != "Without it then." || len(got.Calls) != 0 || got.Finish != "stop" {
			t.Errorf("%+v", got)
		}
	})
}

// TestIncomplete checks the usage of incomplete responses, which Codex does not report
// but adds to the total of the thread.
func TestIncomplete(t *testing.T) { e2e.OverBoth(t, testIncomplete) }

func testIncomplete(t *testing.T) {
	s := e2e.NewSite(t, "")
	for reason, finish := range map[string]string{"max_output_tokens": "length", "content_filter": "content_filter"} {
		t.Run(reason, func(t *testing.T) {
			bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
				got, err := ask(e2e.UserSays("usage:10,0,5,0; say:It stops be; incomplete:" + reason))
				if err != nil {
					t.Fatal(err)
				}
				if got.Content != "It stops be" || got.Finish != finish {
					t.Errorf("%+v", got)
				}
				if reason == "max_output_tokens" {
					e2e.CheckUsage(t, got.Usage, scriptedmodel.Usage{Input: 10, Output: 5})
				}
			})
		})
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
