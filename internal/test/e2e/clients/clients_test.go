package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// seen is what a client got in a case.
type seen struct {
	Way, Case string
	Content   string
	Reasoning string
	Calls     []seenCall
	Finish    string
	Usage     seenUsage
	Object    any
	Error     *seenError
}

type seenCall struct {
	Name      string
	Arguments any // parsed
}

type seenUsage struct{ Input, Cached, Output, Reasoning, Total int64 }

type seenError struct {
	Class      string
	Status     int
	Code       string
	Message    string
	RetryAfter string
}

// realClient is a client with its differences to the others.
type realClient struct {
	name      string
	whole     []string // its methods without streaming
	streamed  []string // its methods with streaming
	reasoning bool     // it reads reasoning_content
	// classes returns its error class for a status, or for an error within a
	// stream (0).
	classes func(status int) string
	run     func(s *e2e.Site) []seen
	// omits removes from an expectation what the client does not show; nil: it shows all.
	omits func(want *seen)
}

var realClients = []realClient{
	{"openai", []string{"create"}, []string{"create, stream", "stream", "events"}, false, nodeErrors, node("openai"), nil},
	{"ai with @ai-sdk/openai", []string{"generate"}, []string{"stream"}, false, vercelErrors, node("ai-openai"), nil},
	{"ai with @ai-sdk/openai-compatible", []string{"generate"}, []string{"stream"}, true, vercelErrors, node("ai-compatible"), nil},
	{"@langchain/openai", []string{"invoke"}, []string{"stream"}, true, nodeErrors, node("langchain"), nil},
	{"@langchain/langgraph", []string{"invoke"}, []string{"stream"}, true, nodeErrors, node("langgraph"), langGraphOmits},
	{"@openai/agents", []string{"run"}, []string{"run, stream"}, false, nodeErrors, node("agents-chat"), agentsOmit},
	{"@mastra/core", []string{"generate"}, []string{"stream"}, true, mastraErrors, node("mastra"), mastraOmits},
	{"genkit", []string{"generate"}, []string{"stream"}, true, genkitErrors, node("genkit"), genkitOmits},
	{"llamaindex", []string{"chat"}, []string{"stream"}, false, nodeErrors, node("llamaindex"), llamaIndexOmits},
	{"openai, responses", []string{"create"}, []string{"stream"}, false, responseErrors, node("responses"), nil},
	{"ai with @ai-sdk/openai, responses", []string{"generate"}, []string{"stream"}, true, vercelErrors, node("ai-responses"), nil},
	{"@openai/agents, responses", []string{"run"}, []string{"run, stream"}, false, responseErrors, node("agents-responses"), agentsOmit},
	{"@anthropic-ai/sdk", []string{"create"}, []string{"create, stream", "stream"}, true, anthropicErrors, node("anthropic"), anthropicOmits},
	{"ai with @ai-sdk/anthropic", []string{"generate"}, []string{"stream"}, false, vercelErrors, node("ai-anthropic"), vercelAnthropicOmits},
	{"@langchain/anthropic", []string{"invoke"}, []string{"stream"}, true, nodeErrors, node("langchain-anthropic"), langChainAnthropicOmits},
	{"ollama", []string{"chat"}, []string{"chat, stream"}, true, ollamaErrors, node("ollama"), ollamaOmits},
	{"@langchain/ollama", nil, []string{"invoke", "stream"}, true, ollamaErrors, node("langchain-ollama"), ollamaOmits},
	{"ai with ollama-ai-provider-v2", []string{"generate"}, []string{"stream"}, true, vercelOllamaErrors, node("ai-ollama"), vercelOllamaOmits},
	{"ollama/api", []string{"Chat"}, []string{"Chat, stream"}, true, goOllamaErrors, runGoOllama, ollamaOmits},
	{"openai-go", []string{"New"}, []string{"NewStreaming"}, false, goErrors, runGo, nil},
	{"sashabaranov/go-openai", []string{"CreateChatCompletion"}, []string{"CreateChatCompletionStream"}, true, goOpenAIErrors, runGoOpenAI, goOpenAIOmits},
}

// otherAPIs matches the names of clients of other APIs than OpenAI's.
var otherAPIs = regexp.MustCompile("anthropic|ollama")

// TestClients runs every client of OpenAI's API with the same cases.
func TestClients(t *testing.T) { runClients(t, false, "") }

// TestOtherClients runs those of Anthropic's and Ollama's.
func TestOtherClients(t *testing.T) { runClients(t, true, "ollama on") }

func runClients(t *testing.T, other bool, options string) {
	needNode(t)
	s := e2e.NewSite(t, options)
	if other {
		testOllamaRequests(t, s)
	}
	s.Model.On(fillForm)
	for _, client := range realClients {
		if otherAPIs.MatchString(client.name) != other {
			continue
		}
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			saw := client.run(s.At(t))
			for _, way := range slices.Concat(client.whole, client.streamed) {
				for _, c := range clientCases {
					t.Run(way+"/"+c.Name, func(t *testing.T) {
						i := slices.IndexFunc(saw, func(s seen) bool { return s.Way == way && s.Case == c.Name })
						if i < 0 {
							t.Fatal("the client told nothing")
						}
						client.check(t, c, saw[i])
					})
				}
			}
		})
	}
}

// needNode skips the test if the clients cannot run.
func needNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		needs.Missing(t, "most of these clients need Node.js 20 or later: install it to run this test")
	}
	// npm writes this file after the installation.
	if _, err := os.Stat("node_modules/.package-lock.json"); err != nil {
		needs.Missing(t, "the clients are not installed: run `make deps`")
	}
}

// check compares what the client got with the case.
func (client realClient) check(t *testing.T, c clientCase, got seen) {
	if c.status != 0 || got.Error != nil {
		client.checkError(t, c, got)
		return
	}
	want := seen{
		Way: got.Way, Case: got.Case,
		Content: c.content, Calls: c.calls, Finish: c.finish, Object: c.object,
		Usage: seenUsage{Input: 123, Cached: 23, Output: 45, Reasoning: 5, Total: 168},
	}
	if client.reasoning {
		want.Reasoning = c.reasoning
	}
	if client.responses() {
		// There, two messages are two items without a separator.
		want.Content = strings.TrimSpace(want.Content)
	}
	if client.omits != nil {
		client.omits(&want)
	}
	if client.name == "@langchain/anthropic" && got.Way == "stream" && got.Usage.Input > 0 {
		// It reads the input where a stream begins, which is an estimate.
		want.Usage.Input, want.Usage.Cached, want.Usage.Total = got.Usage.Input, 0, got.Usage.Input+got.Usage.Output
	}
	if len(got.Calls) == 0 {
		got.Calls = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the client saw\n%+v\nwant\n%+v", got, want)
	}
}

func (client realClient) checkError(t *testing.T, c clientCase, got seen) {
	if got.Error == nil {
		t.Fatalf("the client saw no error but %+v", got)
	}
	status, told := c.status, got.Error.Code
	if c.cut && slices.Contains(client.streamed, got.Way) {
		// The status was sent before the cut. Clients that do not read the code
		// have the whole error in their message.
		status, told = 0, told+got.Error.Message
	}
	code := c.code
	if status == 0 && client.responses() {
		code = "server_error" // OpenAI has few codes there
	}
	want := seen{Way: got.Way, Case: got.Case, Error: &seenError{Class: client.classes(status), Status: status, Code: code}}
	if c.retry {
		want.Error.RetryAfter = "any"
	}
	if client.omits != nil {
		client.omits(&want)
	}
	if got.Error.Status != want.Error.Status || got.Error.Class != want.Error.Class ||
		!strings.Contains(told, want.Error.Code) || got.Error.Message == "" ||
		(got.Error.RetryAfter != "") != (want.Error.RetryAfter != "") {
		t.Errorf("the client saw %+v; want %+v", *got.Error, *want.Error)
	}
}

// responses reports whether the client uses the Responses API.
func (client realClient) responses() bool { return strings.HasSuffix(client.name, "responses") }

// responseErrors returns the error classes of the Node SDK. A response that failed in a
// stream is not an error there; the client's script turns it into one.
func responseErrors(status int) string {
	if status == 0 {
		return "FailedResponse"
	}
	return nodeErrors(status)
}

// nodeErrors returns the error classes of the official Node SDK.
func nodeErrors(status int) string {
	switch {
	case status == 429:
		return "RateLimitError"
	case status == 400:
		return "BadRequestError"
	case status >= 500:
		return "InternalServerError"
	}
	return "APIError"
}

// anthropicErrors returns the error classes of Anthropic's SDK.
func anthropicErrors(status int) string {
	if status == http.StatusServiceUnavailable {
		return "OverloadedError"
	}
	return nodeErrors(status)
}

// vercelErrors returns the error classes of the AI SDK. It has one, and passes errors
// in streams through.
func vercelErrors(status int) string {
	if status == 0 {
		return "object"
	}
	return "AI_APICallError"
}

// mastraErrors returns the error classes of Mastra, which has a copy of the AI SDK.
func mastraErrors(status int) string {
	if status == 0 {
		return "Error"
	}
	return vercelErrors(status)
}

// ollamaErrors returns the error classes of Ollama's client in Node.
func ollamaErrors(status int) string {
	if status == 0 {
		return "Error"
	}
	return "ResponseError"
}

// vercelOllamaErrors returns the error classes of the AI SDK, whose provider for Ollama drops
// errors within streams.
func vercelOllamaErrors(status int) string {
	if status == 0 {
		return "Error"
	}
	return vercelErrors(status)
}

// goOllamaErrors returns the error classes of Ollama's client in Go.
func goOllamaErrors(status int) string {
	if status == 0 {
		return "error"
	}
	return "StatusError"
}

// genkitErrors returns the only error class of Genkit.
func genkitErrors(int) string { return "GenkitError" }

func goErrors(status int) string {
	if status == 0 {
		return "error"
	}
	return "Error"
}

// goOpenAIErrors returns the only error class of go-openai.
func goOpenAIErrors(int) string { return "APIError" }

// node runs all cases with a client in clients/ in one process.
func node(client string) func(*e2e.Site) []seen {
	return func(s *e2e.Site) []seen {
		s.T.Helper()
		return decodeLines[seen](s.T, runNode(s, "run.js", client, clientCases))
	}
}

// runNode runs a script in clients/ with a client, with input as JSON, and returns what it
// writes.
func runNode(s *e2e.Site, script, client string, input any) []byte {
	s.T.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		s.T.Fatal(err)
	}
	// A script sends many requests, beside those of other clients.
	ctx, cancel := context.WithTimeout(context.Background(), 4*e2e.Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script, client, s.URL+"/v1")
	// Clients read keys and endpoints from the environment, so they get a clean one.
	// Node's own warnings do not matter.
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.T.TempDir(), "NODE_NO_WARNINGS=1",
		"MASTRA_OFFLINE=1", "MASTRA_TELEMETRY_DISABLED=1",
	}
	cmd.Stdin = bytes.NewReader(text)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		s.T.Fatalf("node: %v\n%s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		s.T.Errorf("the client complains:\n%s", stderr.String())
	}
	return stdout
}

// decodeLines decodes the JSON object in each line.
func decodeLines[T any](t testing.TB, lines []byte) (all []T) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		all = append(all, one)
	}
	return all
}

// isForm reports whether a schema has the two members of the form.
func isForm(schema json.RawMessage) bool {
	var form struct {
		Properties struct{ Title, Count *struct{ Type string } }
	}
	err := json.Unmarshal(schema, &form)
	title, count := form.Properties.Title, form.Properties.Count
	return err == nil && title != nil && title.Type == "string" && count != nil && count.Type == "number"
}
