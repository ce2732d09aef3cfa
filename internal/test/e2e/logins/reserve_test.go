package logins

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// reserveSite is a site that may use the Luna Reserve, with conversations that go on all the time.
type reserveSite struct {
	*meteredSite
	talk     []any  // messages of a chat
	previous string // the last response of another conversation
	turns    int    // of each
	call     []any  // messages of a chat whose call waits for its result
}

// check checks that an answer came from the ordinary model, or the reserve.
func (s *reserveSite) check(what string, response *http.Response, reserve bool) {
	s.T.Helper()
	want := map[bool]string{true: "true"}[reserve]
	if got := response.Header.Get("X-Codex-Luna-Reserve"); response.StatusCode != http.StatusOK || got != want {
		s.T.Errorf("%s: %s, the header is %q, want %q", what, response.Status, got, want)
	}
	id := map[bool]string{false: planbackend.PlanMeter, true: planbackend.ReserveMeter}[reserve]
	if got := headersTell(response.Header)[id]; len(got) != len(s.windowsOf(id)) {
		s.T.Errorf("%s: of %s the headers say %v: %v", what, id, got, response.Header)
	}
	model := map[bool]string{false: ordinary, true: planbackend.ReserveModel}[reserve]
	if last, _ := s.Model.Last(); last.Model != model {
		s.T.Errorf("%s: %s has answered, want %s", what, last.Model, model)
	}
}

// windowsOf returns the windows of a meter of the login.
func (s *reserveSite) windowsOf(id string) (all []planbackend.Window) {
	m := s.Login.Meter(id)
	return slices.DeleteFunc([]planbackend.Window{m.Primary, m.Secondary}, func(w planbackend.Window) bool { return w.Length == 0 })
}

// goOn asks once more in each conversation. The model must know all that was said, once.
func (s *reserveSite) goOn(reserve bool) {
	s.T.Helper()
	s.turns++
	prompt, want := fmt.Sprintf("FACT fact-%d = %d\nRECALL ALL", s.turns, s.turns), ""
	for i := range s.turns {
		want += fmt.Sprintf("\nfact-%d = %d", i+1, i+1)
	}
	want = strings.TrimSpace(want)
	known := func(what, got string) {
		s.T.Helper()
		last, _ := s.Model.Last()
		if n := strings.Count(string(last.Body), "RECALL ALL"); got != want || n != s.turns {
			s.T.Errorf("%s: the model knows %q, want %q, from %d messages", what, got, want, n)
		}
	}
	stream := s.turns%2 == 0
	s.talk = append(s.talk, e2e.UserMessage(prompt))
	response, text := s.Post(e2e.EncodeJSON(e2e.Fields{"model": ordinary, "messages": s.talk, "stream": stream}), nil)
	answer, err := apiclient.Read([]byte(text), apiclient.Chat, stream, 1)
	if err != nil || response.StatusCode != http.StatusOK {
		s.T.Fatalf("%s: %v", text, err)
	}
	s.check("a chat", response, reserve)
	known("a chat", answer.Choices[0].Text)
	s.talk = append(s.talk, e2e.Fields{"role": "assistant", "content": answer.Choices[0].Text})

	request := e2e.Fields{"model": ordinary, "input": prompt}
	if s.previous != "" {
		request["previous_response_id"] = s.previous
	}
	response, text = s.Call(http.MethodPost, "/v1/responses", request, nil)
	s.check("a response", response, reserve)
	r := s.ParseResponse([]byte(text))
	known("a response", r.Text())
	s.previous = r.ID

	if s.call != nil {
		response, text = s.Post(e2e.EncodeJSON(e2e.Fields{"model": ordinary, "messages": s.call, "tools": []any{e2e.Tool("localSearch")}}), nil)
		s.check("the result of a call", response, reserve)
		if got := gjson.Get(text, "choices.0.message.content").Str; got != "It is found." {
			s.T.Errorf("after the result of a call: %s", text)
		}
	}
	question := e2e.UserMessage(fmt.Sprintf(`tool:localSearch {"query":"%d"}; then; say:It is found.`, s.turns))
	response, text = s.Post(e2e.EncodeJSON(e2e.Fields{"model": ordinary, "messages": []any{question}, "tools": []any{e2e.Tool("localSearch")}}), nil)
	s.check("a call", response, reserve)
	call := gjson.Get(text, "choices.0.message.tool_calls.0")
	if got := call.Get("function.arguments").Str; got != fmt.Sprintf(`{"query":"%d"}`, s.turns) {
		s.T.Errorf("the call is %s", text)
	}
	s.call = []any{
		question, gjson.Get(text, "choices.0.message").Value(),
		e2e.Fields{"role": "tool", "tool_call_id": call.Get("id").Str, "content": "a note"},
	}
}

// TestLunaReserve: while the plan is spent, the reserve answers in place of its models, with a header and a
// line in the log, and conversations go on as if nothing were. Otherwise it does not.
func TestLunaReserve(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBothSampled(t, testLunaReserve)
}

// testLunaReserve waits until the resets are noticed, or, over the transports of which only a part is tested, asks.
func testLunaReserve(t *testing.T, waits bool) {
	log := filepath.Join(t.TempDir(), "log")
	s := &reserveSite{meteredSite: newMeteredSite(t, 0, "luna_reserve on", "log {\noutput file "+log+"\n}\n")}
	again := func(what string, reserve bool) {
		t.Helper()
		began := time.Now()
		e2e.WaitFor(t, what, func() bool {
			response, _ := s.AskModel(apiclient.Chat, ordinary, "say:ok", false)
			return response.StatusCode == http.StatusOK && (response.Header.Get("X-Codex-Luna-Reserve") != "") == reserve
		})
		t.Logf("%s took %s", what, time.Since(began).Round(100*time.Millisecond))
	}
	s.goOn(false)
	s.goOn(false)
	s.Login.Change(planbackend.PlanMeter, spend)
	s.goOn(true)
	for i, api := range e2e.AllAPIs {
		response, answer := s.AskModel(api, ordinary, "say:ok", i%2 == 0)
		s.check(api.String(), response, true)
		if answer.Failed || answer.Choices[0].Text != "ok" {
			t.Errorf("%s: %+v", api, answer)
		}
		response, _ = s.AskModel(api, planbackend.SparkModel, "say:ok", i%2 == 1)
		if last, _ := s.Model.Last(); response.StatusCode != http.StatusOK || response.Header.Get("X-Codex-Luna-Reserve") != "" || last.Model != planbackend.SparkModel {
			t.Errorf("%s: Spark: %s from %s, %v", api, response.Status, last.Model, response.Header)
		}
	}
	s.goOn(true)
	if text := e2e.ReadFile(t, log); !strings.Contains(text, `"luna_reserve":true`) {
		t.Errorf("the log does not say that the reserve was used")
	}

	s.Login.Change(planbackend.ReserveMeter, spend)
	for i, api := range e2e.AllAPIs {
		if response, answer := s.AskModel(api, ordinary, "say:ok", i%2 == 0); response.StatusCode != http.StatusTooManyRequests {
			t.Errorf("all is spent, %s: %s %+v", api, response.Status, answer)
		}
	}
	s.Login.Change(planbackend.ReserveMeter, reset)
	if s.status(); !waits {
		s.askLimits()
	}
	again("the reserve to be used again", true)
	s.goOn(true)

	s.Login.Change(planbackend.PlanMeter, reset)
	if !waits {
		s.askLimits()
	}
	again("the plan to be used again", false)
	s.goOn(false)
	s.goOn(false)
	s.Login.Change(planbackend.PlanMeter, spend)
	s.goOn(true)
}

// TestLunaReserveIsOff: without the option nobody asks for the reserve.
func TestLunaReserveIsOff(t *testing.T) {
	s := newMeteredSite(t, 0, "", "")
	s.Login.Change(planbackend.PlanMeter, spend)
	for i, api := range e2e.AllAPIs {
		for range 2 {
			if response, answer := s.AskModel(api, ordinary, "say:ok", i%2 == 0); response.StatusCode != http.StatusTooManyRequests {
				t.Errorf("%s: %s %+v", api, response.Status, answer)
			}
		}
	}
	s.status()
	for _, request := range s.Model.Requests() {
		if request.Model == planbackend.ReserveModel {
			t.Errorf("the reserve was asked")
		}
	}
	told := false
	for _, call := range s.Plan.Calls(planbackend.Usage) {
		told = told || call.Header.Get("X-Openai-Codex-Luna-Reserve") != ""
	}
	if told {
		t.Error("the provider was told of a client that uses the reserve")
	}
}
