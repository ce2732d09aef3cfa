package e2e

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// The values of x-proxy-output-mode.
const (
	modeJSON = "openai-json"
	modeXML  = "obsidian-xml"
)

// question is a request about tools.
type question struct {
	prompt string // for the scripted model
	system string // system prompt, if not empty
	mode   string // x-proxy-output-mode, if not empty
	tools  bool   // declares localSearch
	config string // name of the configuration that must answer, from reload; if empty, any
	more   map[string]any
}

// loadedHeader has the name of the configuration that has answered.
const loadedHeader = "X-Loaded"

// reload loads other options and returns the name of the configuration. For a moment
// after a reload, the old configuration may still accept connections, and the kernel
// resets those that wait in its listener.
func (s *site) reload(options string) string {
	s.t.Helper()
	name := rand.Text()
	s.load(s.wrap("header " + loadedHeader + " " + name + "\ncodex {\n" + s.appServer() + "\n" + options + "\n}"))
	return name
}

// taught is a system prompt that describes textual calls.
const taught = "Call a tool as <use_tool><name>TOOL</name><query>TEXT</query></use_tool>."

func (q question) body(stream bool) string {
	messages := []any{map[string]any{"role": "user", "content": q.prompt}}
	if q.system != "" {
		messages = slices.Insert(messages, 0, any(map[string]any{"role": "system", "content": q.system}))
	}
	more := map[string]any{"messages": messages, "stream": stream}
	if q.tools {
		more["tools"] = []any{tool("localSearch")}
	}
	for key, value := range q.more {
		more[key] = value
	}
	return chatBody(q.prompt, more)
}

func (q question) header() http.Header {
	header := http.Header{}
	if q.mode != "" {
		header.Set("X-Proxy-Output-Mode", q.mode)
	}
	return header
}

// reply is a finished answer, streamed or not.
type reply struct {
	null      bool     // the content is null
	content   string   // the content if it is not null
	pieces    []string // chunks of the content of a stream
	reasoning string
	calls     []string // in the form name(arguments)
	ids       []string
	finish    string
	truncated bool // from the header or the last comment
	counted   int  // number of calls from them, or -1
	tokens    int
	header    http.Header
}

// replyMessage is a message or a delta.
type replyMessage struct {
	Role      string               `json:"role"`
	Content   *string              `json:"content"`
	Reasoning string               `json:"reasoning_content"`
	Calls     []apiclient.ToolCall `json:"tool_calls"`
}

type replyBody struct {
	Choices []struct {
		Message replyMessage `json:"message"`
		Delta   replyMessage `json:"delta"`
		Finish  *string      `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
}

// ask sends a question and reads the answer.
func (s *site) ask(q question, stream bool) reply {
	s.t.Helper()
	response := s.open(q, stream)
	if stream {
		return s.readReply(response)
	}
	text := s.read(response)
	if response.StatusCode != http.StatusOK {
		s.t.Fatal(response.Status, text)
	}
	var body replyBody
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	choice := body.Choices[0]
	r := reply{header: response.Header, finish: *choice.Finish, reasoning: choice.Message.Reasoning, tokens: body.Usage.Total}
	r.null = choice.Message.Content == nil
	if !r.null {
		r.content = *choice.Message.Content
	}
	r.take(choice.Message.Calls)
	r.truncated = response.Header.Get("X-Codex-Tool-Call-Truncated") == "true"
	var err error
	if r.counted, err = strconv.Atoi(response.Header.Get("X-Codex-Tool-Call-Count")); err != nil {
		s.t.Error(err)
	}
	return r
}

// open sends a question until the right configuration answers.
func (s *site) open(q question, stream bool) *http.Response {
	s.t.Helper()
	var last error
	for end := time.Now().Add(deadline); time.Now().Before(end); http.DefaultClient.CloseIdleConnections() {
		request, err := http.NewRequestWithContext(testContext(s.t), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(q.body(stream)))
		if err != nil {
			s.t.Fatal(err)
		}
		request.Header = q.header()
		response, err := http.DefaultClient.Do(request)
		switch {
		case err == nil && (q.config == "" || response.Header.Get(loadedHeader) == q.config):
			return response
		case err == nil:
			s.read(response)
		case q.config == "":
			s.t.Fatal(err)
		}
		last = err
	}
	s.t.Fatal("another configuration goes on answering: ", last)
	return nil
}

func (r *reply) take(calls []apiclient.ToolCall) {
	for _, c := range calls {
		r.calls = append(r.calls, c.Function.Name+"("+c.Function.Arguments+")")
		r.ids = append(r.ids, c.ID)
	}
}

// readReply reads a stream and checks its form: the role first, one piece of text or of
// a call per chunk, one finish reason, the comment with the counts, and the end mark.
func (s *site) readReply(response *http.Response) reply {
	s.t.Helper()
	if response.StatusCode != http.StatusOK {
		s.t.Fatal(response.Status, s.read(response))
	}
	r := reply{header: response.Header, counted: -1}
	var calls []apiclient.ToolCall
	frames := strings.Split(s.read(response), "\n\n")
	for i, frame := range frames {
		data, ok := strings.CutPrefix(frame, "data: ")
		switch {
		case !ok:
			r.comment(frame)
			continue
		case data == "[DONE]":
			if i != len(frames)-2 {
				s.t.Errorf("frame %d of %d is the end mark", i, len(frames))
			}
			continue
		}
		var chunk replyBody
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || len(chunk.Choices) != 1 {
			s.t.Fatalf("%q: %v", frame, err)
		}
		choice := chunk.Choices[0]
		if (choice.Delta.Role == "assistant") != (i == 0) {
			s.t.Errorf("the role is not in the first chunk, or twice: %s", data)
		}
		if choice.Delta.Content != nil && *choice.Delta.Content != "" {
			r.pieces = append(r.pieces, *choice.Delta.Content)
		}
		r.reasoning += choice.Delta.Reasoning
		if choice.Finish != nil {
			r.finish += *choice.Finish
		}
		for _, c := range choice.Delta.Calls {
			if c.Index == len(calls) {
				calls = append(calls, c)
			} else {
				calls[c.Index].Function.Arguments += c.Function.Arguments
			}
		}
	}
	r.take(calls)
	r.content = strings.Join(r.pieces, "")
	r.null = r.content == "" && len(calls) > 0
	return r
}

// comment reads the counts in the last comment.
func (r *reply) comment(frame string) {
	if counts, ok := strings.CutPrefix(frame, ": tool_calls="); ok {
		count, truncated, _ := strings.Cut(counts, " truncated=")
		r.counted, _ = strconv.Atoi(count)
		r.truncated = truncated == "true"
	}
}

// askBoth sends a question with and without streaming, and expects the same answer.
func (s *site) askBoth(q question) reply {
	s.t.Helper()
	whole, streamed := s.ask(q, false), s.ask(q, true)
	for what, same := range map[string]bool{
		"content":   whole.content == streamed.content && whole.null == streamed.null,
		"reasoning": whole.reasoning == streamed.reasoning,
		"calls":     slices.Equal(whole.calls, streamed.calls),
		"finish":    whole.finish == streamed.finish,
		"truncated": whole.truncated == streamed.truncated,
	} {
		if !same {
			s.t.Errorf("streamed, the %s is another: %+v, not streamed %+v", what, streamed, whole)
		}
	}
	if whole.counted != len(whole.calls) || len(streamed.calls) > 0 && streamed.counted != len(streamed.calls) {
		s.t.Errorf("%d calls, the header says %d, the comment %d", len(whole.calls), whole.counted, streamed.counted)
	}
	return streamed
}

// useTool returns a block as the scripted model writes it.
func useTool(name, query string) string {
	return "<use_tool>\n<name>" + name + "</name>\n<query>" + query + "</query>\n</use_tool>"
}

// searches returns calls of localSearch with these queries.
func searches(queries ...string) []string {
	var calls []string
	for _, q := range queries {
		calls = append(calls, `localSearch({"query":"`+q+`"})`)
	}
	return calls
}

// checkReply compares content and calls. A nil content is null.
func checkReply(t *testing.T, got reply, content *string, calls []string, finish string) {
	t.Helper()
	switch {
	case got.null != (content == nil), content != nil && got.content != *content:
		want := "null"
		if content != nil {
			want = strconv.Quote(*content)
		}
		t.Errorf("content %q, null %t; want %s", got.content, got.null, want)
	case !slices.Equal(got.calls, calls):
		t.Errorf("calls %q; want %q", got.calls, calls)
	case got.finish != finish:
		t.Errorf("finish %q; want %q", got.finish, finish)
	}
}
