package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
	requests "github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

// longModel is the model whose window is small.
const longModel = "small"

// longTalk is a client with one conversation, which outgrows the window of its model again and again.
type longTalk struct {
	client
	API   apiclient.API
	Keeps string // who keeps the conversation: one of the following
}

const (
	keepsItems        = "client"
	keepsResponses    = "previous_response_id"
	keepsConversation = "conversation"
)

// addLongTalks adds long conversations to one plan in three, drawn apart.
func (p *plan) addLongTalks() {
	random := rand.New(rand.NewPCG(p.Seed, 14))
	p.Config.Window, p.Config.PerToken, p.Config.Shorten = 4000+random.IntN(6000), 0.7+0.3*random.Float64(), random.IntN(3) > 0
	if len(p.Hogs) > 0 || random.IntN(3) > 0 {
		return
	}
	if p.Calm { // so that each conversation goes on in its thread
		p.Config.Keep = conversation.Limits{Max: 100, MaxBytes: 1 << 24, Idle: patience - time.Second, Parked: patience - time.Second}
		p.Events = nil
	} else if random.IntN(3) == 0 {
		p.Config.PerToken += 0.5
	}
	for number := range 1 + random.IntN(3) {
		l := longTalk{client: client{User: fmt.Sprintf("user-%d", random.IntN(3)), HTTP2: random.IntN(2) == 0}}
		for range 3 {
			l.Links = append(l.Links, p.randomLink(random))
		}
		l.Keeps = []string{keepsItems, keepsItems, keepsResponses, keepsConversation}[random.IntN(4)]
		if l.API = []apiclient.API{apiclient.Responses, apiclient.Responses, apiclient.Chat, apiclient.Messages}[random.IntN(4)]; l.API != apiclient.Responses {
			l.Keeps = keepsItems
		}
		for i := range 4 + random.IntN(16) {
			q := p.randomRequest(random, fmt.Sprintf("%s%d-long-%d-%d", tokenPrefix, p.Seed, number, i))
			q.API, q.Bad, q.Follow, q.FollowUp, q.Choices, q.Thinking = l.API, "", false, "", 1, false
			q.Prompt = 60 + random.IntN(2000)
			for i := range q.Script.Texts {
				q.Script.Texts[i] = 60 + q.Script.Texts[i]%2000
			}
			for i := range q.Script.Calls {
				q.Script.Calls[i] += 60
			}
			if random.IntN(3) > 0 {
				q.Script.End = endWell
			}
			l.Requests = append(l.Requests, q)
		}
		p.Longs = append(p.Longs, l)
	}
}

// factPattern finds how each text of a long conversation begins: with its token and place.
var factPattern = regexp.MustCompile(`(` + tokenPrefix + `\d+-long-\d+-\d+)(?:/\d+\.(?:text|call)\d+|\.prompt|\.result\d+)`)

// factsIn returns the facts in a text, each once.
func factsIn(text string) []string {
	facts := factPattern.FindAllString(text, -1)
	slices.Sort(facts)
	return slices.Compact(facts)
}

// longState is a long conversation as its client has it.
type longState struct {
	items        []any            // that the client keeps
	said         string           // all texts since the beginning, also those whose place a summary has taken
	calls        []apiclient.Call // without results
	last         string           // the id of the last response
	conversation string           // its id
}

// longTurn is a turn of the app-server for the request under way.
type longTurn struct {
	thread  string
	summary bool
	spoken  spoken
	usage   usage
}

// walker plays a longTalk.
type walker struct {
	*player
	long *longTalk
	has  longState

	turning sync.Mutex
	request *request   // that is under way
	alone   bool       // its answer is a summary
	wanted  string     // what the model is to be given for it
	turns   []longTurn // for it
	thread  string     // that has all of the conversation, if its last answer has no calls
	context int        // tokens in it, as the gateway counts them
	added   int        // tokens that the request under way adds
}

func (r *run) walk(l *longTalk) {
	w := &walker{player: r.newClient(&l.client), long: l}
	defer w.http.CloseIdleConnections()
	r.mu.Lock()
	for i := range l.Requests {
		r.walkers[l.Requests[i].Token] = w
	}
	r.mu.Unlock()
	for i := 0; i < len(l.Requests) && r.exit.Err() == nil; i++ {
		time.Sleep(l.Requests[i].After)
		w.step(&l.Requests[i])
	}
}

func (r *run) walkerOf(token string) *walker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.walkers[token]
}

// ways are what happens to long conversations.
var ways = []string{"summary in the thread", "goes on after a summary", "background", "socket", "compacted", "refused", "too long", "calls", "no summary", "parts"}

// saw records that something has happened.
func (r *run) saw(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[what]++
}

// longStep is a request of a walker and what it has then if the request succeeds.
type longStep struct {
	*sending
	body    map[string]any
	next    longState
	input   []any // that the request adds
	alone   bool  // the answer is a summary
	pauses  bool  // it may be one
	compact bool
	via     string // background or socket; empty: a plain request
}

// step sends the next request. After a request without an end it waits until nothing of it goes on.
func (w *walker) step(q *request) {
	random := randomOf(q.Token + ".long")
	if w.has.said != "" && w.long.API == apiclient.Responses && random.IntN(10) == 0 {
		w.forge(random)
	}
	w.converseAt()
	s := w.compose(q, random)
	if int64(len(s.raw)) > w.of.plan.Config.MaxBody {
		w.has = longState{}
		w.converseAt()
		s = w.compose(q, random)
	}
	w.turning.Lock()
	w.request, w.alone, w.wanted, w.turns = &s.request, s.alone, s.next.said, nil
	w.added = tokens.Count(strings.TrimPrefix(s.next.said, w.has.said))
	if len(w.has.calls) > 0 || w.has.said == "" {
		w.thread = ""
	}
	w.turning.Unlock()
	a := w.send(s)
	w.turning.Lock()
	for _, t := range w.turns {
		if t.spoken.end == endNothing && (s.alone || s.pauses || !w.fits(s)) || t.spoken.end == endTooLong && w.mayBeTooLong(s) || t.spoken.end != endNothing && t.spoken.end != endTooLong {
			s.Ends = append(s.Ends, t.spoken.end)
		}
	}
	w.thread = ""
	w.turning.Unlock()
	if s.alone || s.pauses {
		s.Ends = append(s.Ends, endAlone)
	}
	w.of.trace.add("%s: %s %s alone %t: %d, %d bytes, error %v, ends %v", q.Token, w.long.Keeps, s.via, s.alone, a.status, len(a.body), a.err, s.Ends)
	if s.compact && a.status == http.StatusOK && a.err == nil {
		w.compacted(s, a)
		return
	}
	w.of.check(a, false)
	if a.err != nil {
		time.Sleep(patience)
		w.has.conversation = ""
	}
	if a.status == http.StatusBadRequest && !s.alone { // it has become too long
		w.has = longState{}
	}
	w.advance(s, a, random)
}

// mayBeTooLong reports whether a request may fail because the conversation is too long.
func (w *walker) mayBeTooLong(s *longStep) bool {
	shortens := s.alone || s.body["context_management"] != nil || s.body["truncation"] != nil || w.long.API == apiclient.Chat && w.of.plan.Config.Shorten
	return !shortens && !w.fits(s) || w.of.plan.Config.PerToken > 1
}

// fits reports whether a conversation certainly fits the window without a summary.
func (w *walker) fits(s *longStep) bool {
	return 2*tokens.Count(s.next.said) < w.of.plan.Config.Window
}

// converseAt creates a conversation, if this is what keeps it and there is none.
func (w *walker) converseAt() {
	if w.long.Keeps == keepsConversation && w.has.conversation == "" {
		a := w.post("/v1/conversations", []byte(`{}`))
		w.has = longState{conversation: gjson.GetBytes(a.body, "id").Str}
	}
}

// compose makes a request that goes on with the conversation.
func (w *walker) compose(q *request, random *rand.Rand) *longStep {
	s := &longStep{sending: &sending{request: *q, tools: true}, next: w.has, body: map[string]any{"model": longModel, "stream": q.Stream}}
	s.next.items = slices.Clip(w.has.items)
	s.alone = w.long.API != apiclient.Chat && w.has.said != "" && random.IntN(5) == 0
	s.compact = s.alone && w.long.API == apiclient.Responses && w.long.Keeps != keepsConversation && len(w.has.calls) == 0 && random.IntN(3) == 0
	var blocks []any                                                                         // of a message
	if !s.alone || !s.compact && (random.IntN(2) == 0 || w.long.API == apiclient.Messages) { // also between two calls
		for i, call := range w.has.calls {
			result := text(fmt.Sprintf("%s.result%d", q.Token, i), 60+random.IntN(1000))
			s.next.said += result + "\x00"
			blocks = append(blocks, map[string]any{"type": "tool_result", "tool_use_id": call.ID, "content": result})
			if w.long.API == apiclient.Responses {
				s.input = append(s.input, map[string]any{"type": "function_call_output", "call_id": call.ID, "output": result})
			} else {
				s.input = append(s.input, map[string]any{"role": "tool", "tool_call_id": call.ID, "content": result})
			}
		}
		if s.next.calls = nil; !s.alone && (len(w.has.calls) == 0 || random.IntN(3) == 0) {
			question := text(q.Token+".prompt", q.Prompt)
			s.next.said += question + "\x00"
			s.input = append(s.input, map[string]any{"role": "user", "content": question})
			blocks = append(blocks, map[string]any{"type": "text", "text": question})
		}
		if w.long.API == apiclient.Messages && blocks != nil {
			s.input = []any{map[string]any{"role": "user", "content": blocks}}
		}
		s.next.items = append(s.next.items, s.input...)
	}
	s.body["tools"] = longTools(w.long.API)
	switch w.long.API {
	case apiclient.Responses:
		w.composeResponse(s, random)
	case apiclient.Messages:
		s.body["messages"], s.body["max_tokens"] = s.next.items, 1<<20
		if s.alone {
			s.body["compaction"] = map[string]any{"type": "summarize"}
		} else if random.IntN(3) > 0 {
			s.pauses = random.IntN(2) == 0
			s.body["context_management"] = map[string]any{"edits": []any{map[string]any{"type": "compact_20260112", "pause_after_compaction": s.pauses}}}
		}
	default:
		s.body["messages"] = s.next.items
		if q.Stream && q.Usage {
			s.body["stream_options"] = map[string]any{"include_usage": true}
		}
	}
	s.raw, _ = json.Marshal(s.body) // has texts and numbers only
	return s
}

// longTools returns the tools of every request, in the form of an API.
func longTools(api apiclient.API) (tools []any) {
	for _, name := range toolNames {
		schema := map[string]any{"type": "object"}
		function := map[string]any{"type": "function", "name": name, "description": "d", "parameters": schema}
		switch api {
		case apiclient.Chat:
			function = map[string]any{"type": "function", "function": function}
		case apiclient.Messages:
			function = map[string]any{"name": name, "description": "d", "input_schema": schema}
		}
		tools = append(tools, function)
	}
	return tools
}

// composeResponse fills the body of a request to the Responses API.
func (w *walker) composeResponse(s *longStep, random *rand.Rand) {
	if s.alone && !s.compact {
		s.input = append(slices.Clip(s.input), map[string]any{"type": "compaction_trigger"})
	}
	s.body["input"] = s.input
	switch {
	case w.has.conversation != "":
		s.body["conversation"] = w.has.conversation
	case w.long.Keeps == keepsResponses && w.has.last != "":
		s.body["previous_response_id"] = w.has.last
	default:
		s.body["input"] = append(slices.Clip(w.has.items), s.input...)
		if s.Unstored = w.long.Keeps == keepsItems && random.IntN(2) == 0; s.Unstored {
			s.body["store"] = false
		}
	}
	if s.compact {
		delete(s.body, "stream")
		s.path, s.Stream = "/v1/responses/compact", false
		return
	}
	switch threshold := map[string]any{"type": "compaction"}; random.IntN(4) {
	case 0:
		threshold["compact_threshold"] = 1000 + random.IntN(8000)
		fallthrough
	case 1:
		s.body["context_management"] = []any{threshold}
	case 2:
		s.body["truncation"] = "auto"
	}
	switch random.IntN(6) {
	case 0:
		if !s.Unstored {
			s.via, s.body["background"], s.body["stream"], s.Stream = "background", true, false, false
		}
	case 1:
		s.via, s.Stream = "socket", true
		delete(s.body, "stream")
		s.body["type"] = "response.create"
	}
}

// send sends a request in its way and returns the answer.
func (w *walker) send(s *longStep) *answer {
	switch s.via {
	case "socket":
		return w.overSocket(s)
	case "background":
		a := w.fetch(s.sending)
		if a.status != http.StatusOK || a.err != nil {
			return a
		}
		w.of.saw("background")
		for id := gjson.GetBytes(a.body, "id").Str; ; time.Sleep(time.Second) {
			a.status, a.body, a.err = w.elsewhere(http.MethodGet, "/v1/responses/"+id)
			a.length, a.excused = -1, a.err != nil && w.of.exit.Err() != nil
			if status := gjson.GetBytes(a.body, "status").Str; a.err != nil || status != "queued" && status != "in_progress" {
				return a
			}
		}
	}
	return w.fetch(s.sending)
}

// overSocket sends a request over a WebSocket, and returns the messages as a stream.
func (w *walker) overSocket(s *longStep) *answer {
	a := &answer{request: &s.request, sending: s.sending, user: w.plan.User, begin: time.Now(), length: -1}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	client := w.of.httpClient(false, func() link { return link{Room: 1 << 16} })
	defer client.CloseIdleConnections()
	socket, _, err := dialSocket(ctx, client, w.plan.User)
	if err == nil {
		defer func() { _ = socket.CloseNow() }()
		socket.SetReadLimit(1 << 24)
		err = socket.Write(ctx, websocket.MessageText, s.raw)
	}
	for ended := false; err == nil && !ended; {
		var message []byte
		if _, message, err = socket.Read(ctx); err != nil {
			break
		}
		switch kind := gjson.GetBytes(message, "type").Str; kind {
		case "error":
			a.status, a.body = int(gjson.GetBytes(message, "status").Int()), message
			return a
		case "response.completed", "response.failed", "response.incomplete":
			ended = true
			fallthrough
		default:
			a.status, a.body = http.StatusOK, fmt.Appendf(a.body, "event: %s\ndata: %s\n\n", kind, message)
		}
	}
	a.err = err
	a.excused = err != nil && (w.of.exit.Err() != nil || len(a.body) == 0) // a reload has closed it
	w.of.saw("socket")
	return a
}

// post sends a body over a connection without faults.
func (w *walker) post(path string, body []byte) *answer {
	p := w.of.newClient(&client{User: w.plan.User, Links: []link{{Room: 1 << 20}}})
	defer p.http.CloseIdleConnections()
	return p.fetch(&sending{request: request{API: apiclient.Responses, Choices: 1, Script: &script{}}, path: path, raw: body})
}

// forge sends a summary that was changed or is another user's, which must be refused.
func (w *walker) forge(random *rand.Rand) {
	r := w.of
	r.mu.Lock()
	all := slices.Sorted(maps.Keys(r.sealed))
	if len(all) == 0 {
		r.mu.Unlock()
		return
	}
	sealed := []byte(all[random.IntN(len(all))])
	if r.sealed[string(sealed)] == w.plan.User {
		at := len(sealed) - 2 - random.IntN(len(sealed)/2)
		sealed[at] = map[bool]byte{true: 'B', false: 'A'}[sealed[at] == 'A']
	}
	r.mu.Unlock()
	body := fmt.Appendf(nil, `{"model":%q,"input":[{"type":"compaction","encrypted_content":%q},{"role":"user","content":"x"}]}`, longModel, sealed)
	a := w.post("/v1/responses", body)
	refused := a.status == http.StatusBadRequest && gjson.GetBytes(a.body, "error.param").Str == "input[0].encrypted_content"
	if a.status == http.StatusOK || a.status == http.StatusBadRequest && !refused {
		r.fail("a sealed summary that is not %s's is %d, %v: %.500q", w.plan.User, a.status, a.err, a.body)
	}
	if refused {
		r.saw("refused")
	}
}

// keepSealed records the summaries of an answer, for forge.
func (w *walker) keepSealed(sealed ...string) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	for _, s := range sealed {
		w.of.sealed[s] = w.plan.User
	}
}

// advance goes on with the conversation after an answer that has ended well.
func (w *walker) advance(s *longStep, a *answer, random *rand.Rand) {
	if a.status != http.StatusOK || a.err != nil {
		return
	}
	h, err := a.read()
	if err != nil || !h.Ended || h.Failed || !slices.Contains([]string{"stop", "tool_calls", "compaction"}, h.Choices[0].Finish) {
		if w.long.Keeps == keepsConversation && !h.Failed {
			w.has.conversation = "" // which has the answer
		}
		return
	}
	c := &h.Choices[0]
	w.keepSealed(c.Sealed...)
	next := s.next
	if c.Text != "" {
		next.said += c.Text + "\x00"
	}
	for _, call := range c.Calls {
		next.said += call.Name + "\x00" + call.Arguments + "\x00"
	}
	if len(c.Calls) > 0 {
		next.calls = c.Calls
	}
	next.last = h.ID
	if w.turning.Lock(); !s.alone && c.Finish != "compaction" {
		w.thread = w.turns[len(w.turns)-1].thread
	}
	w.turning.Unlock()
	switch w.long.API {
	case apiclient.Chat:
		next.items = append(next.items, openAIMessages([]message{{role: "assistant", text: c.Text, calls: c.Calls}})...)
	case apiclient.Messages:
		if len(c.Sealed) > 0 && random.IntN(2) == 0 {
			next.items = nil // a client may drop what comes before it
		}
		next.items = append(next.items, h.Message.Back())
	}
	var output []any
	gjson.GetBytes(h.Object, "output").ForEach(func(_, item gjson.Result) bool {
		if item.Get("type").Str == "compaction" && random.IntN(2) == 0 && len(next.calls) == len(c.Calls) {
			output, next.items = nil, nil // a client may drop what comes before it
		}
		output = append(output, json.RawMessage(item.Raw))
		return true
	})
	next.items = append(next.items, output...)
	w.has = next
}

// compacted goes on after POST /v1/responses/compact.
func (w *walker) compacted(s *longStep, a *answer) {
	var body struct {
		Object string
		Output []json.RawMessage
		Usage  struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	err := json.Unmarshal(a.body, &body)
	if err != nil || body.Object != "response.compaction" || len(body.Output) == 0 {
		w.of.fail("%s: %v, %.500q", s.Token, err, a.body)
		return
	}
	sealed := gjson.GetBytes(body.Output[len(body.Output)-1], "encrypted_content").Str
	if sealed == "" || bytes.Count(a.body, []byte(`"type":"compaction"`)) != 1 {
		w.of.fail("%s: not one summary at the end: %.500q", s.Token, a.body)
	}
	if !w.sums(func(u usage) bool { return u.Input == body.Usage.Input && u.Output == body.Usage.Output }) {
		w.of.fail("%s: the usage is %+v", s.Token, body.Usage)
	}
	w.of.saw("compacted")
	w.keepSealed(sealed)
	s.next.items, s.next.last = nil, ""
	for _, item := range body.Output {
		s.next.items = append(s.next.items, item)
	}
	w.has = s.next
}

// checkContent compares an answer with the turns of the app-server.
func (w *walker) checkContent(q *request, h *apiclient.Answer) {
	w.turning.Lock()
	c, r := &h.Choices[0], w.of
	alone, turns := w.alone || c.Finish == "compaction", slices.Clone(w.turns)
	w.turning.Unlock()
	well := h.Ended && !h.Failed
	switch {
	case alone && (c.Text != "" || c.Calls != nil || well && len(c.Sealed) != 1):
		r.fail("%s: a summary alone is %.1000q", q.Token, fmt.Sprint(*c))
	case !alone && !slices.ContainsFunc(turns, func(t longTurn) bool { return !t.summary && t.answers(q, c) }) && (c.Text+c.Reasoning != "" || c.Calls != nil || well):
		r.fail("%s: it is none of the answers of %d turns: failed %t, %.1000q", q.Token, len(turns), h.Failed, fmt.Sprint(*c))
		for _, t := range turns {
			r.trace.add("%s was: %.1000q", q.Token, fmt.Sprint(t.spoken))
		}
	}
	if well && (h.Usage != nil || !q.Stream || q.Usage || q.API != apiclient.Chat) &&
		(h.Usage == nil || !w.sums(func(u usage) bool { return u == usage(*h.Usage) })) {
		r.fail("%s: the usage is %v", q.Token, h.Usage)
		for _, t := range turns {
			r.trace.add("%s: %+v, end %s", q.Token, t.usage, t.spoken.end)
		}
	}
}

// answers reports whether a choice is what a client gets of the turn.
func (t *longTurn) answers(q *request, c *apiclient.Choice) bool {
	seen := q.seen(t.spoken)
	return matches(c, &seen)
}

// sums reports whether the usage of the last turn, with that of some or, without faults, all of those before, is
// as a client has it.
func (w *walker) sums(is func(usage) bool) bool {
	w.turning.Lock()
	turns := slices.Clone(w.turns)
	w.turning.Unlock()
	if len(turns) == 0 {
		return false
	}
	var with func(total usage, others []longTurn) bool
	with = func(total usage, others []longTurn) bool {
		if len(others) == 0 {
			return is(total)
		}
		without := total
		total.add(others[0].usage)
		return with(total, others[1:]) || !w.of.plan.Calm && with(without, others[1:])
	}
	return with(turns[len(turns)-1].usage, turns[:len(turns)-1])
}

// performLong returns a turn of a long conversation: an answer, or a summary that lists the facts of what it was sent.
func (r *run) performLong(instance int, asked fakecodex.Asked, given string, facts []string) []fakecodex.Step {
	w := r.walkerOf(factPattern.FindStringSubmatch(facts[len(facts)-1])[1])
	thread := threadOf(instance, asked.Thread)
	summary := strings.HasSuffix(strings.TrimSuffix(given, "\x00"), requests.SummaryRequest)
	w.turning.Lock()
	defer w.turning.Unlock()
	w.checkGiven(given, facts, summary, thread)
	n, token := len(w.turns), w.request.Token
	random := randomOf(fmt.Sprintf("%s/%d.turn", token, n))
	if r.plan.Calm && n == 0 && w.thread != "" && thread != w.thread && 6*(w.context+w.added) < 5*r.plan.Config.Window {
		r.fail("%s: the conversation does not go on in its thread: %s, not %s", token, thread, w.thread)
	}
	t := longTurn{thread: thread, summary: summary}
	counted := int(float64(tokens.Count(given)) * r.plan.Config.PerToken)
	acted, a := *w.request.Script, w.request.Script.performance(token, n)
	calls := 0 // responses with a call, before the summary
	switch {
	case counted > r.plan.Config.Window:
		acted, a = script{End: endTooLong}, &said{who: a.who}
		r.saw("too long")
	case summary:
		acted, a.calls, a.texts, a.reasoning = script{Delta: 1 << random.IntN(12), Pause: acted.Pause, End: endWell}, nil, []string{"The facts: " + strings.Join(facts, " ")}, nil
		fault := random.IntN(12)
		if fault > 1 && r.plan.Calm {
			fault = 12
		}
		switch fault {
		case 0, 1:
			calls = 1 + random.IntN(3)
		case 2:
			calls = 4
		case 3:
			a.texts = nil
		case 4:
			acted.End, acted.EndAt = []end{endFailed, endSilent, endLength, endOutside}[random.IntN(4)], random.IntN(3)
		}
	}
	a.usage = usage{Input: counted, Cached: random.IntN(counted + 1), Output: 1 + tokens.Count(strings.Join(a.texts, ""))}
	var steps []fakecodex.Step
	round := func(acted *script, a *said) {
		more, heard := perform(asked, acted, a, r.spentOn(thread, a.usage))
		if heard.end == endWell || heard.end == endLength {
			t.usage.add(a.usage)
		}
		steps, t.spoken, asked.Resumed = append(steps, more...), heard, true
	}
	for i := range calls {
		round(&script{Delta: 10, End: endWell}, &said{who: a.who, usage: a.usage, calls: []apiclient.Call{{ID: fmt.Sprintf("call-%s-%d", a.who, i), Name: toolNames[0], Arguments: `{}`}}})
		steps[len(steps)-1] = fakecodex.Step{Await: "1"} // for the refusal, after which the model is asked again
	}
	if calls > 3 { // nobody waits for it
		a.usage = usage{}
	}
	round(&acted, a)
	if calls > 0 {
		r.saw("calls")
	}
	if summary && t.spoken.end != endTooLong && (calls > 3 || len(a.texts) == 0 || t.spoken.end == endLength) {
		t.spoken.end = endNothing
		r.saw("no summary")
	}
	w.turns, w.context = append(w.turns, t), tokens.Count(given)+a.usage.Output
	r.trace.add("%s: turn %d, summary %t, thread %s, %d tokens, %d calls, end %s", token, n, summary, thread, counted, calls, t.spoken.end)
	return steps
}

// spentOn adds to the usage of a thread, and returns what it was before.
func (r *run) spentOn(thread string, u usage) usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.spent[thread]
	after := before
	after.add(u)
	r.spent[thread] = after
	return before
}

// checkGiven checks that the model is given all facts of the conversation and nothing else. A summary may be of
// a part.
func (w *walker) checkGiven(given string, facts []string, summary bool, thread string) {
	r, want := w.of, factsIn(w.wanted)
	all := words(w.wanted)
	for _, fact := range facts {
		if _, found := slices.BinarySearch(want, fact); !found {
			r.fail("%s: the model was given %s, which is not of the conversation: %.300q", w.request.Token, fact, given)
		}
	}
	for _, fact := range want {
		if _, found := slices.BinarySearch(facts, fact); !found && !summary {
			r.fail("%s: the model was not given %s: %.300q", w.request.Token, fact, given)
		}
	}
	shortened := false
	for part := range strings.SplitSeq(given, "\x00") {
		switch {
		case strings.Contains(part, "your own summary"):
			shortened = true
		case part != requests.SummaryRequest && !strings.Contains(all, words(part)):
			r.fail("%s: the model was given %.300q, which nobody said", w.request.Token, part)
		}
	}
	r.mu.Lock()
	owner, known := r.owners[thread]
	r.owners[thread] = w.plan.User
	for what, happened := range map[string]bool{
		"summary in the thread": summary && known, "goes on after a summary": shortened && known && !summary, "parts": summary && len(facts) < len(want),
	} {
		if happened {
			r.seen[what]++
		}
	}
	r.mu.Unlock()
	if known && owner != w.plan.User {
		r.fail("%s: a request of %s is answered in a thread of %s", w.request.Token, w.plan.User, owner)
	}
}
