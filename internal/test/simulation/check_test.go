package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// check checks an answer. If strict, the request must have succeeded.
func (r *run) check(a *answer, strict bool) {
	q := a.request
	if a.err != nil && !a.excused && !r.cutByExit(a) {
		r.fail("%s: the answer was cut off: %v, after %d bytes: %.300q", q.Token, a.err, len(a.body), tail(a.body))
	}
	if time.Since(a.begin) >= longest {
		r.fail("%s: it took %s", q.Token, time.Since(a.begin))
	}
	switch {
	case a.status == 0:
	case a.status != http.StatusOK:
		r.checkRefusal(a)
	default:
		r.checkAnswer(a)
	}
	if strict && (a.status != http.StatusOK || a.err != nil) {
		r.fail("%s: after all faults, a request fails: %d, %v: %.500s", q.Token, a.status, a.err, a.body)
	}
}

func tail(body []byte) []byte { return body[max(0, len(body)-150):] }

// cutByExit reports whether the server, about to exit, closed a connection without a request.
func (r *run) cutByExit(a *answer) bool { return a.status == 0 && r.exit.Err() != nil }

func (r *run) checkRefusal(a *answer) {
	if a.err != nil {
		return
	}
	e, err := apiclient.ReadError(a.body, a.request.API)
	if err != nil {
		r.fail("%s: a %d without an error: %v, %.300q", a.request.Token, a.status, err, a.body)
		return
	}
	r.checkLength(a)
	r.checkCode(a, e.Code, a.status)
}

// checkLength checks the Content-Length of a body.
func (r *run) checkLength(a *answer) {
	if a.length >= 0 && a.length != int64(len(a.body)) {
		r.fail("%s: %d bytes were announced and %d came", a.request.Token, a.length, len(a.body))
	}
}

func (r *run) checkAnswer(a *answer) {
	q := a.request
	if q.Bad != "" {
		r.fail("%s: a body that is wrong (%s) was answered: %.300q", q.Token, q.Bad, a.body)
		return
	}
	if !q.Stream && a.err != nil {
		return
	}
	h, err := a.read()
	switch {
	case err != nil:
		r.fail("%s: %v", q.Token, err)
		return
	case !h.Ended && a.err == nil:
		r.fail("%s: the stream has no end: %.300q", q.Token, tail(a.body))
	}
	if !q.Stream {
		r.checkLength(a)
	}
	if h.Failed {
		r.checkCode(a, h.Code, http.StatusOK)
	}
	r.checkContent(q, h)
	r.checkCancelled(a, h)
	r.checkKept(a, h)
}

func (a *answer) read() (*apiclient.Answer, error) {
	q := a.request
	return apiclient.Read(a.body, q.API, q.Stream, q.Choices)
}

// checkContent compares an answer with the turns of the app-server.
func (r *run) checkContent(q *request, h *apiclient.Answer) {
	if w := r.walkerOf(q.Token); w != nil {
		w.checkContent(q, h)
		return
	}
	r.mu.Lock()
	var performances []spoken
	for _, s := range r.performances[q.Token] {
		performances = append(performances, q.seen(s))
	}
	r.mu.Unlock()
	slices.SortStableFunc(performances, func(a, b spoken) int { return q.likelier(h, b) - q.likelier(h, a) })
	var total usage
	for _, i := range order(h) {
		c := &h.Choices[i]
		at := slices.IndexFunc(performances, func(s spoken) bool { return matches(c, &s) })
		if at < 0 && (c.Opened || c.Text+c.Reasoning+c.Finish != "" || c.Calls != nil) {
			r.fail("%s: choice %d is none of the answers of %d turns: failed %t, %.1000q", q.Token, i, len(performances), h.Failed, fmt.Sprint(*c))
			for _, s := range performances {
				r.trace.add("%s was: %.1000q", q.Token, fmt.Sprint(s))
			}
			return
		}
		if at >= 0 {
			total.add(q.Script.performance(q.Token, performances[at].number).usage)
			performances = slices.Delete(performances, at, at+1)
		}
		r.checkIDs(q, c)
	}
	if h.Ended && !h.Failed && (h.Usage != nil || !q.Stream || q.Usage || q.API != apiclient.Chat) && (h.Usage == nil || usage(*h.Usage) != total) {
		r.fail("%s: the usage is %v, and was %v", q.Token, h.Usage, total)
	}
}

// seen is what a client gets of a turn: in messages, reasoning if wanted, and object arguments.
func (q *request) seen(s spoken) spoken {
	if q.API != apiclient.Messages {
		return s
	}
	if !q.Thinking {
		s.reasoning = ""
	}
	s.calls = slices.Clone(s.calls)
	for i := range s.calls {
		s.calls[i].Arguments = compact(s.calls[i].Arguments)
	}
	return s
}

func compact(object string) string {
	var b bytes.Buffer
	_ = json.Compact(&b, []byte(object)) // which is one
	return b.String()
}

// likelier is 1 for a turn with the answer's usage, else 0: short answers of a request may agree.
func (q *request) likelier(h *apiclient.Answer, s spoken) int {
	if h.Usage != nil && usage(*h.Usage) == q.Script.performance(q.Token, s.number).usage {
		return 1
	}
	return 0
}

// order returns the order to match choices with turns: those first that can match only one.
func order(h *apiclient.Answer) []int {
	order := make([]int, len(h.Choices))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &h.Choices[i], &h.Choices[j]
		if (a.Finish == "") != (b.Finish == "") {
			return len(b.Finish) - len(a.Finish)
		}
		return len(fmt.Sprint(*b)) - len(fmt.Sprint(*a))
	})
	return order
}

func (u *usage) add(v usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.Cached += v.Cached
	u.Reasoned += v.Reasoned
}

// matches reports whether a choice is a turn's content, or its beginning if it has not ended.
func matches(c *apiclient.Choice, s *spoken) bool {
	if c.Finish == "" { // failed or cut off
		return strings.HasPrefix(s.text, strings.TrimSuffix(c.Text, "\n\n")) && strings.HasPrefix(s.reasoning, strings.TrimSuffix(c.Reasoning, "\n\n")) && c.CalledFirst(s.calls)
	}
	finish := "stop"
	switch {
	case s.end != endWell && s.end != endLength:
		return false
	case len(s.calls) > 0:
		finish = "tool_calls"
	case s.end == endLength:
		finish = "length"
	}
	return c.Finish == finish && c.Text == s.text && c.Reasoning == s.reasoning && len(c.Calls) == len(s.calls) && c.CalledFirst(s.calls)
}

// checkIDs checks that call ids are unique.
func (r *run) checkIDs(q *request, c *apiclient.Choice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range c.Calls {
		if whose := r.callIDs[call.ID]; whose != "" {
			r.failures = append(r.failures, q.Token+": the id "+call.ID+" is also of "+whose)
		}
		r.callIDs[call.ID] = q.Token
	}
}

// checkCancelled compares the answer to a cancellation with the end of the stream.
func (r *run) checkCancelled(a *answer, h *apiclient.Answer) {
	var e struct {
		Status string `json:"status"`
	}
	if a.canceled == nil || !h.Ended || a.err != nil {
		return
	}
	if err := json.Unmarshal(a.canceled, &e); err != nil {
		r.fail("%s: cancelling it: %v: %.300q", a.request.Token, err, a.canceled)
		return
	}
	if cancelled := h.Code == "response_cancelled"; cancelled && e.Status != "cancelled" || e.Status == "cancelled" && !cancelled {
		r.fail("%s: cancelling it said %.300q and the stream %q", a.request.Token, a.canceled, h.Code)
	}
}

// checkKept reads a stored response again.
func (r *run) checkKept(a *answer, h *apiclient.Answer) {
	if a.request.API != apiclient.Responses || a.request.Unstored || !h.Ended || r.exit.Err() != nil {
		return
	}
	for user, want := range map[string]int{a.user: http.StatusOK, "somebody else": http.StatusNotFound} {
		p := r.newClient(&client{User: user})
		status, body, err := p.elsewhere(http.MethodGet, "/v1/responses/"+h.ID)
		if r.exit.Err() != nil {
			return
		}
		if err != nil || status != want || want == http.StatusOK && !sameJSON(body, h.Object) {
			r.fail("%s: read again as %q it is %d %v %.500q, not %.500q", a.request.Token, user, status, err, body, h.Object)
		}
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
