package faults

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// outage is a way in which the back end of a plan fails for all that models are asked by.
type outage struct {
	fault planbackend.Fault
	kinds []planbackend.Kind
	code  string // of the error that clients get
	most  int    // calls by which one request asks the model
}

var asking = []planbackend.Kind{planbackend.Responses, planbackend.Socket}

// A turn asks over a WebSocket and then over HTTP. If the failure may pass, the turn is repeated over HTTP.
const once, repeated = 2, 3

var outages = map[string]outage{
	"500":       {planbackend.Status(500), asking, "upstream_error", repeated},
	"503":       {planbackend.Status(503), asking, "server_overloaded", repeated},
	"a page":    {planbackend.HTML(403), asking, "codex_forbidden", once},
	"429":       {planbackend.Status(429), asking, "rate_limit_exceeded", once},
	"429 until": {planbackend.Status(429).RetryAfter(limit), asking, "rate_limit_exceeded", once},
	"no one":    {planbackend.Down(), []planbackend.Kind{planbackend.All}, "upstream_disconnected", 0},
	"a cut":     {planbackend.Down(), asking, "upstream_disconnected", repeated},
	"not found": {planbackend.Status(404), asking, "model_not_found", once},
}

const (
	// limit is how long the back end wants to be left alone.
	limit = 30 * time.Second
	// soon bounds a request that waits for nothing too long, also on a busy machine. Codex by itself
	// would wait for the limit, or 15 s for the handshake of a WebSocket.
	soon = 14 * time.Second
)

// modelCalls returns the calls since a time by which turns asked the model. The WebSockets that spare
// threads open meanwhile are not among them: how many there are depends on the speed of the machine.
func modelCalls(s *e2e.Site, since time.Time) (calls []planbackend.Call) {
	for _, call := range s.Plan.Calls(planbackend.All) {
		metadata := call.Header.Get("X-Codex-Turn-Metadata")
		if slices.Contains(asking, call.Kind) && !call.At.Before(since) && gjson.Get(metadata, "request_kind").Str == "turn" {
			calls = append(calls, call)
		}
	}
	return calls
}

// socketsOf returns how many WebSockets the threads of some calls have tried, also in advance.
func socketsOf(s *e2e.Site, calls []planbackend.Call) (n int) {
	for _, socket := range s.Plan.Calls(planbackend.Socket) {
		if slices.ContainsFunc(calls, func(call planbackend.Call) bool {
			return call.Header.Get("Thread-Id") == socket.Header.Get("Thread-Id")
		}) {
			n++
		}
	}
	return n
}

// checkRetryAfter checks that a client is told the limit, less the time that its request took.
func checkRetryAfter(t *testing.T, response *http.Response, took time.Duration) {
	t.Helper()
	after, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if wait := time.Duration(after) * time.Second; err != nil || wait > limit || wait <= limit-took-time.Second {
		t.Errorf("Retry-After is %q after %s", response.Header.Get("Retry-After"), took)
	}
}

// TestProviderFails checks that a request is told within seconds, and with few attempts, what
// is wrong with the model's provider, and that requests are served again once that answers.
func TestProviderFails(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for name, o := range outages {
			for i := range 3 {
				if response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"seed": i}), nil); response.StatusCode != http.StatusOK {
					t.Errorf("before %s: %s %s", name, response.Status, text)
				}
			}
			for _, kind := range o.kinds {
				s.Plan.Fail(kind, o.fault)
			}
			if o.kinds[0] != planbackend.All {
				s.Plan.Cut() // kept connections
			}
			began := time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, nil), nil)
			took := time.Since(began)
			calls := len(modelCalls(s, began))
			t.Logf("%s over %s: %s after %.2f s with %d calls", name, e2e.Transport, response.Status, took.Seconds(), calls)
			if name == "429 until" {
				checkRetryAfter(t, response, took)
			}
			if !strings.Contains(text, `"`+o.code+`"`) || calls < min(o.most, 1) || calls > o.most || took > soon {
				t.Errorf("%s: %s %s after %s with %d calls", name, response.Status, text, took, calls)
			}
			s.Plan.Heal()
		}
	})
}

// TestProviderStumbles: a failure before an answer is bridged; a rate limit is not asked again.
func TestProviderStumbles(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for name, c := range map[string]struct {
			fault  planbackend.Fault
			status int
			calls  int // over HTTP
		}{
			"500": {planbackend.Status(500), http.StatusOK, 2},
			"503": {planbackend.Status(503).RetryAfter(30 * time.Second), http.StatusOK, 2},
			"cut": {planbackend.Down(), http.StatusOK, 2},
			"429": {planbackend.Status(429), http.StatusTooManyRequests, 1},
		} {
			s.Plan.Fail(planbackend.Socket, planbackend.Status(500))
			s.Plan.Fail(planbackend.Responses, c.fault.For(1))
			s.Plan.Cut()
			before, began := s.Plan.Count(planbackend.Responses), time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, nil), nil)
			took, calls := time.Since(began), s.Plan.Count(planbackend.Responses)-before
			if response.StatusCode != c.status || took > soon || name != "cut" && calls != c.calls {
				t.Errorf("%s: %s %s after %s with %d calls", name, response.Status, text, took, calls)
			}
			s.Plan.Heal()
		}
	})
}

// TestSilentWebSocket checks that a WebSocket to the provider which nobody answers, or which is
// refused, costs the first request some seconds at most, and that others do not wait for it.
func TestSilentWebSocket(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, "websocket")
	for name, fault := range map[string]planbackend.Fault{"silent": planbackend.Silent(), "refused": planbackend.Status(403)} {
		s := e2e.NewSite(t, "")
		s.Plan.Fail(planbackend.Socket, fault)
		for i, most := range []int{2, 0, 0} { // WebSockets: one in advance and, since it fails, that of the turn
			began := time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, map[string]any{"seed": i}), nil)
			took, calls := time.Since(began), modelCalls(s, began)
			tried := socketsOf(s, calls)
			t.Logf("%s: request %d took %.2f s, with %d WebSockets", name, i+1, took.Seconds(), tried)
			if response.StatusCode != http.StatusOK || len(calls) == 0 || tried > most || took > soon {
				t.Errorf("%s: %s %s after %s with %d calls and %d WebSockets", name, response.Status, text, took, len(calls), tried)
			}
		}
		if n := s.Plan.Count(planbackend.Socket); n > 3 {
			t.Errorf("%s: %d WebSockets were tried", name, n)
		}
	}
}

// TestLimitedRequests: a limit is told at once, also one on a WebSocket, though Codex would wait.
func TestLimitedRequests(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		const limited, overloaded = http.StatusTooManyRequests, http.StatusServiceUnavailable
		// Each within a second of the one before, whose limit is not its own.
		for _, status := range []int{limited, overloaded, limited} {
			prompt, began := fmt.Sprintf("http:%d 30", status), time.Now()
			response, text := s.Post(e2e.ChatBody(prompt, nil), nil)
			took := time.Since(began)
			checkRetryAfter(t, response, took)
			if response.StatusCode != status || took > soon {
				t.Errorf("%s: %s %s after %s", prompt, response.Status, text, took)
			}
		}
	})
}

// codeRow is a row of the table of the provider's codes: the codes, and the status and the code
// that clients get for them at the end of a stream and in a 400, where it may be the same one.
var codeRow = regexp.MustCompile("(?m)^\\| (`[^|]+) \\| (\\d+) `([a-z_]+)` \\| (\\d+)(?: `([a-z_]+)`|, the same code) \\|$")

// codeName is a code in the first cell of a row.
var codeName = regexp.MustCompile("`([a-z_]+)`")

// documentedCodes returns the rows of the table by the provider's codes.
func documentedCodes(t *testing.T) map[string][]string {
	codes := make(map[string][]string)
	for _, row := range codeRow.FindAllStringSubmatch(e2e.ReadFile(t, "../../../../docs/errors.md"), -1) {
		for _, code := range codeName.FindAllStringSubmatch(row[1], -1) {
			codes[code[1]] = slices.Clone(row)
			if row[5] == "" {
				codes[code[1]][5] = code[1]
			}
		}
	}
	if len(codes) < 15 {
		t.Fatalf("the table has the codes %q", codes)
	}
	return codes
}

// TestProviderCodes: clients get what is documented for a provider's code, and a cut answer once.
func TestProviderCodes(t *testing.T) {
	e2e.WithLogin(t)
	codes := documentedCodes(t)
	e2e.OverBothSampled(t, func(t *testing.T, all bool) {
		s := e2e.NewSite(t, "")
		for i, code := range slices.Sorted(maps.Keys(codes)) {
			if all || i%4 == 0 {
				checkCode(s, code, codes[code])
			}
		}
		for range 3 {
			reply := s.AskBoth(e2e.Question{Prompt: "say:It is once;incomplete:content_filter"})
			content := "It is once"
			e2e.CheckReply(t, reply, &content, nil, "content_filter")
		}
	})
}

// wordsOf has the provider's words for codes of which Codex passes on the text only.
var wordsOf = map[string]string{
	"usage_limit_reached":      "The usage limit has been reached",
	"bio_policy":               "This content was flagged for possible biological risk.",
	"content_policy_violation": "Your request was rejected as a result of our safety system.",
	"invalid_prompt":           "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
}

// checkCode checks a row of the table.
func checkCode(s *e2e.Site, code string, row []string) {
	s.T.Helper()
	words := cmp.Or(wordsOf[code], "these are the words for "+code)
	for end, want := range map[scriptedmodel.End][]string{
		scriptedmodel.Failed{Code: code, Message: words}:                 row[2:4],
		scriptedmodel.HTTPError{Status: 400, Code: code, Message: words}: row[4:6],
	} {
		remove := s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) { return scriptedmodel.Script{End: end}, true })
		response, text := s.Post(e2e.ChatBody("hello", nil), nil)
		remove()
		status, _ := strconv.Atoi(want[0])
		if response.StatusCode != status || !strings.Contains(text, fmt.Sprintf(`"code":%q`, want[1])) {
			s.T.Errorf("%#v: %s %s, want %s", end, response.Status, text, want)
		}
		if status == http.StatusBadRequest && want[1] != "context_length_exceeded" && !strings.Contains(text, words) {
			s.T.Errorf("%#v: %s", end, text)
		}
	}
}

// TestInventedTool checks what a client gets if the model calls one of Codex's tools that it was not
// offered: an error that clients do not answer with the same request, and words that help.
func TestInventedTool(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		var asked atomic.Int32
		s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			if r.Input[len(r.Input)-1].Type == "message" { // Codex answers the call itself before the turn ends, if it is fast enough
				asked.Add(1)
			}
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Call{Name: "exec", Arguments: "ls", Custom: true}}}, true
		})
		for _, stream := range []bool{false, true} {
			asked.Store(0)
			begin := time.Now()
			response, text := s.Post(e2e.ChatBody("list the files", e2e.Fields{"stream": stream, "tools": []any{e2e.Tool("localSearch")}}), nil)
			for _, want := range []string{`"unknown_tool_called"`, "exec", "which tools it may call"} {
				if response.StatusCode != http.StatusBadRequest && !e2e.IsLate(response, begin) || !strings.Contains(text, want) {
					t.Errorf("%s %s; want %q", response.Status, text, want)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the model was asked %d times", n)
			}
		}
	})
}

// TestSpentInMidStream: what a client gets if the plan is spent before or after the first text.
func TestSpentInMidStream(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		var output []scriptedmodel.Output
		s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
			return scriptedmodel.Script{Output: output, End: scriptedmodel.Failed{Code: "usage_limit_reached", Message: "The usage limit has been reached"}}, true
		})
		check := func(status int, stream bool) {
			t.Helper()
			begin := time.Now()
			response, text := s.Post(e2e.ChatBody("hello", e2e.Fields{"stream": stream}), nil)
			if response.StatusCode != status && !e2e.IsLate(response, begin) || !strings.Contains(text, `"code":"insufficient_quota"`) || !strings.Contains(text, "The usage limit has been reached") || strings.Contains(text, "disconnected") {
				t.Errorf("%s %s", response.Status, text)
			}
		}
		check(http.StatusTooManyRequests, false)
		check(http.StatusTooManyRequests, true)
		output = []scriptedmodel.Output{scriptedmodel.Say("It begins")}
		check(http.StatusTooManyRequests, false)
		check(http.StatusOK, true)
	})
}

// overSocket makes the model end a text by end over a WebSocket. Over HTTP it answers.
func overSocket(s *e2e.Site, text string, end scriptedmodel.End) {
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: end}, r.Transport == scriptedmodel.WebSocket && strings.Contains(string(r.Body), text)
	})
}

// checkTransport begins a conversation and checks over which transport the model is asked.
func checkTransport(t *testing.T, s *e2e.Site, prompt string, want scriptedmodel.Transport) {
	t.Helper()
	response, text := s.Post(e2e.ChatBody(prompt, nil), nil)
	if request, _ := s.Model.Last(); response.StatusCode != http.StatusOK || request.Transport != want {
		t.Errorf("%s: %s over %s, want %s: %s", prompt, response.Status, request.Transport, want, text)
	}
}

// TestSocketTooOld checks that the end of a WebSocket as old as the provider allows does not
// change how later conversations reach the provider, even if no other WebSocket has worked yet.
func TestSocketTooOld(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, scriptedmodel.WebSocket)
	s := e2e.NewSite(t, "")
	overSocket(s, "too old", scriptedmodel.HTTPError{
		Status: http.StatusBadRequest, Code: "websocket_connection_limit_reached",
		Message: "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
	})
	for i := range 3 {
		checkTransport(t, s, fmt.Sprint("say:too old ", i), scriptedmodel.HTTP)
		checkTransport(t, s, fmt.Sprint("say:ok ", i), scriptedmodel.WebSocket)
	}
}

// TestBrokenSockets: while others work, cut WebSockets change no later conversation's transport.
func TestBrokenSockets(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, scriptedmodel.WebSocket)
	s := e2e.NewSite(t, "")
	overSocket(s, "breaks", scriptedmodel.Cut{})
	overSocket(s, "wait", scriptedmodel.Hang{})
	checkTransport(t, s, "say:ok", scriptedmodel.WebSocket)
	for i := range 3 {
		checkTransport(t, s, fmt.Sprint("say:breaks ", i), scriptedmodel.HTTP)
		checkTransport(t, s, fmt.Sprint("say:ok ", i), scriptedmodel.WebSocket)
	}
	const several = 6
	var clients sync.WaitGroup
	before := s.Model.Stats().Requests
	for i := range several {
		clients.Go(func() {
			if response, text := s.Post(e2e.ChatBody(fmt.Sprint("say:wait ", i), nil), nil); response.StatusCode != http.StatusOK {
				t.Error(response.Status, text)
			}
		})
	}
	e2e.WaitFor(t, "the requests", func() bool { return s.Model.Stats().Requests == before+several })
	s.Model.CutSockets()
	clients.Wait()
	checkTransport(t, s, "say:ok afterwards", scriptedmodel.WebSocket)
	// While none works, they are left alone.
	checkTransport(t, s, "say:breaks again", scriptedmodel.HTTP)
	checkTransport(t, s, "say:breaks and again", scriptedmodel.HTTP)
	checkTransport(t, s, "say:ok over HTTP", scriptedmodel.HTTP)
}
