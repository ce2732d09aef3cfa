package simulation

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// How a chat completion or a message follows an earlier one, of either API, if any.
const (
	extend  = "extend"           // with the results of the calls, or with another question
	edit    = "edit a question"  // and forget what came after it
	distort = "edit an answer"   // then extend
	again   = "ask again"        // send the same request once more
	omit    = "omit a result"    // which is an error; extend if there were no calls
	others  = "of somebody else" // extend what may be the conversation of another client
)

var followUps = []string{extend, extend, extend, edit, distort, again, omit, others}

// talk is a conversation as its client has it after an answer.
type talk struct {
	user      string
	request   request          // that was answered
	asked     []message        // its messages
	given     string           // what the model is given of them
	messages  []message        // with the answer
	said      string           // what the model is given of these
	calls     []apiclient.Call // of the answer
	tools     bool             // the requests have tools
	questions []question
}

// question is a message of the user's in a talk.
type question struct {
	messages int    // that precede it
	said     string // what the model is given of these
}

// sending is a request as it is sent: with its messages, and what the model is to be given.
type sending struct {
	request
	messages  []message
	given     string
	tools     bool
	questions []question

	path string // empty: that of the API
	raw  []byte // the body; nil: it is made of the messages
}

// prepare makes a request's messages. A conversation too long for a body does not go on.
func (p *player) prepare(q *request) *sending {
	random := randomOf(q.Token + ".talk")
	if t := p.choose(q, random); t != nil {
		s := t.goOn(q, random)
		if t.user != p.plan.User { // whose reasoning it would have
			s.messages = withoutAnswers(s.messages)
		}
		if int64(len(s.goodBody(""))) <= p.of.plan.Config.MaxBody {
			return s
		}
	}
	return begin(q, random)
}

// goOn makes the messages of a request that follows a talk.
func (t *talk) goOn(q *request, random *rand.Rand) *sending {
	if q.FollowUp == again {
		s := &sending{request: *q, messages: t.asked, given: t.given, tools: t.tools, questions: t.questions}
		s.Token, s.Prompt, s.Script = t.request.Token, t.request.Prompt, t.request.Script
		return s
	}
	s := &sending{request: *q, messages: slices.Clone(t.messages), given: t.said, tools: t.tools || len(q.Script.Calls) > 0, questions: t.questions}
	switch q.FollowUp {
	case edit:
		at := random.IntN(len(t.questions))
		s.messages, s.given, s.questions = s.messages[:t.questions[at].messages], t.questions[at].said, t.questions[:at]
		s.ask()
		return s
	case distort:
		s.distort()
	}
	results := t.calls
	if q.FollowUp == omit && len(results) > 0 {
		results, s.Bad = results[1:], "a result is missing"
	}
	for i, call := range results {
		text := prompt(q.Token, 100*i)
		s.messages = append(s.messages, message{role: "tool", callID: call.ID, text: text})
		s.given += text + "\x00"
	}
	if len(t.calls) == 0 || random.IntN(3) == 0 {
		s.ask()
	}
	return s
}

// choose returns the talk that a request follows, or nil.
func (p *player) choose(q *request, random *rand.Rand) *talk {
	if q.FollowUp == "" {
		return nil
	}
	r := p.of
	r.mu.Lock()
	defer r.mu.Unlock()
	t := p.talk
	if q.FollowUp == others && len(r.talks) > 0 {
		t = r.talks[random.IntN(len(r.talks))]
	}
	if t == nil || q.FollowUp == again && t.request.Choices != 1 {
		return nil
	}
	return t
}

// begin makes the messages of a new conversation.
func begin(q *request, random *rand.Rand) *sending {
	s := &sending{request: *q, tools: len(q.Script.Calls) > 0 || random.IntN(4) > 0}
	if one, other := historyOf(q.Token); one != "" {
		s.messages = append(s.messages, message{role: "user", text: one}, message{role: "assistant", text: other})
		s.given = history(q.Token)
	}
	s.ask()
	return s
}

// ask adds the prompt of the request.
func (s *sending) ask() {
	text := prompt(s.Token, s.Prompt)
	s.questions = append(slices.Clone(s.questions), question{len(s.messages), s.given})
	s.messages = append(s.messages, message{role: "user", text: text})
	s.given += text + "\x00"
}

// distort changes the first answer with a text, which the model has never said so.
func (s *sending) distort() {
	for i, m := range s.messages {
		if text := m.text; m.role == "assistant" && text != "" {
			s.messages[i].text, s.messages[i].answer = "Not "+text, nil
			said := func(given string) string {
				return strings.Replace(given, "\x00"+text+"\x00", "\x00Not "+text+"\x00", 1)
			}
			s.given, s.questions = said(s.given), slices.Clone(s.questions)
			for i := range s.questions {
				s.questions[i].said = said(s.questions[i].said)
			}
			return
		}
	}
}

// converse records the talk after an answer.
func (p *player) converse(a *answer) {
	s := a.sending
	if s == nil || a.status != http.StatusOK || a.err != nil || s.Bad != "" {
		return
	}
	h, err := a.read()
	if err != nil || !h.Ended || h.Failed || h.Choices[0].Finish != "stop" && h.Choices[0].Finish != "tool_calls" {
		return
	}
	c := &h.Choices[0]
	t := &talk{
		user: p.plan.User, request: s.request, asked: s.messages, given: s.given,
		tools: s.tools, calls: c.Calls, said: s.given, questions: s.questions,
	}
	if c.Text != "" {
		t.said += c.Text + "\x00"
	}
	for _, call := range c.Calls {
		t.said += call.Name + "\x00" + call.Arguments + "\x00"
	}
	t.messages = append(slices.Clone(s.messages), message{role: "assistant", text: c.Text, calls: c.Calls, answer: h.Message})
	r := p.of
	r.mu.Lock()
	defer r.mu.Unlock()
	p.talk = t
	r.talks = append(r.talks, t)
}

// expect records what the model is to be given for a request that is about to be sent.
func (r *run) expect(user string, q *request, given string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted[q.Token] = given
	r.users[q.Token] = append(r.users[q.Token], user)
	r.allowed[q.Token] += q.Choices
	if q.FollowUp != "" || q.Follow {
		r.allowed[q.Token]++ // if the thread that was kept does not go on, there is another
	}
	if q.Script.End == endFailed {
		r.allowed[q.Token] += q.Choices // a turn moves once to another login
	}
}

// words returns a conversation without what clients may change: white space and separators.
func words(given string) string {
	return strings.Join(strings.FieldsFunc(given, func(r rune) bool { return strings.ContainsRune("\x00\n\t ", r) }), "")
}

// checkGiven checks what the model is given: all of the conversation, and reasoning of nobody else.
func (r *run) checkGiven(token, given, reasoning, thread string) {
	r.mu.Lock()
	want, users, owners := r.wanted[token], r.users[token], r.owners[thread]
	if len(users) == 1 {
		r.owners[thread] = users[0]
	}
	r.mu.Unlock()
	if words(given) != words(want) {
		r.fail("%s: the conversation is not the client's: %.1000q, not %.1000q", token, given, want)
	}
	if owners != "" && !slices.Contains(users, owners) {
		r.fail("%s: a request of %v is answered in a thread of %s", token, users, owners)
	}
	for secret := range strings.SplitSeq(strings.TrimSuffix(reasoning, "\x00"), "\x00") {
		of, _, _ := strings.Cut(strings.TrimPrefix(secret, "secret of "), "/")
		if of != "" && (!strings.Contains(given, of+tokenEnd) || !slices.ContainsFunc(users, func(user string) bool { return slices.Contains(r.usersOf(of), user) })) {
			r.fail("%s: a request of %v got %q", token, users, secret)
		}
	}
}

// usersOf returns who has sent the request with a token.
func (r *run) usersOf(token string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.users[token])
}

// late is how long a client may take to go on.
func late(random *rand.Rand) time.Duration {
	if random.IntN(6) > 0 {
		return 0
	}
	return time.Duration(random.IntN(90)) * time.Second
}

func threadOf(instance int, thread string) string { return fmt.Sprintf("%d/%s", instance, thread) }
