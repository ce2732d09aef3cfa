package fakecodex

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const (
	codeInvalid    = -32600
	codeOverloaded = -32001
)

// call answers a call of the client.
func (s *server) call(method, id string, params gjson.Result) {
	switch {
	case slices.Contains(s.opts.Faults.Mute, method):
	case method == "initialize":
		s.initialize(id, params)
	case !s.ready():
		s.refuse(id, codeInvalid, "Not initialized")
	case s.overloaded():
		s.refuse(id, codeOverloaded, "Server overloaded; retry later.")
	case s.opts.Call != nil && s.opts.Call(s.send, method, id, params):
	case method == "account/rateLimits/read":
		s.rateLimits(id)
	case method == "thread/start":
		s.startThread(id, params)
	case slices.Contains(fixed, method):
		s.fixed(method, id)
	default:
		s.callThread(method, id, params)
	}
}

// fixed sends the recorded answer of a method.
func (s *server) fixed(method, id string) {
	if refused := s.opts.Transcripts.refused[method]; refused.Exists() {
		s.refuse(id, int(refused.Get("code").Int()), "%s", refused.Get("message").Str)
		return
	}
	s.answer(id, s.opts.Transcripts.answers[method])
}

// versionPattern finds the version in a user agent.
var versionPattern = regexp.MustCompile(`^[^/]*/[0-9.]+`)

// initialize sends the recorded answer, with the name of this client.
func (s *server) initialize(id string, params gjson.Result) {
	result := s.opts.Transcripts.answers["initialize"]
	agent := gjson.Get(result, "userAgent").Str
	recorded := versionPattern.FindString(agent)
	live := params.Get("clientInfo.name").Str + agent[strings.IndexByte(recorded, '/'):]
	s.mu.Lock()
	s.initialized = true
	s.mu.Unlock()
	s.answer(id, strings.Replace(result, wirejson.Quote(agent), wirejson.Quote(live), 1))
}

// rateLimits sends the limits of the plan, if there are any.
func (s *server) rateLimits(id string) {
	if s.opts.RateLimits == "" {
		s.refuse(id, codeInvalid, "codex account authentication required to read rate limits")
		return
	}
	s.answer(id, `{"rateLimits":`+s.opts.RateLimits+`,"rateLimitsByLimitId":null}`)
}

func (s *server) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.initialized
}

func (s *server) overloaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == 0 {
		return false
	}
	s.refusals--
	return true
}

// newID returns an id in Codex's form that is unique on this server.
func (s *server) newID() string {
	s.lastID++
	return fmt.Sprintf("00000000-0000-7000-8000-%012d", s.lastID)
}

func (s *server) startThread(id string, params gjson.Result) {
	result := s.opts.Transcripts.answers["thread/start"]
	t := s.newThread(params)
	recorded := wirejson.Quote(gjson.Get(result, "thread.id").Str)
	s.answer(id, strings.ReplaceAll(result, recorded, wirejson.Quote(t.id)))
}

func (s *server) newThread(params gjson.Result) *thread {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &thread{id: s.newID(), start: params.Raw}
	s.threads[t.id] = t
	return t
}

// callThread answers calls with a thread id.
func (s *server) callThread(method, id string, params gjson.Result) {
	s.mu.Lock()
	t := s.threads[params.Get("threadId").Str]
	s.mu.Unlock()
	switch {
	case !slices.Contains([]string{"thread/inject_items", "thread/unsubscribe", "turn/start", "turn/interrupt", "turn/steer"}, method):
		s.refuse(id, codeInvalid, "Invalid request: unknown variant `%s`", method)
	case t == nil:
		s.refuse(id, codeInvalid, "thread not found: %s", params.Get("threadId").Str)
	case method == "thread/inject_items":
		s.mu.Lock()
		t.history += historyKey(params.Get("items"))
		t.thought += reasoningKey(params.Get("items"))
		s.mu.Unlock()
		s.answer(id, `{}`)
	case method == "thread/unsubscribe":
		s.mu.Lock()
		delete(s.threads, t.id) // a running turn continues to its end
		s.mu.Unlock()
		s.answer(id, `{"status":"unsubscribed"}`)
	case method == "turn/start":
		s.startTurn(t, id, params)
	case method == "turn/steer":
		s.steer(t, id, params)
	case method == "turn/interrupt":
		s.interrupt(t, id, params.Get("turnId").Str)
	}
}
