package clients

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
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

// talkers are the clients in clients/ that have conversations. Those with misses change
// the history.
var talkers = []struct {
	script string
	misses int
}{
	{"openai", 0},
	{"ai-openai", 0},
	{"ai-compatible", 0},
	{"langchain", 0},
	{"langgraph", 0},
	{"agents-chat", 0},
	{"mastra", 0},
	{"genkit", 2},
	{"llamaindex", 0},
	{"responses", 0},
	{"ai-responses", 0},
	{"agents-responses", 0},
	{"anthropic", 0},
	{"ai-anthropic", 0},
	{"langchain-anthropic", 0},
	{"ollama", 0},
	{"ai-ollama", 0},
	{"langchain-ollama", 0},
}

// TestClientConversations has conversations with every client, and counts the requests
// that go on in the thread of the one before.
func TestClientConversations(t *testing.T) {
	needNode(t)
	s := e2e.NewSite(t, "ollama on")
	t.Run("Ollama's API", func(t *testing.T) {
		t.Parallel()
		talkAsOllama(t, s.At(t))
	})
	for _, talker := range talkers {
		t.Run(talker.script, func(t *testing.T) {
			t.Parallel()
			s := s.At(t)
			type talked struct {
				Way     string
				Answers []string
			}
			for _, talk := range decodeLines[talked](t, runNode(s, "talk.js", talker.script, talkPrompts)) {
				checkTalk(s, talker.script+", "+talk.Way, talk.Answers, talker.misses)
			}
		})
	}
}

// TestObsidianConversation has a conversation as Obsidian Copilot 3.1 does: the system
// prompt is a message of the assistant, calls are blocks in the text of answers, which it
// trims, and results are messages of the user.
func TestObsidianConversation(t *testing.T) {
	s := e2e.NewSite(t, "")
	params := e2e.UserSays("say:Hello.")
	params.Messages = append([]openai.ChatCompletionMessageParamUnion{
		openai.AssistantMessage("You are Obsidian Copilot. To call a tool, write <use_tool><name>localSearch</name></use_tool>."),
	}, params.Messages...)
	for i, next := range []string{
		"reason:a; say:I look.; usetool:2 localSearch {\"query\":\"%d\"}",
		"Tool 'localSearch' result: found: 1\n\nTool 'localSearch' result: found: 2\nsay:Found.\n\n",
		"chunk=3; usetool:localSearch {\"query\":\"a < b\"}",
		"verbatim:# Title\n\n- one\n",
		"say:Bye.",
		"",
	} {
		answer, err := s.NewStreaming(params)
		if err != nil {
			t.Fatal(err)
		}
		text := answer.Choices[0].Message.Content
		if blocks := i == 1 || i == 3; strings.Contains(text, "<use_tool>") != blocks {
			t.Errorf("answer %d is %q", i, text)
		}
		params.Messages = append(params.Messages, openai.AssistantMessage(strings.TrimSpace(text)), openai.UserMessage(next))
	}
	s.OneThread(6)
}

// checkTalk checks a conversation: its answers, and how often the model was asked in
// another thread than before.
func checkTalk(s *e2e.Site, name string, answers []string, misses int) {
	s.T.Helper()
	if last := answers[len(answers)-1]; len(answers) != len(talkPrompts) || last != "Bye." {
		s.T.Errorf("%s: the client was answered %q", name, answers)
	}
	var mine []e2e.ModelInput
	for _, one := range s.Prompts() {
		if slices.ContainsFunc(one.Input, func(item json.RawMessage) bool { return strings.Contains(string(item), "Hello, "+name+".") }) {
			mine = append(mine, one)
		}
	}
	if len(mine) != talkRequests {
		s.T.Errorf("%s: the model was asked %d times, not %d", name, len(mine), talkRequests)
	}
	missed := 0
	for i, one := range mine[1:] {
		before := mine[i]
		if one.Key == before.Key {
			continue
		}
		missed++
		if misses == 0 {
			s.T.Errorf("%s: request %d has another thread; it %v", name, i+2, one.Extends(before))
		}
	}
	s.T.Logf("%s: %d of %d follow-ups went on in their thread", name, len(mine)-1-missed, len(mine)-1)
	if missed > misses {
		s.T.Errorf("%s: %d misses, not %d", name, missed, misses)
	}
}
