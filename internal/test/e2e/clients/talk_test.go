package clients

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// talkPrompts are the turns of a conversation: plain ones, with white space around the
// answer, in several messages, with rounds of calls, with and without a text and reasoning.
// MARK names the conversation.
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

// check checks the conversations of a client: the answers, and how often the model was asked in
// another thread than before.
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

// inputOf returns what the model was asked.
func inputOf(t *testing.T, r scriptedmodel.Request) (input e2e.ModelInput) {
	t.Helper()
	if err := json.Unmarshal(r.Body, &input); err != nil {
		t.Fatal(err)
	}
	return input
}

// TestObsidianConversation has a conversation as Obsidian Copilot 3.1 does: the system
// prompt is a message of the assistant, calls are blocks in the text of answers, which it
// trims, and results are messages of the user.
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
		if err != nil {
			t.Fatal(err)
		}
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
