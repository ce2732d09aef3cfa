package conversations

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestCallsThatCodexCannotRead lets the model make calls whose arguments Codex cannot read.
// Codex answers these itself and asks the model again. The client has the end of its answer by
// then, so the turn has to end, and the conversation goes on at once in another thread.
func TestCallsThatCodexCannotRead(t *testing.T) { e2e.OverBoth(t, testCallsThatCodexCannotRead) }

func testCallsThatCodexCannotRead(t *testing.T) {
	s, stats := spareSite(t, "conversations {\nspares 0\n}")
	for name, arguments := range map[string]string{
		"nothing":          ``,
		"no JSON":          `not json`,
		"a comma too many": `{"q":1,}`,
		"half a character": `{"q":"\ud800"}`,
		"too deep":         `{"q":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		"a huge number":    `{"q":1e999}`, // which it can
	} {
		for _, beside := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " beside a call"}[beside], func(t *testing.T) {
				s := s.At(t)
				var results atomic.Int32
				defer s.Model.On(insist(arguments, beside, &results))()
				resumed := stats().Resumed
				one := talk{user: "ann", system: "You call.", messages: []chatMessage{{"role": "user", "content": name}}}
				message := sayIn(t, s, &one, true)
				one.answerResults(message)
				call := message["tool_calls"].([]any)[0].(map[string]any)
				if got := call["function"].(map[string]any)["arguments"]; got != arguments {
					t.Errorf("the client got the arguments %.100q", got)
				}
				awaitSilence(t, s.Model)
				given := results.Load()
				began := time.Now()
				if got := sayIn(t, s, &one, false)["content"]; got != "done" {
					t.Errorf("the model was not given the results: %q", got)
				}
				if took := time.Since(began); took > 9*time.Second { // the client of a turn that is lost waits for ten
					t.Errorf("the conversation went on after %s", took)
				}
				if more := results.Load() - given; more != 1 {
					t.Errorf("the model was given the results %d times", more)
				}
				if got, want := stats().Resumed > resumed, name == "a huge number"; got != want {
					t.Errorf("the turn had waited: %t", got)
				}
			})
		}
	}
}

// awaitSilence waits until Codex asks the model no more. It may
// ask some times before it reads that the turn is over; a turn that goes on asks at least ten
// times a second.
func awaitSilence(t *testing.T, model *scriptedmodel.Server) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		asked := model.Stats().Requests
		time.Sleep(400 * time.Millisecond)
		if model.Stats().Requests == asked {
			return
		}
	}
	t.Fatal("the turn goes on without its client")
}

// insist makes a model that makes the same call, perhaps beside another one, until it gets
// a result, and counts these.
func insist(arguments string, beside bool, results *atomic.Int32) func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
	calls := []scriptedmodel.Output{scriptedmodel.Call{Name: "find", Arguments: arguments}}
	if beside {
		calls = append(calls, scriptedmodel.Call{Name: "find", Arguments: `{"q":2}`})
	}
	return func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if strings.HasPrefix(request.Input[len(request.Input)-1].Output.String(), "result ") {
			results.Add(1)
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("done")}}, true
		}
		return scriptedmodel.Script{Output: calls}, true
	}
}
