package chat

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

func bothWays(t *testing.T, s *e2e.Site, test func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error))) {
	t.Run("whole", func(t *testing.T) { test(t, s.At(t).Complete) })
	t.Run("streamed", func(t *testing.T) { test(t, s.At(t).Stream) })
}

// TestHistories checks what the model gets of conversations in the forms of different clients.
func TestHistories(t *testing.T) { e2e.OverBoth(t, testHistories) }

func testHistories(t *testing.T) {
	s := e2e.NewSite(t, "")
	const helpful = "developer: You are a helpful assistant."
	for name, c := range map[string]struct {
		messages string
		heard    []string
	}{
		"system messages anywhere": {
			`{"role":"system","content":"one"},{"role":"developer","content":[{"type":"text","text":"two"}]},{"role":"user","content":"a"},` +
				`{"role":"system","content":"three"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"system","content":"four"}`,
			[]string{"developer: one\n\ntwo", "user: a", "developer: three", "assistant: b", "user: c", "developer: four"},
		},
		"instructions alone": {`{"role":"system","content":"one"}`, []string{"developer: one"}},
		"an assistant first": {
			`{"role":"assistant","content":"hello"},{"role":"user","content":"a"}`,
			[]string{helpful, "assistant: hello", "user: a"},
		},
		"an assistant last": {
			`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`,
			[]string{helpful, "user: a", "assistant: b"},
		},
		"nothing said": {
			`{"role":"system","content":null},{"role":"user","content":""},{"role":"assistant","content":null},{"role":"assistant","content":""},` +
				`{"role":"assistant","content":[]},{"role":"user","content":null},{"role":"user","content":[]}`,
			[]string{helpful, "user: ", "user: ", "user: "},
		},
		"calls with and without a text": {
			`{"role":"user","content":"a"},` +
				`{"role":"assistant","content":"b","refusal":null,"annotations":[],"audio":null,"function_call":null,"reasoning_content":"r","provider_specific_fields":null,` +
				`"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"n\": 1}"}},{"index":1,"id":"c2","function":{"name":"g","arguments":""}}]},` +
				`{"role":"tool","name":"g","tool_call_id":"c2","content":[{"type":"text","text":"two"},{"type":"text","text":"more"}]},{"role":"tool","tool_call_id":"c1","content":null},` +
				`{"role":"assistant","content":"","tool_calls":[{"id":"c3","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c3","content":"three"},` +
				`{"role":"assistant","content":"d","tool_calls":[]},{"role":"user","content":"e"}`,
			[]string{
				helpful, "user: a", "assistant: b", `call c1 f({"n": 1})`, "call c2 g({})", "output c2 two more", "output c1 ",
				"call c3 f({})", "output c3 three", "assistant: d", "user: e",
			},
		},
		"functions": {
			`{"role":"user","content":"a"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"one"}`,
			[]string{helpful, "user: a", "call function_call_1 f({})", "output function_call_1 one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			response, text := s.Post(`{"model":"gpt-5","messages":[`+c.messages+`]}`, nil)
			if response.StatusCode != http.StatusOK {
				t.Fatal(response.Status, text)
			}
			if got := s.Heard(); !slices.Equal(got, c.heard) {
				t.Errorf("the model heard\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(c.heard, "\n"))
			}
		})
	}
}

// TestSettings: the verbosity reaches the model. TestWarmup has the efforts.
func TestSettings(t *testing.T) { e2e.OverBoth(t, testSettings) }

func testSettings(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, verbosity := range []string{"low", "medium", "high"} {
		s.Post(e2e.ChatBody("say:x", map[string]any{"model": "gpt-5.5", "verbosity": verbosity}), nil)
		if request, _ := s.Model.Last(); request.Text.Verbosity != verbosity {
			t.Errorf("verbosity %s: the model got %q", verbosity, request.Text.Verbosity)
		}
	}
}
