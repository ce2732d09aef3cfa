package conversations

import (
	"fmt"
	"slices"
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

// TestRestoredReasoning checks that a fresh thread gets the model's reasoning in the
// history of its conversation: as far as the history is the same, for the same user, and
// only until the provider refuses it.
func TestRestoredReasoning(t *testing.T) { e2e.OverBoth(t, testRestoredReasoning) }

func testRestoredReasoning(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann\napi_key bob-key bob")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	for name, test := range map[string]struct {
		change func(t *testing.T, one *talk)
		want   int // items of reasoning
	}{
		"regenerated": {nil, 2},
		"codex was killed": {func(t *testing.T, _ *talk) {
			old := e2e.Codexes(0)
			e2e.Kill(t, "codex")
			e2e.WaitFor(t, "the old codex to end", e2e.AllGone(old))
			s.At(t).WaitReadyAs(e2e.Bearer("ann-key"))
		}, 2},
		"edited question": {func(_ *testing.T, one *talk) {
			one.messages[len(one.messages)-1] = chatMessage{"role": "user", "content": "say: another"}
		}, 2},
		"edited answer":       {func(_ *testing.T, one *talk) { one.messages[4]["content"] = "I did not say that" }, 1},
		"edited result":       {func(_ *testing.T, one *talk) { one.messages[2]["content"] = "another" }, 1},
		"edited instructions": {func(_ *testing.T, one *talk) { one.system += " But not now." }, 0},
		"another user":        {func(_ *testing.T, one *talk) { one.user = "bob" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			one := talk{user: "ann", system: "You think in " + name, messages: []chatMessage{{"role": "user", "content": thoughtful}}}
			one.answerResults(sayIn(t, s, &one, true))
			one.answerResults(sayIn(t, s, &one, false))
			one.messages = append(one.messages, chatMessage{"role": "user", "content": "say: more"})
			sayIn(t, s, &one, false)
			kept, _ := s.Model.Last()
			if test.change != nil {
				test.change(t, &one)
			}
			sayIn(t, s, &one, false)
			fresh, _ := s.Model.Last()
			if fresh.PromptCacheKey == kept.PromptCacheKey {
				t.Fatal("there is no fresh thread")
			}
			if got, want := thoughtsIn(fresh), thoughtsIn(kept); len(want) != 2 || !slices.Equal(got, want[:test.want]) {
				t.Errorf("the model was given the reasoning\n%s\nand before\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestReasoningInPools checks that the reasoning is given to threads of each process of a
// login.
func TestReasoningInPools(t *testing.T) {
	s := e2e.NewPoolSite(t, "processes 2", 2)
	one := talk{system: "You think.", messages: []chatMessage{{"role": "user", "content": thoughtful}}}
	one.answerResults(sayIn(t, s, &one, false))
	one.answerResults(sayIn(t, s, &one, false))
	for i := range 4 {
		one.messages = append(one.messages[:5], chatMessage{"role": "user", "content": fmt.Sprint("say: more ", i)})
		sayIn(t, s, &one, false)
		if request, _ := s.Model.Last(); len(thoughtsIn(request)) != 2 {
			t.Errorf("request %d has the reasoning %q", i, thoughtsIn(request))
		}
	}
}

// TestRefusedReasoning checks that a turn starts again without reasoning if the provider
// refuses what was restored, and that it is not restored again.
func TestRefusedReasoning(t *testing.T) { e2e.OverBoth(t, testRefusedReasoning) }

func testRefusedReasoning(t *testing.T) {
	s := e2e.NewSite(t, "api_key ann-key ann")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	one := talk{user: "ann", system: "You think.", messages: []chatMessage{{"role": "user", "content": thoughtful}}}
	one.answerResults(sayIn(t, s, &one, true))
	one.answerResults(sayIn(t, s, &one, true))
	one.messages = append(one.messages, chatMessage{"role": "user", "content": "say: more"})
	sayIn(t, s, &one, false)
	another := one
	another.system = "You think, too."
	another.messages = one.messages[:1]
	another.answerResults(sayIn(t, s, &another, true))
	var refused atomic.Int32
	defer s.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if len(thoughtsIn(request)) == 0 {
			return scriptedmodel.Script{}, false
		}
		refused.Add(1)
		return scriptedmodel.Script{End: scriptedmodel.HTTPError{Status: 400, Code: "invalid_encrypted_content", Message: "The encrypted content could not be verified."}}, true
	})()
	for range 2 {
		message := sayIn(t, s, &one, true) // the same question again
		request, _ := s.Model.Last()
		if message["content"] != "more" || len(thoughtsIn(request)) > 0 || refused.Load() != 1 {
			t.Errorf("answered %q; %d requests were refused", message["content"], refused.Load())
		}
	}
	// The turn that waits for these results has reasoning, too.
	if message := sayIn(t, s, &another, true); message["content"] != "done" || refused.Load() != 3 {
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
