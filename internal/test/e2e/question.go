package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// The values of x-proxy-output-mode.
const (
	ModeJSON = "openai-json"
	ModeXML  = "obsidian-xml"
)

// Question is a request about tools.
type Question struct {
	Prompt string // for the scripted model
	System string // system prompt, if not empty
	Mode   string // x-proxy-output-mode, if not empty
	Tools  bool   // declares localSearch
	Config string // name of the configuration that must answer, from reload; if empty, any
	More   map[string]any
}

// LoadedHeader has the name of the configuration that has answered.
const LoadedHeader = "X-Loaded"

// Taught is a system prompt that describes textual calls.
const Taught = "Call a tool as <use_tool><name>TOOL</name><query>TEXT</query></use_tool>."

// Body returns the request.
func (q Question) Body(stream bool) string {
	messages := []any{map[string]any{"role": "user", "content": q.Prompt}}
	if q.System != "" {
		messages = slices.Insert(messages, 0, any(map[string]any{"role": "system", "content": q.System}))
	}
	more := map[string]any{"messages": messages, "stream": stream}
	if q.Tools {
		more["tools"] = []any{Tool("localSearch")}
	}
	maps.Copy(more, q.More)
	return ChatBody(q.Prompt, more)
}

// Header returns the header of the request.
func (q Question) Header() http.Header {
	header := http.Header{}
	if q.Mode != "" {
		header.Set("X-Proxy-Output-Mode", q.Mode)
	}
	return header
}

// Reply is a finished answer, streamed or not.
type Reply struct {
	Null      bool     // the content is null
	Content   string   // the content if it is not null
	Pieces    []string // chunks of the content of a stream
	Reasoning string
	Calls     []string // in the form name(arguments)
	IDs       []string
	Finish    string
	Truncated bool // from the header or the last comment
	Counted   int  // number of calls from them, or -1
	Header    http.Header
}

// Ask sends a question and reads the answer.
func (s *Site) Ask(q Question, stream bool) Reply {
	s.T.Helper()
	return s.readReply(s.open(q, stream), stream)
}

// open sends a question until the right configuration answers.
func (s *Site) open(q Question, stream bool) *http.Response {
	s.T.Helper()
	var last error
	for end := time.Now().Add(Deadline); time.Now().Before(end); http.DefaultClient.CloseIdleConnections() {
		response, err := s.Chat(Context(s.T), q.Body(stream), q.Header())
		switch {
		case err == nil && (q.Config == "" || response.Header.Get(LoadedHeader) == q.Config):
			return response
		case err == nil:
			s.Read(response)
		case q.Config == "":
			s.T.Fatal(err)
		}
		last = err
	}
	s.T.Fatal("another configuration goes on answering: ", last)
	return nil
}

func (s *Site) readReply(response *http.Response, stream bool) Reply {
	s.T.Helper()
	text := s.Read(response)
	if response.StatusCode != http.StatusOK {
		s.T.Fatal(response.Status, text)
	}
	answer, err := apiclient.Read([]byte(text), apiclient.Chat, stream, 1)
	if err != nil || !answer.Ended || answer.Failed {
		s.T.Fatalf("%s: %v", text, err)
	}
	choice := answer.Choices[0]
	r := Reply{Header: response.Header, Content: choice.Text, Reasoning: choice.Reasoning, Finish: choice.Finish, Counted: -1}
	for _, c := range choice.Calls {
		r.Calls = append(r.Calls, c.Name+"("+c.Arguments+")")
		r.IDs = append(r.IDs, c.ID)
	}
	if !stream {
		r.Null = gjson.Get(text, "choices.0.message.content").Type == gjson.Null
		r.Truncated = response.Header.Get("X-Codex-Tool-Call-Truncated") == "true"
		if r.Counted, err = strconv.Atoi(response.Header.Get("X-Codex-Tool-Call-Count")); err != nil {
			s.T.Error(err)
		}
		return r
	}
	r.Null = r.Content == "" && len(r.Calls) > 0
	for frame := range strings.SplitSeq(text, "\n\n") {
		if data, ok := strings.CutPrefix(frame, "data: "); !ok {
			r.comment(frame)
		} else if piece := gjson.Get(data, "choices.0.delta.content").Str; piece != "" {
			r.Pieces = append(r.Pieces, piece)
		}
	}
	return r
}

// comment reads the counts in the last comment.
func (r *Reply) comment(frame string) {
	if counts, ok := strings.CutPrefix(frame, ": tool_calls="); ok {
		count, truncated, _ := strings.Cut(counts, " truncated=")
		r.Counted, _ = strconv.Atoi(count)
		r.Truncated = truncated == "true"
	}
}

// AskBoth sends a question with and without streaming, and expects the same answer.
func (s *Site) AskBoth(q Question) Reply {
	s.T.Helper()
	whole, streamed := s.Ask(q, false), s.Ask(q, true)
	for what, same := range map[string]bool{
		"content":   whole.Content == streamed.Content && whole.Null == streamed.Null,
		"reasoning": whole.Reasoning == streamed.Reasoning,
		"calls":     slices.Equal(whole.Calls, streamed.Calls),
		"finish":    whole.Finish == streamed.Finish,
		"truncated": whole.Truncated == streamed.Truncated,
	} {
		if !same {
			s.T.Errorf("streamed, the %s is another: %+v, not streamed %+v", what, streamed, whole)
		}
	}
	if whole.Counted != len(whole.Calls) || len(streamed.Calls) > 0 && streamed.Counted != len(streamed.Calls) {
		s.T.Errorf("%d calls, the header says %d, the comment %d", len(whole.Calls), whole.Counted, streamed.Counted)
	}
	return streamed
}

// Searches returns calls of localSearch with these queries.
func Searches(queries ...string) []string {
	var calls []string
	for _, q := range queries {
		calls = append(calls, `localSearch({"query":"`+q+`"})`)
	}
	return calls
}

// CheckReply compares content and calls. A nil content is null.
func CheckReply(t *testing.T, got Reply, content *string, calls []string, finish string) {
	t.Helper()
	switch {
	case got.Null != (content == nil), content != nil && got.Content != *content:
		want := "null"
		if content != nil {
			want = strconv.Quote(*content)
		}
		t.Errorf("content %q, null %t; want %s", got.Content, got.Null, want)
	case !slices.Equal(got.Calls, calls):
		t.Errorf("calls %q; want %q", got.Calls, calls)
	case got.Finish != finish:
		t.Errorf("finish %q; want %q", got.Finish, finish)
	}
}
