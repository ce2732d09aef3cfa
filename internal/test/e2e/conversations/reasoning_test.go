package conversations

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// thoughtful is what an agent is asked: the model thinks before each of its answers.
const thoughtful = `reason: I look.
say: looking
tool: find {"q": 1}
tool: find {"q": 2}
then
reason: I know.
say: done`

// thoughtsIn returns the encrypted reasoning in a request to the model, each behind what
// precedes it.
func thoughtsIn(request scriptedmodel.Request) (all []string) {
	lines := spokenTo(request)
	for i, item := range request.Input {
		if item.Type == "reasoning" {
			before := request
			before.Input = request.Input[:i]
			all = append(all, fmt.Sprintf("%s behind %q", item.EncryptedContent, lines[:len(spokenTo(before))]))
		}
	}
	return all
}

// answerResults adds the results of the calls of a message to a conversation.
func (t *talk) answerResults(message chatMessage) {
	t.messages = append(t.messages, message)
	calls, _ := message["tool_calls"].([]any)
	for i, call := range calls {
		t.messages = append(t.messages, chatMessage{"role": "tool", "tool_call_id": call.(map[string]any)["id"], "content": fmt.Sprint("result ", i)})
	}
}

// TestRefusedReasoning checks that a turn starts again in a thread without reasoning if the
// provider refuses the reasoning in its kept thread.
func TestRefusedReasoning(t *testing.T) { e2e.OverBoth(t, testRefusedReasoning) }

func testRefusedReasoning(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	one := talk{user: "ann", system: "You think.", messages: []chatMessage{{"role": "user", "content": thoughtful}}}
	one.answerResults(sayIn(t, s, &one, true))
	one.answerResults(sayIn(t, s, &one, true))
	one.messages = append(one.messages, chatMessage{"role": "user", "content": "say: more"})
	waiting := one
	waiting.system = "You think, too."
	waiting.messages = one.messages[:1:1]
	waiting.answerResults(sayIn(t, s, &waiting, true))
	var refused atomic.Int32
	defer s.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if len(thoughtsIn(request)) == 0 {
			return scriptedmodel.Script{}, false
		}
		refused.Add(1)
		return scriptedmodel.Script{End: scriptedmodel.HTTPError{Status: 400, Code: "invalid_encrypted_content", Message: "The encrypted content could not be verified."}}, true
	})()
	for range 2 { // the same question again has a fresh thread
		message := sayIn(t, s, &one, true)
		request, _ := s.Model.Last()
		if message["content"] != "more" || len(thoughtsIn(request)) > 0 || refused.Load() != 1 {
			t.Errorf("answered %q; %d requests were refused", message["content"], refused.Load())
		}
	}
	// The turn that waits for these results has reasoning, too.
	if message := sayIn(t, s, &waiting, true); message["content"] != "done" || refused.Load() != 2 {
		t.Errorf("answered %q; %d requests were refused", message["content"], refused.Load())
	}
}

// TestReasoningOfAnotherLogin checks that a response goes on at a login that cannot read the
// reasoning which is stored with it.
func TestReasoningOfAnotherLogin(t *testing.T) { e2e.OverBoth(t, testReasoningOfAnotherLogin) }

func testReasoningOfAnotherLogin(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.WaitReady()
	first := s.Respond(e2e.Asks("reason: I see.; say:one", nil), nil)
	var refused atomic.Int32
	defer s.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if len(thoughtsIn(request)) == 0 {
			return scriptedmodel.Script{}, false
		}
		refused.Add(1)
		return scriptedmodel.Script{End: scriptedmodel.HTTPError{Status: 400, Code: "invalid_encrypted_content", Message: "The encrypted content could not be verified."}}, true
	})()
	second := s.Respond(e2e.Asks("say:two", e2e.Fields{"previous_response_id": first.ID}), nil)
	request, _ := s.Model.Last()
	if second.Text() != "two" || refused.Load() == 0 || !strings.Contains(string(request.Body), `"one"`) {
		t.Errorf("answered %q after %d refusals of %s", second.Text(), refused.Load(), request.Body)
	}
}
