package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// awkward are names of tools that Codex refuses, reserves, or accepts and does not
// offer. Clients can use them all.
var awkward = []string{"mcp", "mcp__vault__search", "exec_command", "shell_command", "request_user_input", "shell", "apply_patch", "update_plan", "view_image", "web_search"}

func TestAwkwardToolNames(t *testing.T) {
	s := newSite(t, "")
	for _, name := range awkward {
		t.Run(name, func(t *testing.T) {
			s := s.at(t)
			// The model calls the tool by the name that it got.
			remove := s.model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
				for _, tool := range r.Tools {
					if tool.Description == "Search the vault" {
						return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Call{Name: tool.Name, Arguments: `{"query":"x"}`}}}, true
					}
				}
				return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("not offered")}}, true
			})
			defer remove()
			params := userSays("find it")
			params.Tools = []openai.ChatCompletionToolUnionParam{searchTool(name)}
			got, err := s.stream(params)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.calls) != 1 || got.calls[0].Function.Name != name {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestManyToolsAtOnce checks a request with very many tools, also with awkward names.
func TestManyToolsAtOnce(t *testing.T) {
	s := newSite(t, "")
	var tools []any
	for i := range 200 {
		tools = append(tools, tool(fmt.Sprintf("tool_%d", i)))
	}
	for _, name := range awkward {
		tools = append(tools, tool(name))
	}
	response, body := s.post(chatBody("say:ok", map[string]any{"tools": tools}), nil)
	if response.StatusCode != http.StatusOK {
		t.Fatal(body)
	}
	request, _ := s.model.Last()
	if got := len(request.Tools); got < len(tools) {
		t.Errorf("%d tools offered of %d", got, len(tools))
	}
}

// TestUnknownToolGoesOn checks that Codex answers a call of an undeclared tool, and that
// the turn continues.
func TestUnknownToolGoesOn(t *testing.T) {
	s := newSite(t, "")
	bothWays(t, s, func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error)) {
		got, err := ask(userSays(`tool:nobodysTool {"a":1}; then; say:Without it then.`))
		if err != nil {
			t.Fatal(err)
		}
		if got.content != "Without it then." || len(got.calls) != 0 || got.finish != "stop" {
			t.Errorf("%+v", got)
		}
	})
}

// TestIncomplete checks the usage of incomplete responses, which Codex does not report
// but adds to the total of the thread.
func TestIncomplete(t *testing.T) { overBoth(t, testIncomplete) }

func testIncomplete(t *testing.T) {
	s := newSite(t, "")
	for reason, finish := range map[string]string{"max_output_tokens": "length", "content_filter": "content_filter"} {
		t.Run(reason, func(t *testing.T) {
			bothWays(t, s.at(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (answer, error)) {
				got, err := ask(userSays("usage:10,0,5,0; say:It stops be; incomplete:" + reason))
				if err != nil {
					t.Fatal(err)
				}
				if got.content != "It stops be" || got.finish != finish {
					t.Errorf("%+v", got)
				}
				if reason == "max_output_tokens" {
					checkUsage(t, got.usage, scriptedmodel.Usage{Input: 10, Output: 5})
				}
			})
		})
	}
}

// TestRetriedStream checks that when Codex retries a cut stream, a client without output
// gets the second answer, and one with output gets an error.
func TestRetriedStream(t *testing.T) { overBoth(t, testRetriedStream) }

func testRetriedStream(t *testing.T) {
	s := newSiteWith(t, codexhome.Options{StreamRetries: 2}, "")
	var cut scriptedmodel.Script
	asked := 0
	defer s.model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if asked++; asked == 1 {
			return cut, true
		}
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("the second attempt")}}, true
	})()

	cut = scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("")}, End: scriptedmodel.Cut{}}
	got, err := s.stream(userSays("hello"))
	if err != nil || got.content != "the second attempt" {
		t.Errorf("a cut before the first output: %+v, %v", got, err)
	}

	asked = 0
	cut.Output = []scriptedmodel.Output{scriptedmodel.Say("the first attempt")}
	if got, err := s.stream(userSays("hello")); err == nil {
		t.Errorf("a cut after some output: %+v; want an error", got)
	}
}
