package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/browser"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(browsing{m})) }

// browsing closes the browser after the tests.
type browsing struct{ *testing.M }

// Run implements the parameter of [e2e.Main].
func (b browsing) Run() int {
	defer browser.Close()
	return b.M.Run()
}

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
	After      float64 // in seconds since the client began
}

// realClient is a client with its differences to the others.
type realClient struct {
	name      string
	whole     []string // its methods without streaming
	streamed  []string // its methods with streaming
	reasoning bool     // it reads reasoning_content
	// classes returns its error class for a status, or for an error within a stream (0).
	classes func(status int) string
	script  string                   // of a client in Node
	run     func(s *e2e.Site) []seen // runs another one
	// omits removes from an expectation what the client does not show; nil: it shows all.
	omits func(want *seen)
	// misses is how many requests leave the last one's thread, as the client changes the history.
	misses int
}

var realClients = []realClient{
	{"openai", []string{"create"}, []string{"create, stream", "stream", "events"}, false, nodeErrors, "openai", nil, nil, 0},
	{"ai with @ai-sdk/openai", []string{"generate"}, []string{"stream"}, false, vercelErrors, "ai-openai", nil, nil, 0},
	{"ai with @ai-sdk/openai-compatible", []string{"generate"}, []string{"stream"}, true, vercelErrors, "ai-compatible", nil, nil, 0},
	{"@langchain/openai", []string{"invoke"}, []string{"stream"}, true, nodeErrors, "langchain", nil, nil, 0},
	{"@langchain/langgraph", []string{"invoke"}, []string{"stream"}, true, nodeErrors, "langgraph", nil, langGraphOmits, 0},
	{"@openai/agents", []string{"run"}, []string{"run, stream"}, false, nodeErrors, "agents-chat", nil, agentsOmit, 0},
	{"@mastra/core", []string{"generate"}, []string{"stream"}, true, mastraErrors, "mastra", nil, mastraOmits, 0},
	{"genkit", []string{"generate"}, []string{"stream"}, true, genkitErrors, "genkit", nil, genkitOmits, 2},
	{"llamaindex", []string{"chat"}, []string{"stream"}, false, nodeErrors, "llamaindex", nil, llamaIndexOmits, 0},
	{"openai, responses", []string{"create"}, []string{"stream"}, false, responseErrors, "responses", nil, nil, 0},
	{"ai with @ai-sdk/openai, responses", []string{"generate"}, []string{"stream"}, true, vercelErrors, "ai-responses", nil, nil, 0},
	{"@openai/agents, responses", []string{"run"}, []string{"run, stream"}, false, responseErrors, "agents-responses", nil, agentsOmit, 0},
	{"@anthropic-ai/sdk", []string{"create"}, []string{"create, stream", "stream"}, true, anthropicErrors, "anthropic", nil, anthropicOmits, 0},
	{"ai with @ai-sdk/anthropic", []string{"generate"}, []string{"stream"}, false, vercelErrors, "ai-anthropic", nil, vercelAnthropicOmits, 0},
	{"@langchain/anthropic", []string{"invoke"}, []string{"stream"}, true, nodeErrors, "langchain-anthropic", nil, langChainAnthropicOmits, 0},
	{"ollama", []string{"chat"}, []string{"chat, stream"}, true, ollamaErrors, "ollama", nil, ollamaOmits, 0},
	{"@langchain/ollama", nil, []string{"invoke", "stream"}, true, ollamaErrors, "langchain-ollama", nil, ollamaOmits, 0},
	{"ai with ollama-ai-provider-v2", []string{"generate"}, []string{"stream"}, true, vercelOllamaErrors, "ai-ollama", nil, vercelOllamaOmits, 0},
	{"ollama/api", []string{"Chat"}, []string{"Chat, stream"}, true, goOllamaErrors, "", runGoOllama, ollamaOmits, 0},
	{"openai-go", []string{"New"}, []string{"NewStreaming"}, false, goErrors, "", runGo, nil, 0},
	{"sashabaranov/go-openai", []string{"CreateChatCompletion"}, []string{"CreateChatCompletionStream"}, true, goOpenAIErrors, "", runGoOpenAI, goOpenAIOmits, 0},
}

// nodeProcesses are the scripts that one Node runs: they share libraries, which take long to load.
var nodeProcesses = [][]string{
	{"openai", "responses", "agents-chat", "agents-responses", "langchain", "langgraph", "langchain-anthropic", "langchain-ollama", "anthropic", "ollama", "llamaindex"},
	{"ai-openai", "ai-compatible", "ai-responses", "ai-anthropic", "ai-ollama", "mastra", "genkit"},
}

// TestClients runs every client with the same cases. Those in Node also have conversations.
func TestClients(t *testing.T) {
	needNode(t)
	// The model writes its blocks without a pause, but a busy machine makes some.
	s := e2e.NewSite(t, "ollama on\nstop_after_tools burst 5s")
	testOllamaRequests(t, s)
	s.Model.On(fillForm)
	heard := hearTalks(s)
	for i, scripts := range nodeProcesses {
		t.Run(fmt.Sprint("Node ", i+1), func(t *testing.T) {
			t.Parallel()
			saw := runNode(s.At(t), scripts)
			for _, script := range scripts {
				client := realClients[slices.IndexFunc(realClients, func(c realClient) bool { return c.script == script })]
				t.Run(client.name, func(t *testing.T) {
					client.checkCases(t, saw[script].cases)
					heard.check(t, client, saw[script].talks)
				})
			}
		})
	}
	for _, client := range realClients {
		if client.run != nil {
			t.Run(client.name, func(t *testing.T) {
				t.Parallel()
				client.checkCases(t, client.run(s.At(t)))
			})
		}
	}
}

// seeCases asks all cases in one way. describe says what an error tells.
func seeCases(way string, ask func(clientCase) (seen, error), describe func(error) *seenError) (all []seen) {
	for _, c := range clientCases {
		begin := time.Now()
		saw, err := ask(c)
		if err != nil {
			saw = seen{Error: describe(err)}
			saw.Error.After = time.Since(begin).Seconds()
		}
		saw.Way, saw.Case = way, c.Name
		all = append(all, saw)
	}
	return all
}

// checkCases compares what the client got in all ways with the cases.
func (client realClient) checkCases(t *testing.T, saw []seen) {
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

func (client realClient) check(t *testing.T, c clientCase, got seen) {
	switch {
	case c.status != 0:
		client.checkError(t, c, got)
		return
	case got.Error != nil:
		t.Fatalf("the client saw %+v", *got.Error)
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
		// The status came before the cut. Clients that ignore the code have all in the message.
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
		inStream := strings.Contains(got.Error.Message, strconv.Itoa(status)) || strings.Contains(got.Error.Message, "the stream has no end") // of ai-ollama.js, whose client drops errors there
		if got.Error.After > 2 && status != 0 && slices.Contains(client.streamed, got.Way) && inStream {
			return // on a busy machine the error comes after the header, so it is in the stream, where its message names the status
		}
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

func anthropicErrors(status int) string {
	if status == http.StatusServiceUnavailable {
		return "OverloadedError"
	}
	return nodeErrors(status)
}

// vercelErrors has the AI SDK's only class. It passes errors in streams through.
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

func ollamaErrors(status int) string {
	if status == 0 {
		return "Error"
	}
	return "ResponseError"
}

// vercelOllamaErrors is the AI SDK's class. Its provider for Ollama drops errors within streams.
func vercelOllamaErrors(status int) string {
	if status == 0 {
		return "Error"
	}
	return vercelErrors(status)
}

func goOllamaErrors(status int) string {
	if status == 0 {
		return "error"
	}
	return "StatusError"
}

func genkitErrors(int) string { return "GenkitError" }

func goErrors(status int) string {
	if status == 0 {
		return "error"
	}
	return "Error"
}

func goOpenAIErrors(int) string { return "APIError" }

// nodeSaw is what a client in Node saw.
type nodeSaw struct {
	cases []seen
	talks []talked
}

// runNode runs clients in one process of Node, and returns what each of them saw, by their scripts.
func runNode(s *e2e.Site, scripts []string) map[string]nodeSaw {
	s.T.Helper()
	work := e2e.EncodeJSON(map[string]any{"cases": clientCases, "prompts": talkPrompts})
	// They send many requests, beside those of other clients.
	ctx, cancel := context.WithTimeout(context.Background(), 8*e2e.Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"run.js", s.URL + "/v1"}, scripts...)...)
	// Clean, since clients read keys and endpoints from it. Node's own warnings do not matter.
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.T.TempDir(), "NODE_NO_WARNINGS=1",
		"MASTRA_OFFLINE=1", "MASTRA_TELEMETRY_DISABLED=1",
	}
	cmd.Stdin = strings.NewReader(work)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		s.T.Fatalf("node: %v\n%s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		s.T.Errorf("the clients complain:\n%s", stderr.String())
	}
	saw := make(map[string]nodeSaw)
	for line := range bytes.Lines(stdout) {
		var one struct {
			Client string
			seen
			Answers []string
		}
		if err := json.Unmarshal(line, &one); err != nil {
			s.T.Fatalf("%v\n%s", err, line)
		}
		of := saw[one.Client]
		if one.Answers != nil {
			of.talks = append(of.talks, talked{one.Way, one.Answers})
		} else {
			of.cases = append(of.cases, one.seen)
		}
		saw[one.Client] = of
	}
	return saw
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

// talkPrompts are turns: plain, with white space around, in several messages, with rounds of calls,
// with and without text and reasoning. MARK names the conversation.
var talkPrompts = []string{
	"reason:Hm.; say:Hello, MARK.",
	"chunk=3; verbatim:  # Title\n\n- **one** 你好\n- two\n\n",
	`reason:a; say:I look.; tool:localSearch {"query": "one"}; tool:localSearch {"query":  "two"}; then; reason:b; tool:localSearch {"query":"three"}; then; say:Found.`,
	"reason:c; say:Well, <b>yes</b> & no.",
	`tool:3 localSearch {"query":"note %d"}`,
	"say:One.; reason:d; say:Two.",
	`say:I look again.; tool:localSearch {"query":"<ünï> \"a\\b\" 你好\u0007"}; then; say:Done.`,
	"say:Bye.",
}

// talkRequests is how many requests a conversation takes.
const talkRequests = 12

// talked is a conversation that a client had in one of its ways.
type talked struct {
	way     string
	answers []string
}

// heardTalks are the requests to the model of each conversation, by its name.
type heardTalks struct {
	mu       sync.Mutex
	requests map[string][]scriptedmodel.Request
}

// talkName matches the name of a conversation in the first item of its history.
var talkName = regexp.MustCompile(`say:Hello, (.+?)\.`)

// hearTalks keeps what the model is asked in conversations.
func hearTalks(s *e2e.Site) *heardTalks {
	h := &heardTalks{requests: make(map[string][]scriptedmodel.Request)}
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if name := talkName.FindSubmatch(r.Body); name != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.requests[string(name[1])] = append(h.requests[string(name[1])], r)
		}
		return scriptedmodel.Script{}, false
	})
	return h
}

// check checks a client's conversations: the answers, and how often a request changed the thread.
func (h *heardTalks) check(t *testing.T, client realClient, talks []talked) {
	t.Helper()
	if len(talks) == 0 {
		t.Error("there is no conversation")
	}
	for _, talk := range talks {
		if last := talk.answers[len(talk.answers)-1]; len(talk.answers) != len(talkPrompts) || last != "Bye." {
			t.Errorf("%s: the client was answered %q", talk.way, talk.answers)
		}
		h.mu.Lock()
		requests := h.requests[client.script+", "+talk.way]
		h.mu.Unlock()
		if len(requests) != talkRequests {
			t.Fatalf("%s: the model was asked %d times, not %d", talk.way, len(requests), talkRequests)
		}
		missed := 0
		for i, one := range requests[1:] {
			if one.PromptCacheKey == requests[i].PromptCacheKey || one.At.Sub(requests[i].At) >= e2e.ThreadWait {
				continue
			}
			if missed++; client.misses == 0 {
				t.Errorf("%s: request %d has another thread; it %v", talk.way, i+2, inputOf(t, one).Extends(inputOf(t, requests[i])))
			}
		}
		t.Logf("%s: %d of %d follow-ups went on in their thread", talk.way, len(requests)-1-missed, len(requests)-1)
		if missed > client.misses {
			t.Errorf("%s: %d misses, not %d", talk.way, missed, client.misses)
		}
	}
}

func inputOf(t *testing.T, r scriptedmodel.Request) (input e2e.ModelInput) {
	t.Helper()
	must.OK(t, json.Unmarshal(r.Body, &input))
	return input
}

// TestObsidianConversation talks as Obsidian Copilot 3.1: the assistant says the system prompt,
// calls are blocks in answers, which are trimmed, and the user says the results.
func TestObsidianConversation(t *testing.T) {
	s := e2e.NewSite(t, e2e.Patient)
	params := e2e.UserSays("say:Hello.")
	params.Messages = append([]openai.ChatCompletionMessageParamUnion{
		openai.AssistantMessage("You are Obsidian Copilot. To call a tool, write <use_tool><name>localSearch</name></use_tool>."),
	}, params.Messages...)
	for i, next := range []string{
		"reason:a; say:I look.; usetool:2 localSearch {\"query\":\"%d\"}",
		"Tool 'localSearch' result: found: 1\n\nTool 'localSearch' result: found: 2\nsay:Found.\n\n",
		"chunk=3; usetool:localSearch {\"query\":\"a < b\"}",
		"verbatim:# Title\n\n- one\n",
		"verbatim:<use_tool id=\"1\"><name>localSearch</name><query>b</query></use_tool>",
		"say:Bye.",
		"",
	} {
		answer, err := s.NewStreaming(params)
		must.OK(t, err)
		text := answer.Choices[0].Message.Content
		if blocks := i == 1 || i == 3 || i == 5; strings.Contains(text, "<use_tool>") != blocks {
			t.Errorf("answer %d is %q", i, text)
		}
		if i == 5 && text != "<use_tool><name>localSearch</name><query>b</query></use_tool>" {
			t.Errorf("the client does not run %q", text)
		}
		params.Messages = append(params.Messages, openai.AssistantMessage(strings.TrimSpace(text)), openai.UserMessage(next))
	}
	s.OneThread(7)
}
