package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// The ends of turns.
const (
	used      = `rawResponse/completed {"usage":{"totalTokens":110,"inputTokens":100,"outputTokens":10}}`
	completed = `turn/completed {"turn":{"id":"x","status":"completed"}}`
	tooLong   = `turn/completed {"turn":{"id":"x","status":"failed","error":{"message":"ran out of room","codexErrorInfo":"contextWindowExceeded"}}}`
	broken    = `turn/completed {"turn":{"id":"x","status":"failed","error":{"message":"it broke","codexErrorInfo":"badRequest"}}}`
)

// model is a model whose turns a test decides about.
type model struct {
	mu    sync.Mutex
	turns []fakecodex.Asked
	// summary and answer return the lines of a turn that summarises, and of any other; n counts both, from 0.
	summary, answer func(n int, a fakecodex.Asked) []string
}

func asksForSummary(a fakecodex.Asked) bool {
	return strings.Contains(gjson.Get(a.Params, "input.0.text").String(), prompt.SummaryRequest)
}

// says returns the lines of a turn with one text.
func says(text string) func(int, fakecodex.Asked) []string {
	return func(int, fakecodex.Asked) []string { return []string{textPart(text), used, completed} }
}

func (m *model) turn(a fakecodex.Asked) []fakecodex.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, lines := len(m.turns), m.answer
	if m.turns = append(m.turns, a); asksForSummary(a) {
		lines = m.summary
	}
	steps := begun(a, lines(n, a)...)
	for i := range steps {
		steps[i].Message = strings.Replace(steps[i].Message, `"turn":{"id":"x"`, `"turn":{"id":"`+a.Turn+`"`, 1)
	}
	return steps
}

func (m *model) asked() []fakecodex.Asked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turns
}

// summaries returns how many turns were asked for a summary, and how many for an answer.
func (m *model) count() (summaries, answers int) {
	for _, a := range m.asked() {
		if asksForSummary(a) {
			summaries++
		} else {
			answers++
		}
	}
	return summaries, answers
}

// newModel returns a model that writes the summary "All that was.", and otherwise says "Fine.".
func newModel() *model { return &model{summary: says("All that was."), answer: says("Fine.")} }

func (m *model) upstream(t testing.TB) *fakeUpstream {
	return newFakeUpstream(t, fakecodex.Options{Turn: m.turn})
}

// words returns a text of about n tokens.
func words(n int) string { return strings.Repeat("word ", n) }

// item is an item of the input.
func item(role, text string) string {
	return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text)
}

// createResponse posts a body to the Responses API with these members and this input.
func createResponse(t *testing.T, g *Gateway, members string, input ...string) (*httptest.ResponseRecorder, gjson.Result) {
	t.Helper()
	w := post(g, responsesPath, `{"model":"m",`+members+`"input":[`+strings.Join(input, ",")+`]}`)
	return w, gjson.ParseBytes(w.Body.Bytes())
}

const threshold = `"context_management":[{"type":"compaction","compact_threshold":1000}],`

func kinds(response gjson.Result) string {
	var all []string
	for _, kind := range response.Get("output.#.type").Array() {
		all = append(all, kind.String())
	}
	return strings.Join(all, " ")
}

// opened returns what a summary of the output says to the model.
func opened(t *testing.T, response gjson.Result) string {
	t.Helper()
	content, err := seal.Sealer(seal.OfProcess).Open(t.Context(), "", response.Get(`output.#(type=="compaction").encrypted_content`).String())
	must.OK(t, err)
	return string(content)
}

// TestThreshold: above the threshold, one turn summarises and the next one answers. The client gets both, with
// the usage of both; a header and the log say it. Below the threshold, nothing of this happens.
func TestThreshold(t *testing.T) {
	m, log := newModel(), new(bytes.Buffer)
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2, Logger: slog.New(slog.NewTextHandler(log, nil))})
	for _, stream := range []string{"", `"stream":true,`} {
		m.turns = nil
		log.Reset()
		w, response := createResponse(t, g, stream+threshold, item("user", words(1500)), item("assistant", "Yes."), item("user", "And now?"))
		if stream != "" {
			events := w.Body.String()
			if !strings.Contains(events, `"type":"compaction"`) {
				t.Errorf("no event: %s", events)
			}
			_, last, _ := strings.Cut(events, "event: response.completed\ndata: ")
			response = gjson.Get(last, "response")
		}
		if kinds(response) != "compaction message" || response.Get("usage.input_tokens").Int() != 200 || response.Get("usage.total_tokens").Int() != 220 {
			t.Errorf("%s", response)
		}
		if content := opened(t, response); !strings.Contains(content, "All that was.") || !strings.Contains(content, "And now?") || strings.Contains(content, "word word") {
			t.Errorf("sealed: %.300s", content)
		}
		turns := m.asked()
		if len(turns) != 2 || !asksForSummary(turns[0]) || !strings.Contains(turns[1].History, "All that was.") || strings.Contains(turns[1].History, "word word") ||
			gjson.Get(turns[1].Params, "input.0.text").String() != "And now?" {
			t.Errorf("%d turns; the last one: %+.300v", len(turns), turns[len(turns)-1])
		}
		if w.Header().Get(shortenedHeader) != "true" || !strings.Contains(log.String(), "a conversation was shortened") {
			t.Errorf("headers %v, log %s", w.Header(), log)
		}
	}
	m.turns = nil
	if w, response := createResponse(t, g, threshold, item("user", words(300))); kinds(response) != "message" || w.Header().Get(shortenedHeader) != "" || len(m.asked()) != 1 {
		t.Errorf("below: %s", response)
	}
}

// TestTrigger: the answer is the summary alone, whatever limits the answer. The conversation goes on with it,
// and with the user's messages that the client sends again.
func TestTrigger(t *testing.T) {
	m := newModel()
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2})
	for _, members := range []string{
		"", `"max_output_tokens":16,`, `"tool_choice":"required","tools":[{"type":"function","name":"f"}],`, threshold, `"truncation":"auto",`,
		`"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object","properties":{},"additionalProperties":false},"strict":true}},`,
	} {
		m.turns = nil
		w, response := createResponse(t, g, members, item("user", words(10)), item("assistant", "Yes."), `{"type":"compaction_trigger"}`)
		if w.Code != http.StatusOK || kinds(response) != "compaction" || response.Get("status").String() != "completed" || response.Get("usage.total_tokens").Int() != 110 {
			t.Fatalf("%s: %d %s", members, w.Code, w.Body)
		}
		if turns := m.asked(); len(turns) != 1 || !asksForSummary(turns[0]) || gjson.Get(turns[0].Params, "outputSchema").Exists() {
			t.Errorf("%s: %d turns: %+.300v", members, len(turns), turns)
		}
		if _, response = createResponse(t, g, "", item("user", "before"), response.Get("output.0").Raw, item("user", "And?")); kinds(response) != "message" {
			t.Errorf("%s: %s", members, response)
		}
		last := m.asked()[1]
		before, summary := strings.Index(last.History, "before"), strings.Index(last.History, "All that was.")
		if before < 0 || summary < before || gjson.Get(last.Params, "input.0.text").String() != "And?" {
			t.Errorf("%s: it goes on with %+v", members, last)
		}
	}
}

// TestCompact: POST /v1/responses/compact answers with the user's messages and a summary, and stores nothing.
func TestCompact(t *testing.T) {
	m := newModel()
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2, Responses: failingStore(nil)})
	for name, body := range map[string]string{
		"items":          `{"model":"m","input":[{"role":"user","content":"one"},{"role":"assistant","content":"yes"},{"role":"user","content":"two"}]}`,
		"a text":         `{"model":null,"input":"one"}`,
		"streams, tools": `{"model":"m","stream":true,"store":true,"background":true,"input":"one","tools":[{"type":"function","name":"f"}]}`,
	} {
		m.turns = nil
		w := post(g, "/v1/responses/compact", body)
		response := gjson.ParseBytes(w.Body.Bytes())
		want := strings.Repeat("message ", len(gjson.Get(body, `input.#(role=="user")#`).Array()))
		if name != "items" {
			want = "message "
		}
		if w.Code != http.StatusOK || kinds(response) != want+"compaction" || response.Get("object").String() != "response.compaction" || len(m.asked()) != 1 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestCompactedGoesOn: a client that sends only what POST /v1/responses/compact has answered, and a question, gives the
// model all that the developer and the user have said.
func TestCompactedGoesOn(t *testing.T) {
	m := newModel()
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2})
	w := post(g, "/v1/responses/compact", `{"model":"m","instructions":"Be kind.","input":[`+item("developer", "the rule")+","+item("user", "the wish")+","+item("assistant", "I answered")+`]}`)
	output := gjson.GetBytes(w.Body.Bytes(), "output").Raw
	if strings.Contains(output, "Be kind.") {
		t.Errorf("the client sends its instructions anyway: %s", output)
	}
	w = post(g, responsesPath, `{"model":"m","instructions":"Be kind.","input":`+strings.TrimSuffix(output, "]")+","+item("user", "And?")+`]}`)
	last := m.asked()[len(m.asked())-1]
	all := gjson.Get(last.ThreadParams, "baseInstructions").String() + last.History
	if w.Code != http.StatusOK || strings.Contains(all, "I answered") || strings.Count(all, "Be kind.") != 1 {
		t.Errorf("%d %s: %q", w.Code, w.Body, all)
	}
	for _, text := range []string{"the rule", "the wish", "All that was."} {
		if !strings.Contains(all, text) {
			t.Errorf("%q is not in %q", text, all)
		}
	}
}

// TestSummaryFails: what the client gets if there is no summary, is never an error of the server: Codex would send
// the conversation again and again. An answer does without one that the model did not write.
func TestSummaryFails(t *testing.T) {
	const trigger = `{"type":"compaction_trigger"}`
	calls := func(int, fakecodex.Asked) []string {
		return []string{rawCall("i", "c", "f", "{}"), used, completed}
	}
	lines := func(all ...string) func(int, fakecodex.Asked) []string {
		return func(int, fakecodex.Asked) []string { return all }
	}
	for name, test := range map[string]struct {
		summary func(int, fakecodex.Asked) []string
		code    string // of the error for a summary alone
		without bool   // the answer does without the summary
	}{
		"nothing":  {lines(used, completed), "no_summary", true},
		"calls":    {calls, "no_summary", true},
		"too long": {lines(tooLong), "context_length_exceeded", false},
		"broken":   {lines(broken), "", false},
		"overload": {lines(strings.Replace(broken, "badRequest", "serverOverloaded", 1)), "", false},
		"no model": {lines(strings.Replace(broken, `"badRequest"`, `{"httpConnectionFailed":{"httpStatusCode":404}}`, 1)), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			m.summary = test.summary
			g := newGateway(m.upstream(t), Options{MaxConcurrent: 2})
			for _, stream := range []string{"", `"stream":true,`} {
				w, response := createResponse(t, g, stream, item("user", words(10)), trigger)
				if w.Code != http.StatusBadRequest || response.Get("error.message").String() == "" || test.code != "" && response.Get("error.code").String() != test.code {
					t.Errorf("alone: %d %s", w.Code, w.Body)
				}
			}
			w, response := createResponse(t, g, threshold, item("user", words(1500)), item("assistant", "Yes."), item("user", "And now?"))
			if test.without && (w.Code != http.StatusOK || kinds(response) != "message") || !test.without && w.Code == http.StatusOK {
				t.Errorf("above: %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestAnswerTooLong: if the model finds the conversation too long even after its summary, its parts are summarised
// as well. The client still gets one summary, which can be read.
func TestAnswerTooLong(t *testing.T) {
	m := newModel()
	m.summary = func(n int, a fakecodex.Asked) []string {
		if n == 0 {
			return says("All that was. "+words(900))(n, a)
		}
		return says("The rest.")(n, a)
	}
	m.answer = func(n int, a fakecodex.Asked) []string {
		if n < 2 {
			return []string{tooLong}
		}
		return says("Fine.")(n, a)
	}
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2})
	input := []string{item("user", words(1500)), item("assistant", "Yes."), item("user", words(40))}
	w, response := createResponse(t, g, threshold, input...)
	for _, sealed := range response.Get(`output.#(type=="compaction")#.encrypted_content`).Array() {
		content, err := seal.Sealer(seal.OfProcess).Open(t.Context(), "", sealed.String())
		if err != nil || !strings.Contains(string(content), "All that was.") {
			t.Errorf("a summary says %q (%v)", content, err)
		}
	}
	if w.Code != http.StatusOK || kinds(response) != "compaction message" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if summaries, answers := m.count(); summaries > 2 || answers != 2 {
		t.Errorf("%d summaries, %d answers", summaries, answers)
	}
}

// TestNoEnd: a conversation that stays too long is refused after a few turns.
func TestNoEnd(t *testing.T) {
	m := newModel()
	m.answer = func(int, fakecodex.Asked) []string { return []string{tooLong} }
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2})
	for _, text := range []string{"All that was.", words(2000)} {
		m.turns, m.summary = nil, says(text)
		w, response := createResponse(t, g, threshold, item("user", words(1500)), item("assistant", "Yes."), item("user", words(40)))
		if w.Code != http.StatusBadRequest || response.Get("error.code").String() != "context_length_exceeded" || len(m.asked()) > 12 {
			t.Errorf("%d %s after %d turns", w.Code, w.Body, len(m.asked()))
		}
	}
}

// TestSummariesCount: the limits of a key, and the accounts, count each turn once, also if a later one fails.
func TestSummariesCount(t *testing.T) {
	const much = `rawResponse/completed {"usage":{"totalTokens":3500,"inputTokens":3490,"outputTokens":10}}`
	fails := func(int, fakecodex.Asked) []string { return []string{broken} }
	for name, test := range map[string]struct {
		summary, answer func(int, fakecodex.Asked) []string
		code            int
		used            int64
	}{
		"both":                  {says("All."), says("Fine."), http.StatusOK, 220},
		"the answer fails":      {says("All."), fails, http.StatusBadRequest, 110},
		"nothing is left":       {func(int, fakecodex.Asked) []string { return []string{textPart("All."), much, completed} }, says("Fine."), http.StatusTooManyRequests, 3500},
		"the summary is longer": {says(words(3000)), func(int, fakecodex.Asked) []string { return []string{tooLong} }, http.StatusBadRequest, 220},
	} {
		t.Run(name, func(t *testing.T) {
			m, observed := newModel(), new(witness)
			m.summary, m.answer = test.summary, test.answer
			key := &quota.Key{ID: "k", Account: "k", Limits: []quota.Limit{hourly(t, quota.Tokens, 3500)}}
			g := newGateway(m.upstream(t), Options{MaxConcurrent: 2, Observer: observed, Limits: limitsOfTest(), Key: onlyKey(key)})
			w, _ := createResponse(t, g, threshold, item("user", words(1500)), item("assistant", "Yes."), item("user", words(200)))
			states := g.opts.Limits.States(t.Context(), []*quota.Key{key})[0]
			if w.Code != test.code || states[0].Used != test.used || len(observed.turns) != 1 || observed.turns[0].Usage.TotalTokens != test.used {
				t.Errorf("%d %s: the key has used %d tokens, want %d; %+v", w.Code, w.Body, states[0].Used, test.used, observed.turns)
			}
		})
	}
}

func onlyKey(key *quota.Key) func(*http.Request) (*quota.Key, *apierror.Error) {
	return func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil }
}

// TestClientsLeaveSummaries: a client may leave in the middle of each turn. Nothing is held afterwards, and the key
// has paid for what was begun.
func TestClientsLeaveSummaries(t *testing.T) {
	for _, first := range []bool{true, false} {
		m, begin := newModel(), make(chan struct{}, 8)
		stall := func(int, fakecodex.Asked) []string {
			begin <- struct{}{}
			return []string{textPart("Well")}
		}
		if first {
			m.summary = stall
		} else {
			m.answer = stall
		}
		u := newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
			steps := m.turn(a)
			if asksForSummary(a) == first {
				steps = append(steps, fakecodex.Step{Pause: patience, Message: `{}`})
			}
			return steps
		}})
		key := &quota.Key{ID: "k", Account: "k", Limits: []quota.Limit{hourly(t, quota.Tokens, 100_000)}}
		g := newGateway(u, Options{
			MaxConcurrent: 2, Key: onlyKey(key), Limits: limitsOfTest(),
		})
		for _, stream := range []string{"", `"stream":true,`} {
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				<-begin
				leave()
			}()
			func() {
				defer func() { _ = recover() }() // an answer that was cut
				body := `{"model":"m",` + stream + threshold + `"input":[` + item("user", words(1500)) + "," + item("assistant", "Yes.") + "," + item("user", "And?") + `]}`
				answerTo(g, posting(responsesPath, body).WithContext(ctx))
			}()
			leave()
		}
		must.Happen(t, "nothing is held", func() bool {
			return u.leases.Load() == 0 && u.turns.Load() == 0 && g.bodies.Held() == 0 && g.answerBudget.Held() == 0 && g.queue.Running() == 0
		})
		if states := g.opts.Limits.States(t.Context(), []*quota.Key{key})[0]; states[0].Used < 2*1500 && first || states[0].Used < 2*110 || states[0].Used > 2*3500 {
			t.Errorf("first %t: the key has used %d tokens", first, states[0].Used)
		}
	}
}

// TestBackgroundSummaries: a background response is shortened as any other, and can be cancelled in its first turn.
func TestBackgroundSummaries(t *testing.T) {
	m := newModel()
	url, _ := responsesServer(t, m.upstream(t), Options{})
	body := `{"model":"m","background":true,` + threshold + `"input":[` + item("user", words(1500)) + "," + item("assistant", "Yes.") + "," + item("user", "And?") + `]}`
	_, answer := call(t, http.MethodPost, url, body, -1)
	one := url + "/" + idIn(t, answer)
	if how, stored := ended(t, one); how != "completed" || kinds(gjson.Parse(stored)) != "compaction message" {
		t.Errorf("%s %s", how, stored)
	}
	// the next request follows it by its id
	_, answer = call(t, http.MethodPost, url, `{"model":"m","input":"Go on.","previous_response_id":"`+idIn(t, answer)+`"}`, -1)
	if turns := m.asked(); len(turns) != 3 || !strings.Contains(turns[2].History, "All that was.") || strings.Contains(turns[2].History, "word word") {
		t.Errorf("%d turns, %s", len(turns), answer)
	}
	begin := make(chan struct{}, 1)
	u := newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
		steps := begun(a, textPart("Well"))
		begin <- struct{}{}
		return append(steps, fakecodex.Step{Pause: patience, Message: `{}`})
	}})
	url, _ = responsesServer(t, u, Options{})
	_, answer = call(t, http.MethodPost, url, body, -1)
	<-begin
	one = url + "/" + idIn(t, answer)
	if status, answer := call(t, http.MethodPost, one+"/cancel", "", -1); status != http.StatusOK || gjson.Get(answer, "status").String() != "cancelled" || len(gjson.Get(answer, "output").Array()) != 0 {
		t.Errorf("%d %s", status, answer)
	}
}

// TestSealedOfOthers: another user's summary is refused, as is one that was changed, with its path. It can be in
// every place where items are read.
func TestSealedOfOthers(t *testing.T) {
	m := newModel()
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2, Responses: memoryStore(1<<20, patience), User: func(r *http.Request) string { return r.Header.Get("User") }})
	as := func(user, path, body string) *httptest.ResponseRecorder {
		r := posting(path, body)
		r.Header.Set("User", user)
		return answerTo(g, r)
	}
	made := gjson.GetBytes(as("ann", responsesPath, `{"model":"m","input":[`+item("user", "Secret.")+`,{"type":"compaction_trigger"}]}`).Body.Bytes(), "output.0").Raw
	sealed := gjson.Get(made, "encrypted_content").String()
	if !seal.IsSealed(sealed) {
		t.Fatal(made)
	}
	changed := strings.Replace(made, sealed, sealed[:len(sealed)-9]+"x"+sealed[len(sealed)-8:], 1)
	if changed == made {
		changed = strings.Replace(made, sealed, sealed[:len(sealed)-9]+"y"+sealed[len(sealed)-8:], 1)
	}
	cut := strings.Replace(made, sealed, sealed[:len(sealed)-4], 1)
	for name, bad := range map[string]struct{ user, item string }{"bob's": {"bob", made}, "changed": {"ann", changed}, "cut": {"ann", cut}} {
		for where, path := range map[string]string{"responses": responsesPath, "tokens": "/v1/responses/input_tokens", "compact": "/v1/responses/compact", "chat": chatPath} {
			w := as(bad.user, path, `{"model":"m","input":[`+item("user", "Hi.")+","+bad.item+","+item("user", "And?")+`]}`)
			if param := gjson.GetBytes(w.Body.Bytes(), "error.param").String(); w.Code != http.StatusBadRequest || param != "input[1].encrypted_content" {
				t.Errorf("%s in %s: %d %s", name, where, w.Code, w.Body)
			}
		}
		made := as(bad.user, "/v1/conversations", `{"items":[`+bad.item+`]}`)
		w := as(bad.user, responsesPath, `{"model":"m","input":"And?","conversation":"`+gjson.GetBytes(made.Body.Bytes(), "id").String()+`"}`)
		if param := gjson.GetBytes(w.Body.Bytes(), "error.param").String(); w.Code != http.StatusBadRequest || param != "conversation" {
			t.Errorf("%s in a conversation: %s %d %s", name, made.Body, w.Code, w.Body)
		}
	}
	for where, path := range map[string]string{"responses": responsesPath, "chat": chatPath} {
		if w := as("ann", path, `{"model":"m","input":[`+made+","+item("user", "And?")+`]}`); w.Code != http.StatusOK {
			t.Errorf("ann's own in %s: %d %s", where, w.Code, w.Body)
		}
	}
	few := as("ann", "/v1/responses/input_tokens", `{"model":"m","input":[`+item("user", words(5000))+","+item("assistant", "Yes.")+","+made+`]}`)
	if n := gjson.GetBytes(few.Body.Bytes(), "input_tokens").Int(); n == 0 || n > 5200 {
		t.Errorf("%d tokens: %s", n, few.Body)
	}
}

// TestSummaryClaims: an answer in one body holds its summary, so it claims memory for what is sealed of it.
func TestSummaryClaims(t *testing.T) {
	m := newModel()
	m.summary = says(words(20_000))
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2})
	g.maxAnswer = 220_000 // more than the summary, less than the item
	w, response := createResponse(t, g, "", item("user", "x"), `{"type":"compaction_trigger"}`)
	if !strings.Contains(response.Get("error.message").String(), "220000") {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
}

func limitsOfTest() *quota.Limits { return quota.NewLimits(quota.NewLedger(time.Now), 0, false) }

// askChat posts a conversation of chat completions, of user and assistant in turns.
func askChat(t *testing.T, g *Gateway, members string, texts ...string) *httptest.ResponseRecorder {
	t.Helper()
	messages := make([]string, len(texts))
	for i, text := range texts {
		messages[i] = item([]string{"user", "assistant"}[i%2], text)
	}
	return post(g, chatPath, `{"model":"m",`+members+`"messages":[`+strings.Join(messages, ",")+`]}`)
}

// windowed returns an upstream with the model, which has a window of so many tokens. It keeps threads.
func (m *model) windowed(t testing.TB, window int) *fakeUpstream {
	u := withWindow(t, window, playing(transcripts(t), fakecodex.Options{Turn: m.turn}))
	limits := conversation.Limits{Max: 10, MaxBytes: 1 << 24, Idle: time.Hour}
	u.conversations = conversation.NewThreads(limits, func() bool { return false })
	t.Cleanup(u.conversations.Close)
	return u
}

// contexts returns the lines of turns with this text, whose model has read as many tokens as the text and the thread have.
func contexts(text string) func(int, fakecodex.Asked) []string {
	return func(_ int, a fakecodex.Asked) []string {
		read := (len(a.History) + len(gjson.Get(a.Params, "input.0.text").String())) / len("word ")
		return []string{
			textPart(text), fmt.Sprintf(`item/completed {"item":{"type":"agentMessage","id":"m","text":%q}}`, text),
			fmt.Sprintf(`rawResponse/completed {"usage":{"totalTokens":%d,"inputTokens":%d,"outputTokens":%d}}`, read+1, read, 1), completed,
		}
	}
}

// TestShortenedChat: with the option, a chat that would not fit is summarised in its own thread. It goes on in a
// shorter one, although its client sends all of the history each time. If that thread is lost, it is
// summarised anew.
func TestShortenedChat(t *testing.T) {
	m := newModel()
	m.answer, m.summary = contexts("Fine."), contexts("All that was.")
	u := m.windowed(t, 10_000)
	g := newGateway(u, Options{MaxConcurrent: 2, Shorten: true})
	var history []string
	next := func() (turns []fakecodex.Asked) {
		t.Helper()
		before := len(m.asked())
		history = append(history, fmt.Sprintf("%d %s", len(history), words(400)))
		w := askChat(t, g, "", history...)
		if turns = m.asked()[before:]; w.Code != http.StatusOK || content(w.Body.String()) != "Fine." {
			t.Fatalf("%d: %d %s", len(history), w.Code, w.Body)
		}
		history = append(history, "Fine.")
		if shortened := w.Header().Get(shortenedHeader) != ""; shortened != (len(turns) > 1) {
			t.Errorf("%d: %d turns, shortened %t", len(history), len(turns), shortened)
		}
		must.Happen(t, "the thread is kept", func() bool { return u.conversations.Stats().Kept > 0 })
		return turns
	}
	shortened, thread := 0, ""
	for range 70 {
		turns := next()
		last := turns[len(turns)-1]
		if thread != "" && turns[0].Thread != thread {
			t.Errorf("after %d messages the first of %d turns is not in the thread of the last answer", len(history), len(turns))
		}
		if thread = last.Thread; len(turns) == 1 {
			continue
		}
		if shortened++; len(turns) != 2 || !asksForSummary(turns[0]) || !strings.Contains(last.History, "All that was.") || strings.Contains(last.History, "word word") {
			t.Errorf("after %d messages %d turns, the last with %.300q", len(history), len(turns), last.History)
		}
	}
	if shortened < 3 {
		t.Errorf("shortened %d times", shortened)
	}
	u.conversations.Follow(nil) // all threads are lost
	if turns := next(); len(turns) < 4 {
		t.Errorf("%d turns without the thread", len(turns))
	}
	if turns := next(); len(turns) != 1 {
		t.Errorf("%d turns with a new thread", len(turns))
	}
}

// TestCountedTokens: what the provider has counted of a chat decides, not the estimate.
func TestCountedTokens(t *testing.T) {
	for factor, want := range map[int]int{1: 2, 4: 3} { // turns
		m := newModel()
		m.answer = func(n int, a fakecodex.Asked) []string {
			lines := contexts("Fine.")(n, a)
			read := (len(a.History) + len(gjson.Get(a.Params, "input.0.text").String())) / len("word ") * factor
			lines[2] = fmt.Sprintf(`rawResponse/completed {"usage":{"totalTokens":%d,"inputTokens":%d,"outputTokens":1}}`, read+1, read)
			return lines
		}
		u := m.windowed(t, 10_000)
		g := newGateway(u, Options{MaxConcurrent: 2, Shorten: true})
		long := words(5200 / max(1, factor/2))
		askChat(t, g, "", long)
		must.Happen(t, "the thread is kept", func() bool { return u.conversations.Stats().Kept > 0 })
		askChat(t, g, "", long, "Fine.", words(2600))
		if turns := m.asked(); len(turns) != want {
			t.Errorf("%d times the tokens: %d turns", factor, len(turns))
		}
	}
}

// TestPieces: a conversation that does not even fit for its summary is summarised in pieces, each of which fits. If it
// would need too many, it is refused at once.
func TestPieces(t *testing.T) {
	const window = 3000
	m := newModel()
	m.answer, m.summary = contexts("Fine."), contexts("All that was.")
	u := m.windowed(t, window)
	g := newGateway(u, Options{MaxConcurrent: 2, Shorten: true})
	var input []string
	for i := range 40 {
		input = append(input, item("user", fmt.Sprint(i, " ", words(300))), item("assistant", "Yes."))
	}
	input = append(input, item("user", "And now?"))
	texts := make([]string, len(input))
	for i := range input {
		texts[i] = gjson.Get(input[i], "content").String()
	}
	for name, ask := range map[string]func() *httptest.ResponseRecorder{
		"trigger": func() *httptest.ResponseRecorder {
			w, _ := createResponse(t, g, "", append(input, `{"type":"compaction_trigger"}`)...)
			return w
		},
		"truncation": func() *httptest.ResponseRecorder {
			w, _ := createResponse(t, g, `"truncation":"auto",`, input...)
			return w
		},
		"chat": func() *httptest.ResponseRecorder { return askChat(t, g, "", texts...) },
	} {
		before := len(m.asked())
		w := ask()
		turns := m.asked()[before:]
		if w.Code != http.StatusOK || w.Header().Get(shortenedHeader) != "true" || len(turns) < 5 || len(turns) > 8 {
			t.Errorf("%s: %d %s after %d turns", name, w.Code, w.Body, len(turns))
		}
		var read strings.Builder
		total := 0
		for i, a := range turns {
			tokens := (len(a.History) + len(gjson.Get(a.Params, "input.0.text").String())) / len("word ")
			if tokens > window {
				t.Errorf("%s: turn %d reads %d tokens", name, i, tokens)
			}
			if total += tokens; i > 0 && !strings.Contains(a.History, "All that was.") {
				t.Errorf("%s: turn %d does not know the summary before", name, i)
			}
			read.WriteString(a.History)
		}
		for i := range 40 { // nothing is lost
			if !strings.Contains(read.String(), fmt.Sprint(i, " word")) {
				t.Errorf("%s: no turn has read message %d", name, i)
			}
		}
		if response := gjson.ParseBytes(w.Body.Bytes()); name != "chat" && (kinds(response) != map[string]string{"trigger": "compaction", "truncation": "compaction message"}[name] || response.Get("usage.input_tokens").Int() < int64(total)) {
			t.Errorf("%s: %s, want %d tokens", name, response, total)
		}
	}
	before := len(m.asked())
	huge := slices.Repeat(input, 12)
	if w, response := createResponse(t, g, `"truncation":"auto",`, huge...); response.Get("error.code").String() != "context_length_exceeded" || len(m.asked()) != before {
		t.Errorf("%d %.300s after %d turns", w.Code, w.Body, len(m.asked())-before)
	}
	// one part that does not fit, at its end
	if w, response := createResponse(t, g, `"truncation":"auto",`, item("user", words(300)), item("assistant", "Yes."), item("user", words(4000))); response.Get("error.code").String() != "context_length_exceeded" || len(m.asked())-before > 3 {
		t.Errorf("%d %.300s after %d turns", w.Code, w.Body, len(m.asked())-before)
	}
	// several choices are not shortened
	before = len(m.asked())
	if w := askChat(t, g, `"n":2,`, texts...); w.Header().Get(shortenedHeader) != "" || len(m.asked())-before != 2 {
		t.Errorf("n is 2: %d turns %.300s", len(m.asked())-before, w.Body)
	}
	// nor is anything without the option
	g = newGateway(u, Options{MaxConcurrent: 2})
	before = len(m.asked())
	if w := askChat(t, g, "", texts...); w.Header().Get(shortenedHeader) != "" || len(m.asked())-before != 1 {
		t.Errorf("without the option: %d turns %.300s", len(m.asked())-before, w.Body)
	}
}

// TestSummariesOverWebSockets: a summary by a WebSocket is like any other. The session goes on with it.
func TestSummariesOverWebSockets(t *testing.T) {
	m := newModel()
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2, MaxBody: 64 << 10})
	rt := Find(responsesPath)
	ctx, client := dial(t, func(w http.ResponseWriter, r *http.Request) {
		g.ServeSocket(rt, w, r, func(r *http.Request, answer func(*http.Request)) { answer(r) })
	})
	create := func(members, input string) (id string, output gjson.Result) {
		t.Helper()
		answer := ask(ctx, t, client, `{"type":"response.create","model":"m","store":false,`+members+`"input":[`+input+`]}`)
		for {
			event := gjson.Parse(answer)
			if kind := event.Get("type").String(); kind == "response.completed" {
				return event.Get("response.id").String(), event.Get("response")
			} else if strings.HasSuffix(kind, "failed") || kind == "error" {
				t.Fatal(answer)
			}
			_, next, err := client.Read(ctx)
			must.OK(t, err)
			answer = string(next)
		}
	}
	id, _ := create("", item("user", "Hello."))
	id, response := create(`"previous_response_id":"`+id+`",`, `{"type":"compaction_trigger"}`)
	if kinds(response) != "compaction" || !asksForSummary(m.asked()[1]) || !strings.Contains(m.asked()[1].History, "Hello.") {
		t.Errorf("%s", response)
	}
	_, response = create(`"previous_response_id":"`+id+`",`, item("user", "And?"))
	if last := m.asked()[2].History; kinds(response) != "message" || !strings.Contains(last, "Hello.") || !strings.Contains(last, "All that was.") {
		t.Errorf("%s after %q", response, last)
	}
	id, response = create(threshold, item("user", words(1500))+","+item("assistant", "Yes.")+","+item("user", "And?"))
	if kinds(response) != "compaction message" {
		t.Errorf("%s", response)
	}
	for range 12 { // more than the session may keep, without summaries
		id, _ = create(threshold+`"previous_response_id":"`+id+`",`, item("user", words(1500)))
	}
}

// TestSummariesAtExit: at the exit a turn that summarises ends as any other does, also between two turns.
func TestSummariesAtExit(t *testing.T) {
	for _, stall := range []bool{true, false} {
		m := newModel()
		exiting, exit := context.WithCancel(t.Context())
		u := newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
			steps := m.turn(a)
			if exit(); stall {
				steps = append(steps[:2:2], fakecodex.Step{Pause: patience, Message: `{}`})
			}
			return steps
		}})
		g := newGateway(u, Options{MaxConcurrent: 2, Exit: exiting, DrainTimeout: 10 * time.Millisecond})
		w, response := createResponse(t, g, threshold, item("user", words(1500)), item("assistant", "Yes."), item("user", "And?"))
		if stall && (w.Code != http.StatusServiceUnavailable || response.Get("error.code").String() != "server_shutting_down") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		must.Happen(t, "nothing is held", func() bool { return u.leases.Load() == 0 && u.turns.Load() == 0 && g.queue.Running() == 0 })
		exit()
	}
}

// TestSummaryPanics: if sealing panics, nothing is held afterwards.
func TestSummaryPanics(t *testing.T) {
	m := newModel()
	u := m.upstream(t)
	for _, input := range []string{item("user", "x") + `,{"type":"compaction_trigger"}`, item("user", words(1500))} {
		g := newGateway(u, Options{MaxConcurrent: 2, Sealer: func(context.Context) (string, error) { panic("broken") }})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			createResponse(t, g, threshold, input)
		}()
		must.Happen(t, "nothing is held", func() bool {
			return u.leases.Load() == 0 && u.turns.Load() == 0 && g.queue.Running() == 0 && g.bodies.Held() == 0 && g.answerBudget.Held() == 0
		})
	}
}

// TestNoKey: without the key, a summary alone is the client's error, for which Codex does not ask again; all else says
// that the server fails. The log says why.
func TestNoKey(t *testing.T) {
	m, log := newModel(), new(bytes.Buffer)
	g := newGateway(m.upstream(t), Options{
		MaxConcurrent: 2, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Sealer: func(context.Context) (string, error) { return "", errors.New("no disk") },
	})
	for input, status := range map[string]int{
		item("user", "x") + `,{"type":"compaction_trigger"}`:                                   http.StatusBadRequest,
		item("user", words(1500)):                                                              http.StatusServiceUnavailable,
		`{"type":"compaction","encrypted_content":"codex-sealed-1.AAAA"},` + item("user", "x"): http.StatusServiceUnavailable,
	} {
		log.Reset()
		if w, _ := createResponse(t, g, threshold, input); w.Code != status || strings.Contains(w.Body.String(), "disk") || !strings.Contains(log.String(), "no disk") {
			t.Errorf("%d, want %d: %s\n%s", w.Code, status, w.Body, log)
		}
	}
}

// TestStaleSummary: a summary of a conversation object is not kept there if others have added to the
// conversation meanwhile, which it does not tell of. The client of the response gets it all the same.
func TestStaleSummary(t *testing.T) {
	for added, want := range map[bool]string{false: "message compaction message", true: "message message message"} {
		m, responses := newModel(), memoryStore(1<<24, time.Hour)
		g := newGateway(m.upstream(t), Options{MaxConcurrent: 2, Responses: responses})
		id := responseid.ConversationPrefix + responseid.NewSuffix(time.Now())
		must.OK(t, responses.Put(t.Context(), id, &objects.Entry{Response: json.RawMessage(`{}`)}))
		summary := m.summary
		m.summary = func(n int, a fakecodex.Asked) []string {
			if added {
				must.OK(t, responses.AddItems(t.Context(), "", id, []json.RawMessage{json.RawMessage(`{"id":"msg_other","type":"message","role":"user","content":[]}`)}))
			}
			return summary(n, a)
		}
		_, response := createResponse(t, g, threshold+`"conversation":"`+id+`",`, item("user", words(1500)))
		if got := kinds(response); got != "compaction message" {
			t.Fatal(got, response)
		}
		entry, err := responses.Get(t.Context(), "", id)
		must.OK(t, err)
		var all []string
		for _, item := range entry.Items() {
			all = append(all, gjson.GetBytes(item, "type").String())
		}
		entry.Release()
		if got := strings.Join(all, " "); got != want {
			t.Errorf("others have added %t: %s, want %s", added, got, want)
		}
	}
}

// TestPauseAfterAll: a client that wants to be paused after a summary is so, too, if only the model finds that the
// conversation is too long.
func TestPauseAfterAll(t *testing.T) {
	m := newModel()
	m.answer = func(int, fakecodex.Asked) []string { return []string{tooLong} }
	g := newGateway(m.upstream(t), Options{MaxConcurrent: 2})
	var messages []string
	for i := range 6 {
		messages = append(messages, item([]string{"user", "assistant"}[i%2], words(7_000)))
	}
	w := post(g, "/v1/messages", `{"model":"m","max_tokens":100,"context_management":{"edits":[{"type":"compact_20260112","pause_after_compaction":true,`+
		`"trigger":{"type":"input_tokens","value":50000}}]},"messages":[`+strings.Join(append(messages, item("user", "And now?")), ",")+`]}`)
	body := gjson.ParseBytes(w.Body.Bytes())
	if w.Code != http.StatusOK || body.Get("stop_reason").String() != "compaction" || body.Get("content.#").Int() != 1 || body.Get("content.0.content").String() != "All that was." {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
