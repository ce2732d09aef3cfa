package simulation

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
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

// tail returns the end of a body.
func tail(body []byte) []byte { return body[max(0, len(body)-150):] }

// cutByExit reports whether there is no answer because the server had begun to exit.
// It then closes connections without a request.
func (r *run) cutByExit(a *answer) bool { return a.status == 0 && r.exit.Err() != nil }

// checkRefusal checks an error.
func (r *run) checkRefusal(a *answer) {
	if a.err != nil {
		return
	}
	var e errorBody
	if err := json.Unmarshal(a.body, &e); err != nil || e.Error == nil || e.Error.Message == "" || e.Error.Type == "" {
		r.fail("%s: a %d without an error: %v, %.300q", a.request.Token, a.status, err, a.body)
		return
	}
	r.checkLength(a)
	r.checkCode(a, e.code(), a.status)
}

// checkLength checks the Content-Length of a body.
func (r *run) checkLength(a *answer) {
	if a.length >= 0 && a.length != int64(len(a.body)) {
		r.fail("%s: %d bytes were announced and %d came", a.request.Token, a.length, len(a.body))
	}
}

// checkAnswer checks an answer with the status 200.
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
	case !h.ended && a.err == nil:
		r.fail("%s: the stream has no end: %.300q", q.Token, tail(a.body))
	}
	if !q.Stream {
		r.checkLength(a)
	}
	if h.failed {
		r.checkCode(a, h.code, http.StatusOK)
	}
	r.checkContent(q, h)
	r.checkCancelled(a, h)
	r.checkKept(a, h)
}

// read parses the answer.
func (a *answer) read() (*heard, error) {
	switch q := a.request; {
	case q.Responses && q.Stream:
		return responseStream(a.body)
	case q.Responses:
		return responseBody(a.body)
	case q.Stream:
		return chatStream(a.body, q.Choices)
	default:
		return chatBody(a.body, q.Choices)
	}
}

// checkContent compares an answer with the turns of the app-server.
func (r *run) checkContent(q *request, h *heard) {
	r.mu.Lock()
	performances := slices.Clone(r.performances[q.Token])
	r.mu.Unlock()
	slices.SortStableFunc(performances, func(a, b spoken) int { return q.likelier(h, b) - q.likelier(h, a) })
	var total usage
	for _, i := range h.order() {
		c := &h.choices[i]
		at := slices.IndexFunc(performances, func(s spoken) bool { return c.matches(&s, h) })
		if at < 0 && (c.opened || !c.empty() || c.finish != "") {
			r.fail("%s: choice %d is none of the answers of %d turns: finish %q, failed %t, %.1000q", q.Token, i, len(performances), c.finish, h.failed, c.said())
			for _, s := range performances {
				r.trace.add("%s was: end %q, %.1000q", q.Token, s.end, s.said())
			}
			return
		}
		if at >= 0 {
			total.add(q.Script.performance(q.Token, performances[at].number).usage)
			performances = slices.Delete(performances, at, at+1)
		}
		r.checkIDs(q, c)
	}
	if h.ended && !h.failed && (h.usage != nil || !q.Stream || q.Usage || q.Responses) && (h.usage == nil || *h.usage != total) {
		r.fail("%s: the usage is %v, and was %v", q.Token, h.usage, total)
	}
}

// likelier returns 1 for a turn with the usage of an answer, else 0. Short answers to a
// request that is sent twice may be the same.
func (q *request) likelier(h *heard, s spoken) int {
	if h.usage != nil && *h.usage == q.Script.performance(q.Token, s.number).usage {
		return 1
	}
	return 0
}

// order returns the order in which choices are matched with turns: those first that
// can match only one.
func (h *heard) order() []int {
	order := make([]int, len(h.choices))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &h.choices[i], &h.choices[j]
		if (a.finish == "") != (b.finish == "") {
			return len(b.finish) - len(a.finish)
		}
		return len(b.said()) - len(a.said())
	})
	return order
}

func (u *usage) add(v usage) {
	u.input += v.input
	u.output += v.output
	u.cached += v.cached
	u.reasoned += v.reasoned
}

func (c *choice) empty() bool { return c.text == "" && c.reasoning == "" && len(c.calls) == 0 }

func (c *choice) said() string {
	s := spoken{text: c.text, reasoning: c.reasoning, calls: c.calls}
	return s.said()
}

func (s *spoken) said() string {
	said := "reasoning: " + s.reasoning + " text: " + s.text
	for _, call := range s.calls {
		said += " " + call.name + call.arguments
	}
	return said
}

// matches reports whether a choice has the content of a turn, or the beginning of it
// if the choice has not ended.
func (c *choice) matches(s *spoken, h *heard) bool {
	if c.finish == "" { // failed or cut off
		return strings.HasPrefix(s.text, strings.TrimSuffix(c.text, "\n\n")) && strings.HasPrefix(s.reasoning, strings.TrimSuffix(c.reasoning, "\n\n")) && c.calledFirst(s)
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
	return c.finish == finish && c.text == s.text && c.reasoning == s.reasoning && len(c.calls) == len(s.calls) && c.calledFirst(s)
}

// calledFirst reports whether the calls are the first calls of a turn. The last one
// may be incomplete.
func (c *choice) calledFirst(s *spoken) bool {
	if len(c.calls) > len(s.calls) {
		return false
	}
	for i, call := range c.calls {
		want := s.calls[i]
		whole := c.finish != "" || i < len(c.calls)-1
		if call.name != want.name || !strings.HasPrefix(want.arguments, call.arguments) || whole && call.arguments != want.arguments {
			return false
		}
	}
	return true
}

// checkIDs checks that call ids are unique.
func (r *run) checkIDs(q *request, c *choice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range c.calls {
		if whose := r.callIDs[call.id]; whose != "" {
			r.failures = append(r.failures, q.Token+": the id "+call.id+" is also of "+whose)
		}
		r.callIDs[call.id] = q.Token
	}
}

// checkCancelled compares the answer to a cancellation with the end of the stream.
func (r *run) checkCancelled(a *answer, h *heard) {
	var e struct {
		errorBody
		Status string `json:"status"`
	}
	if a.canceled == nil || !h.ended || a.err != nil {
		return
	}
	if err := json.Unmarshal(a.canceled, &e); err != nil {
		r.fail("%s: cancelling it: %v: %.300q", a.request.Token, err, a.canceled)
		return
	}
	if cancelled := h.code == "response_cancelled"; cancelled && e.Status != "cancelled" || e.Status == "cancelled" && !cancelled {
		r.fail("%s: cancelling it said %.300q and the stream %q", a.request.Token, a.canceled, h.code)
	}
}

// checkKept reads a stored response again.
func (r *run) checkKept(a *answer, h *heard) {
	if !a.request.Responses || !h.ended || r.exit.Err() != nil {
		return
	}
	for user, want := range map[string]int{a.user: http.StatusOK, "somebody else": http.StatusNotFound} {
		p := r.newClient(&client{User: user})
		status, body, err := p.elsewhere(http.MethodGet, "/v1/responses/"+h.id)
		if r.exit.Err() != nil {
			return
		}
		if err != nil || status != want || want == http.StatusOK && !sameJSON(body, h.object) {
			r.fail("%s: read again as %q it is %d %v %.500q, not %.500q", a.request.Token, user, status, err, body, h.object)
		}
	}
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
