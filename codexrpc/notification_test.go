package codexrpc

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestDecodeNotifications checks each notification that is used, in its own shape. Without its end,
// as the last line of an app-server that was killed, it is none.
func TestDecodeNotifications(t *testing.T) {
	const ids = `"threadId":"thr-1","turnId":"trn-1"`
	for _, test := range []struct {
		name, method, params string
		want                 Event
	}{
		{
			"text", methodTextDelta, `{` + ids + `,"itemId":"m1","delta":"Grüße \u4f60\ud83d\udc4b \"<use_tool>\""}`,
			Event{Kind: EventTextDelta, ItemID: "m1", Text: `Grüße 你👋 "<use_tool>"`},
		},
		{
			"reasoning", methodReasoningDelta, `{` + ids + `,"itemId":"r1","delta":"thinking","summaryIndex":2}`,
			Event{Kind: EventReasoningDelta, ItemID: "r1", Index: 2, Text: "thinking"},
		},
		{
			"item started", methodItemStarted, `{"item":{"type":"contextCompaction","id":"c1"},` + ids + `,"startedAtMs":0}`,
			Event{Kind: EventItemStarted, ItemType: ItemContextCompaction, ItemID: "c1"},
		},
		{
			"call begun", methodItemStarted, `{"item":{"type":"dynamicToolCall","id":"c1","tool":"find","arguments":null,"status":"inProgress"},` + ids + `}`,
			Event{Kind: EventItemStarted, ItemType: ItemToolCall, ItemID: "c1"},
		},
		{
			"message completed", methodItemCompleted, `{"item":{"type":"agentMessage","id":"m1","text":"whole","phase":null},` + ids + `}`,
			Event{Kind: EventItemCompleted, ItemType: ItemAgentMessage, ItemID: "m1", Text: "whole"},
		},
		{
			"another item completed", methodItemCompleted, `{"item":{"type":"dynamicToolCall","id":"c1","text":"not a message"},` + ids + `}`,
			Event{Kind: EventItemCompleted, ItemType: "dynamicToolCall", ItemID: "c1"},
		},
		{
			"call", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"function_call","id":"fc","name":"find","arguments":"{ \"q\" : \"a\\n\" }","call_id":"call-1"}}`,
			Event{Kind: EventFunctionCall, ItemID: "fc", CallID: "call-1", Name: "find", Text: `{ "q" : "a\n" }`},
		},
		{
			"a call that was cut", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"function_call","id":"fc","status":"incomplete","name":"find","arguments":"{","call_id":"call-1"}}`,
			Event{Kind: EventFunctionCall, ItemID: "fc", CallID: "call-1", Name: "find", Text: `{`, Status: StatusIncomplete},
		},
		{
			"a call of codex's own tool", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"function_call","id":"fc","name":"imagegen","namespace":"image_gen","arguments":"{}","call_id":"call-1"}}`,
			Event{Kind: EventFunctionCall, ItemID: "fc", CallID: "call-1", Name: PictureTool, Text: `{}`},
		},
		{
			"a picture begun", methodItemStarted,
			`{"item":{"type":"imageGeneration","id":"call-1","status":"in_progress","result":"","revisedPrompt":null,"transparentBackground":true,"failure":null},` + ids + `}`,
			Event{Kind: EventItemStarted, ItemType: ItemPicture, ItemID: "call-1"},
		},
		{
			"a picture", methodItemCompleted,
			`{"item":{"type":"imageGeneration","id":"call-1","status":"completed","result":"iVBO","revisedPrompt":"a \"cat\"","transparentBackground":true,"failure":null},` + ids + `}`,
			Event{Kind: EventItemCompleted, ItemType: ItemPicture, ItemID: "call-1", Status: StatusCompleted, Text: "iVBO", Name: `a "cat"`, Transparent: true},
		},
		{
			"no picture", methodItemCompleted,
			`{"item":{"type":"imageGeneration","id":"call-1","status":"failed","result":"","revisedPrompt":null,"transparentBackground":null,` +
				`"failure":{"type":"usageLimitExceeded","limitId":"imagegen_premium","resetsAt":1800000000}},` + ids + `}`,
			Event{
				Kind: EventItemCompleted, ItemType: ItemPicture, ItemID: "call-1", Status: StatusFailed,
				Err: &TurnError{Code: CodeUsageLimit, ResetsAt: time.Unix(1800000000, 0)},
			},
		},
		{
			"why there is no picture", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"function_call_output","call_id":"call-1","output":"image generation failed: http 502 \"\""}}`,
			Event{Kind: EventCallOutput, CallID: "call-1", Text: `image generation failed: http 502 ""`},
		},
		{
			"codex's own tool offered", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"additional_tools","tools":[{"type":"namespace","name":"image_gen","tools":[{"type":"function","name":"imagegen"}]}]}}`,
			Event{Kind: EventOffered, Text: PictureTool + "\n"},
		},
		{
			"several of codex's own tools offered", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"additional_tools","tools":[{"type":"namespace","name":"image_gen","tools":[{"name":"imagegen"},{"name":"edit"},{"type":"custom"}]},{"name":"edit"},{"type":"namespace","name":"image_gen","tools":[]}]}}`,
			Event{Kind: EventOffered, Text: PictureTool + "\nimage_gen.edit\nimage_gen.custom\nedit\n"},
		},
		{
			"the answer to a call", methodRawItemCompleted, `{` + ids + `,"item":{"type":"function_call_output","id":"fco","call_id":"call-1","output":"long"}}`,
			Event{Kind: EventCallOutput, CallID: "call-1"},
		},
		{
			"the answer to a call that Codex does not know", methodRawItemCompleted, `{` + ids + `,"item":{"type":"function_call_output","call_id":"c","output":"unsupported call: f"}}`,
			Event{Kind: EventCallOutput, CallID: "c", Status: StatusFailed},
		},
		{
			"what the model is offered", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"additional_tools","id":"at","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"function","name":"a","parameters":{"name":"x"}},{"type":"custom","name":"exec"}]},{"type":"web_search"},{"type":"namespace","name":"none","tools":[]},7]}}`,
			Event{Kind: EventOffered, Text: "a\nexec\nweb_search\n"},
		},
		{
			"offered nothing", methodRawItemCompleted, `{` + ids + `,"item":{"type":"additional_tools"}}`,
			Event{Kind: EventOffered},
		},
		{
			"a call of a tool of Codex's own", methodRawItemCompleted, `{` + ids + `,"item":{"type":"custom_tool_call","id":"ctc","call_id":"c1","name":"exec","input":"text(1)"}}`,
			Event{Kind: EventOwnCall, ItemID: "ctc", Name: "exec"},
		},
		{
			"a call of a shell", methodRawItemCompleted, `{` + ids + `,"item":{"type":"local_shell_call","id":"ls","action":{"type":"exec"}}}`,
			Event{Kind: EventOwnCall, ItemID: "ls", Name: "local_shell_call"},
		},
		{
			"web search", methodRawItemCompleted, `{` + ids + `,"item":{"type":"web_search_call","id":"ws","status":"completed","action":{"type":"search","query":"q"}}}`,
			Event{Kind: EventWebSearch, ItemID: "ws", Text: `{"type":"search","query":"q"}`},
		},
		{
			"annotations", methodRawItemCompleted,
			`{` + ids + `,"item":{"type":"message","id":"m1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"für","annotations":[{"type":"url_citation"}]}]}}`,
			Event{Kind: EventAnnotations, ItemID: "m1", Text: `[{"type":"url_citation"}]`, Index: 3},
		},
		{
			"a message that was cut", methodRawItemCompleted, `{` + ids + `,"item":{"type":"message","id":"m1","status":"incomplete","role":"assistant"}}`,
			Event{Kind: EventItemCut, ItemID: "m1"},
		},
		{
			"a change of the transport", methodWarning,
			`{"threadId":"thr-1","message":"Falling back from WebSockets to HTTPS transport. stream disconnected before completion: why"}`,
			Event{Kind: EventError, WillRetry: true, fellBack: true, Err: &TurnError{Message: "stream disconnected before completion: why", Code: "responseStreamDisconnected"}},
		},
		{
			"a change of the transport after an hour", methodWarning,
			`{` + ids + `,"message":"Falling back from WebSockets to HTTPS transport. stream disconnected before completion: Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue."}`,
			Event{Kind: EventError, WillRetry: true, Err: &TurnError{Message: "stream disconnected before completion: Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.", Code: "responseStreamDisconnected"}},
		},
		{
			"response completed", methodResponseCompleted,
			`{` + ids + `,"responseId":"r","usage":{"totalTokens":168,"inputTokens":123,"cachedInputTokens":23,"cacheWriteInputTokens":1,"outputTokens":45,"reasoningOutputTokens":5}}`,
			Event{Kind: EventResponseCompleted, Usage: &Usage{168, 123, 23, 1, 45, 5}},
		},
		{
			"response without usage", methodResponseCompleted, `{` + ids + `,"responseId":"r","usage":null}`,
			Event{Kind: EventResponseCompleted},
		},
		{
			"the thread's total", methodTokenUsage, `{` + ids + `,"tokenUsage":{"total":{"totalTokens":9,"inputTokens":8,"outputTokens":1},"last":{"totalTokens":1}}}`,
			Event{Kind: EventTokenUsage, Usage: &Usage{TotalTokens: 9, InputTokens: 8, OutputTokens: 1}},
		},
		{
			"an error that is retried", methodError,
			`{"error":{"message":"Reconnecting... 2/5","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}},"additionalDetails":"why"},"willRetry":true,` + ids + `}`,
			Event{Kind: EventError, WillRetry: true, Err: &TurnError{Message: "Reconnecting... 2/5", Code: "responseStreamDisconnected", Details: "why"}},
		},
		{
			"turn completed", methodTurnCompleted, `{"threadId":"thr-1","turn":{"id":"trn-1","items":[],"status":"completed","error":null}}`,
			Event{Kind: EventTurnCompleted, Status: StatusCompleted},
		},
		{
			"turn failed", methodTurnCompleted,
			`{"threadId":"thr-1","turn":{"id":"trn-1","status":"failed","error":{"message":"m","codexErrorInfo":"usageLimitExceeded","additionalDetails":null}}}`,
			Event{Kind: EventTurnCompleted, Status: StatusFailed, Err: &TurnError{Message: "m", Code: "usageLimitExceeded"}},
		},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			c := newTestConn()
			thread := openTestTurn(c, "thr-1", "trn-1")
			line := []byte(`{"method":"` + test.method + `","params":` + test.params + `,"emittedAtMs":1}`)
			for end := range line {
				c.dispatch(line[:end])
			}
			c.dispatch(line)
			events, err := thread.Recv()
			if err != nil || len(events) != 1 {
				t.Fatalf("took %d events (%v)", len(events), err)
			}
			test.want.threadID, test.want.turnID = "thr-1", "trn-1"
			events[0].size = 0
			if !reflect.DeepEqual(events[0], test.want) {
				t.Errorf("got  %+v\nwant %+v", events[0], test.want)
			}
		})
	}
}

// TestOddAnnotations: annotations that are no list are left out.
func TestOddAnnotations(t *testing.T) {
	for _, annotations := range []string{`{"0":{}}`, `[]`, `null`, `7`, `"0"`} {
		var e Event
		line := `{"method":"rawResponseItem/completed","params":{"item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":` + annotations + `}]}}}`
		if _, err := parseMessage([]byte(line), &e); err != nil || e.Kind != "" {
			t.Errorf("%s: %+v (%v)", annotations, e, err)
		}
	}
}

// TestTurnErrorShapes: codexErrorInfo is a name, or an object whose key is the name.
func TestTurnErrorShapes(t *testing.T) {
	for text, want := range map[string]*TurnError{
		`{"message":"m","codexErrorInfo":"contextWindowExceeded"}`:                          {Message: "m", Code: "contextWindowExceeded"},
		`{"message":"m","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}`:  {Message: "m", Code: "httpConnectionFailed", HTTPStatus: 401},
		`{"message":"m","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":null}}}`: {Message: "m", Code: "httpConnectionFailed"},
		`{"message":"m","codexErrorInfo":{"future":null}}`:                                  {Message: "m", Code: "future"},
		`{"message":"m","codexErrorInfo":{}}`:                                               {Message: "m", Code: "other"},
		`{"message":"m","codexErrorInfo":null,"additionalDetails":"d"}`:                     {Message: "m", Code: "other", Details: "d"},
		`{"message":"stream disconnected before completion: The usage limit has been reached","codexErrorInfo":"other"}`: {
			Message: "The usage limit has been reached", Code: CodeUsageLimit,
		},
		`{"message":"The usage limit has been reached, I said","codexErrorInfo":"other"}`: {Message: "The usage limit has been reached, I said", Code: "other"},
		`{"codexErrorInfo":7}`: {Code: "other"},
		`null`:                 nil,
		`"text"`:               nil,
	} {
		e := Event{}
		must.OK(t, errOf(parseMessage([]byte(`{"method":"error","params":{"error":`+text+`}}`), &e)))
		if !reflect.DeepEqual(e.Err, want) {
			t.Errorf("%s: %+v, want %+v", text, e.Err, want)
		}
	}
	if got := (&TurnError{Message: "no more", Code: "other"}).Error(); got != "codex: no more (other)" {
		t.Errorf("it reads %q", got)
	}
}

// TestLongErrors: what a client and the log are told of an error is bounded.
func TestLongErrors(t *testing.T) {
	long := strings.Repeat("ü", maxErrorText)
	want := long[:maxErrorText] + "…"
	v := `{"message":"` + long + `","additionalDetails":"a` + long + `","codexErrorInfo":"other","data":"` + long + `"}`
	if e := turnError([]byte(v)); e.Message != want || e.Details != "a"+long[:maxErrorText-2]+"…" {
		t.Errorf("of a turn: %d and %d bytes", len(e.Message), len(e.Details))
	}
	if e := callError("turn/start", v); e.Message != want || e.Data != nil {
		t.Errorf("of a call: %d and %d bytes", len(e.Message), len(e.Data))
	}
}

// TestOddUsage: sums of counts can neither overflow nor fall.
func TestOddUsage(t *testing.T) {
	got := usage([]byte(`{"totalTokens":9223372036854775807,"inputTokens":1e300,"cachedInputTokens":-1,"outputTokens":7,"reasoningOutputTokens":null}`))
	if want := (Usage{TotalTokens: maxTokens, InputTokens: maxTokens, OutputTokens: 7}); *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUserInputVariants(t *testing.T) {
	for want, in := range map[string]UserInput{
		`{"type":"text","text":"a","text_elements":[]}`:                       {Type: "text", Text: "a"},
		`{"type":"image","url":"data:image/png;base64,AA=="}`:                 {Type: "image", URL: "data:image/png;base64,AA=="},
		`{"type":"image","url":"data:image/png;base64,AA==","detail":"high"}`: {Type: "image", URL: "data:image/png;base64,AA==", Detail: "high"},
	} {
		if got, err := json.Marshal(in); err != nil || string(got) != want {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
	}
}

func TestUsageAdds(t *testing.T) {
	if got, want := (Usage{1, 2, 3, 4, 5, 6}).Add(Usage{10, 20, 30, 40, 50, 60}), (Usage{11, 22, 33, 44, 55, 66}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestNothingUsedIsOptedOut checks that no notification is both used and opted out of.
func TestNothingUsedIsOptedOut(t *testing.T) {
	for _, method := range unwantedNotifications {
		if kinds[method] != "" {
			t.Errorf("%s is used", method)
		}
	}
}

// TestPriceOfResponse: the price of a response is the amount, or else the cost in the provider's own
// usage object. The counts of tokens there change nothing, whatever the order.
func TestPriceOfResponse(t *testing.T) {
	const usage = `"usage":{"totalTokens":3,"inputTokens":2,"outputTokens":1}`
	for metadata, want := range map[string]string{
		`{"amount":"0.5","metadata":{"input_tokens":9,"cost":0.25}}`:                     "0.5",
		`{"metadata":{"input_tokens":9,"cost":0.25,"details":{"cost":7}},"amount":null}`: "0.25",
		`{"metadata":{"cost":1e-3},"amount":"0.5"}`:                                      "0.5",
		`{"amount":null,"metadata":{"cost":null}}`:                                       "null", // no number
		`{"amount":null,"metadata":null}`:                                                "",
		`{"amount":0.5}`:                                                                 "",
		`{"metadata":[{"cost":1}]}`:                                                      "",
		`null`:                                                                           "",
		`"0.5"`:                                                                          "",
	} {
		for _, params := range []string{usage + `,"usageMetadata":` + metadata, `"usageMetadata":` + metadata + `,` + usage} {
			c := newTestConn()
			thread := openTestTurn(c, "thr-1", "trn-1")
			c.dispatch([]byte(`{"method":"rawResponse/completed","params":{"threadId":"thr-1","turnId":"trn-1",` + params + `}}`))
			events, err := thread.Recv()
			if err != nil || len(events) != 1 || events[0].Text != want || *events[0].Usage != (Usage{TotalTokens: 3, InputTokens: 2, OutputTokens: 1}) {
				t.Errorf("%s: %+v, %v", params, events, err)
			}
		}
	}
}

// newTestConn is a connection without goroutines; the test calls what the reader does.
func newTestConn() *Conn {
	return &Conn{
		opts:    Options{Logger: func() *slog.Logger { return slog.New(slog.DiscardHandler) }},
		out:     outbox{replies: make(chan []byte, maxReplies)},
		calls:   newCallTable(),
		done:    make(chan struct{}),
		threads: make(map[string]*Thread),
	}
}

// openTestTurn adds a thread with a turn to a connection without goroutines.
func openTestTurn(c *Conn, id, turn string) *Thread {
	t := openTestThread(c, id)
	t.setTurnID(turn)
	return t
}

// openTestThread adds a thread whose turn has been sent to a connection without goroutines.
func openTestThread(c *Conn, id string) *Thread {
	t := &Thread{id: id, conn: c}
	t.queue.init(&c.in.wakeList)
	c.addThread(t)
	t.turnSent()
	return t
}

func TestIsEcho(t *testing.T) {
	long := strings.Repeat("x", minEchoSize)
	item := func(method, turn, kind string) string {
		return fmt.Sprintf(`{"method":%q,"params":{"threadId":"thr-1","turnId":%q,"item":{"type":"%s","text":%q}}}`, method, turn, kind, long)
	}
	c := newTestConn()
	openTestTurn(c, "thr-1", "trn-1")
	for line, want := range map[string]bool{
		item(methodRawItemCompleted, "auto-compact-0", "message"):                     true,
		item(methodRawItemCompleted, "auto-compact-0", "function_call_output"):        true,
		item(methodRawItemCompleted, "auto-compact-0", "function_call"):               true,
		item(methodRawItemCompleted, "trn-1", "function_call"):                        false,
		item(methodRawItemCompleted, "trn-1", `message","role":"user`):                true,
		item(methodRawItemCompleted, "trn-1", `message","role":"developer`):           true,
		item(methodRawItemCompleted, "trn-1", `message","role":"assistant`):           false, // may have annotations
		item(methodRawItemCompleted, "trn-1", "reasoning"):                            false,
		item(methodRawItemCompleted, "trn-1", "custom_tool_call"):                     false,
		item(methodRawItemCompleted, "trn-1", "additional_tools"):                     false,
		item(methodRawItemCompleted, "trn-1", "function_call_output"):                 false,
		item(methodRawItemCompleted, "auto-compact-0", "reasoning"):                   true,
		item(methodRawItemCompleted, "auto-compact-0", `message","role":"assistant`):  true,
		item(methodItemStarted, "trn-1", "userMessage"):                               true,
		item(methodItemCompleted, "trn-1", "userMessage"):                             true,
		item(methodItemCompleted, "trn-1", "agentMessage"):                            false,
		item(methodTextDelta, "trn-1", ""):                                            false,
		`{"id":1,"result":"` + long + `"}`:                                            false,
		long:                                                                          false,
		`{"method":"rawResponseItem/completed","params":{"item":{"type":"message"}}}`: false, // too short to look at
	} {
		if got := c.isEcho([]byte(line)); got != want {
			t.Errorf("%.120s…: %t", line, got)
		}
	}
	other := strings.Replace(item(methodRawItemCompleted, "trn-1", "function_call"), "thr-1", "thr-9", 1)
	if !c.isEcho([]byte(other)) {
		t.Error("a call on a thread that is not ours is worth a copy")
	}
}

// Echoed history costs no memory in proportion to its size.
func TestEchoIsNotCopied(t *testing.T) {
	c := newTestConn()
	thread := openTestTurn(c, "thr-1", "trn-1")
	for _, kind := range []string{"message", "function_call", "function_call_output"} {
		line := fmt.Appendf(nil, `{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"auto-compact-0","item":{"type":%q,"text":"%s"}}}`,
			kind, strings.Repeat("x", 1<<20))
		const rounds = 3
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			c.dispatch(line)
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / rounds; bytes > 64<<10 {
			t.Errorf("%s: %d bytes are allocated for an echo", kind, bytes)
		}
	}
	if events, err := thread.Recv(); len(events) != 0 || err != nil {
		t.Errorf("took %d events (%v)", len(events), err)
	}
}

// Echoed function calls are dropped even before the turn's id is known.
func TestEchoedCallsDoNotFillTheQueue(t *testing.T) {
	c := newTestConn()
	thread := openTestThread(c, "thr-1")
	for _, size := range []int{100, minEchoSize} {
		line := fmt.Appendf(nil, `{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"auto-compact-0","item":{"type":"function_call","arguments":"%s"}}}`,
			strings.Repeat("x", size))
		for range 100 {
			c.dispatch(line)
		}
	}
	if thread.queue.bytes != 0 {
		t.Errorf("%d bytes are queued", thread.queue.bytes)
	}
}

// TestOnInput checks that a thread says once that Codex has read its input, whether that comes back
// as a short line or as a long one, and where in it the ids are.
func TestOnInput(t *testing.T) {
	for name, line := range map[string]string{
		"short":             `{"method":"item/started","params":{"item":{"type":"userMessage","id":"i","content":[]},"threadId":"thr-1","turnId":"trn-1"}}`,
		"long":              `{"method":"item/started","params":{"item":{"type":"userMessage","text":"` + strings.Repeat(`\"threadId\":\"thr-2\"`, minEchoSize) + `"},"threadId":"thr-1","turnId":"trn-1"}}`,
		"long, ids before":  `{"method":"item/started","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"userMessage","text":"` + strings.Repeat("x", minEchoSize) + `"}}}`,
		"short, ids before": `{"method":"item/started","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"userMessage","id":"i"}}}`,
	} {
		c := newTestConn()
		one, other := openTestTurn(c, "thr-1", "trn-1"), openTestTurn(c, "thr-2", "trn-2")
		read := 0
		one.OnInput(func() { read++ })
		other.OnInput(func() { t.Errorf("%s: the input of another thread", name) })
		c.dispatch([]byte(strings.Replace(line, "userMessage", "agentMessage", 1)))
		if read > 0 {
			t.Errorf("%s: the model's message is the input", name)
		}
		for range 2 {
			c.dispatch([]byte(line))
			c.dispatch([]byte(strings.Replace(line, "thr-1", "thr-9", 1)))
		}
		if read != 1 {
			t.Errorf("%s: %d times", name, read)
		}
	}
}

// TestOnInputWithoutInput checks that a turn without input has read it when its start is answered,
// since the history is read before, and that results are read when all calls have their output.
func TestOnInputWithoutInput(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		thread := openThread(t, c, p, "thr-1")
		read := 0
		thread.OnInput(func() { read++ })
		started := async(func() error { return thread.StartTurn(t.Context(), TurnStartParams{}) })
		call := p.expect(methodTurnStart)
		if read != 0 {
			t.Error("it is read before the answer")
		}
		p.answer(call, `{"turn":{"id":"trn-1"}}`)
		if err := <-started; err != nil || read != 1 {
			t.Errorf("%v, read %d times", err, read)
		}
		for id, name := range []string{"a", "b"} {
			p.say(`{"id":%d,"method":"item/tool/call","params":{"threadId":"thr-1","turnId":"trn-1","callId":%q,"tool":"f","arguments":{}}}`, id, name)
		}
		synctest.Wait()
		thread.OnInput(func() { read++ })
		answered := async(func() error { return thread.AnswerCalls(t.Context(), []ToolResult{{CallID: "a"}, {CallID: "b"}}) })
		p.hear()
		p.hear()
		must.OK(t, <-answered)
		for want := 1; want <= 2; want++ {
			p.say(`{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"function_call_output","call_id":"a","output":"x"}}}`)
			synctest.Wait()
			if read != want {
				t.Errorf("after output %d: read %d times", want, read)
			}
		}
	})
}
