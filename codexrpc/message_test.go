package codexrpc

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
)

func TestParseMessage(t *testing.T) {
	for line, want := range map[string]message{
		`{"id":1,"result":{}}`:                                {id: "1"},
		`{"result":{},"id":"a"}`:                              {id: `"a"`},
		`{"id":7,"method":"item/tool/call","params":{}}`:      {id: "7", method: "item/tool/call"},
		`{"method":"error"}`:                                  {method: "error"},
		`{"m\u0065thod":"turn\/started"}`:                     {method: "turn/started"},
		`{"jsonrpc":"2.0","method":"a","future":[{}]}`:        {method: "a"},
		`{"id":null,"method":"a"}`:                            {method: "a"},
		` {"id" : 1 , "error" : {"code" : -32600} } `:         {id: "1"},
		`{"params":{"id":9,"method":"inner"},"method":"out"}`: {method: "out"},
	} {
		got, err := parseMessage([]byte(line), new(Event))
		if err != nil || got.id != want.id || got.method != want.method {
			t.Errorf("%s: %q %q (%v)", line, got.id, got.method, err)
		}
	}
}

// Nothing that is kept of a message shares the memory of its line, which the next line replaces.
func TestMessagesOwnTheirText(t *testing.T) {
	const ids = `"threadId":"thr-1","turnId":"trn-1"`
	item := func(method, item string) string {
		return `{"method":"` + method + `","params":{` + ids + `,"item":` + item + `}}`
	}
	lines := []string{
		`{"method":"item/agentMessage/delta","params":{"delta":"slow",` + ids + `,"itemId":"m0"}}`,
		item(methodItemStarted, `{"type":"agentMessage","id":"m1"}`),
		item(methodItemStarted, `{"type":"someday","id":"m2"}`),
		item(methodItemCompleted, `{"type":"agentMessage","id":"m2","text":"all of it","phase":"final"}`),
		item(methodRawItemCompleted, `{"type":"function_call","id":"f","call_id":"c","name":"find","arguments":"{}","status":"incomplete"}`),
		item(methodRawItemCompleted, `{"type":"function_call_output","call_id":"c","output":"x"}`),
		item(methodRawItemCompleted, `{"type":"reasoning","id":"r","encrypted_content":"secret"}`),
		item(methodRawItemCompleted, `{"type":"web_search_call","id":"w","action":{"type":"search"}}`),
		item(methodRawItemCompleted, `{"type":"message","role":"assistant","id":"m3","content":[{"text":"a","annotations":[{"type":"url_citation"}]}]}`),
		`{"method":"rawResponse/completed","params":{` + ids + `,"usage":{"totalTokens":1},"usageMetadata":{"amount":"0.5","metadata":{"total_tokens":1}}}}`,
		`{"method":"error","params":{` + ids + `,"willRetry":true,"error":{"message":"why","additionalDetails":"more","codexErrorInfo":{"variant":{}}}}}`,
		`{"method":"error","params":{` + ids + `,"error":{"message":"why","codexErrorInfo":"bare"}}}`,
		`{"method":"warning","params":{` + ids + `,"message":"` + fallbackPrefix + `timeout"}}`,
		`{"method":"configWarning","params":{"summary":"` + ignoredConfigPrefix + `","details":"line 7"}}`,
		`{"method":"account/rateLimits/updated","params":{"rateLimits":{"planType":"plus","limitId":"codex"}}}`,
		`{"id":"9","method":"item/tool/call","params":{` + ids + `,"callId":"c1"}}`,
		`{"method":"turn/completed","params":{"threadId":"thr-1","turn":{"id":"trn-1","status":"failed","error":{"message":"it"}}}}`,
	}
	state := func(spoil bool) string {
		c := newTestConn()
		thread := openTestTurn(c, "thr-1", "trn-1")
		for _, line := range lines {
			buffer := []byte(line)
			c.dispatch(buffer)
			if spoil {
				copy(buffer, strings.Repeat("#", len(buffer)))
			}
		}
		events, err := thread.Recv()
		if err != nil || len(events) < len(lines)-3 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		var all strings.Builder
		for _, e := range events {
			fmt.Fprintf(&all, "%+v %+v %+v\n", e, e.Usage, e.Err)
		}
		fmt.Fprintf(&all, "%d %s", c.LimitChanges(), thread.stopParking())
		if problem := c.server.configProblem.Load(); problem != nil {
			all.WriteString(*problem)
		}
		return regexp.MustCompile("0x[0-9a-f]+").ReplaceAllString(all.String(), "") // addresses
	}
	if got, want := state(true), state(false); got != want {
		t.Errorf("of spoilt lines there are\n%s\nand of others\n%s", got, want)
	}
}

// TestEncodeEscapesNoTags checks that only what JSON requires is escaped.
func TestEncodeEscapesNoTags(t *testing.T) {
	line, err := encode(outgoing{Method: "m", Params: map[string]string{"text": "<use_tool> & “quotes”\n"}})
	if want := `{"method":"m","params":{"text":"<use_tool> & “quotes”\n"}}`; err != nil || string(line) != want {
		t.Errorf("wrote %s (%v)", line, err)
	}
	if cap(line) == len(line) {
		t.Error("no room for the line's end: the transport would copy the message")
	}
}

func TestEncodeInjectedItems(t *testing.T) {
	params := injectParams{`thr "1"`, []json.RawMessage{
		json.RawMessage(`{"text":"<b> & \n é"}`), json.RawMessage("{\r\n  \"b\": [1,\n 2]\n}"), json.RawMessage(` {} `),
	}}
	line, err := encodeCall(5, methodThreadInject, params)
	want := `{"id":5,"method":"thread/inject_items","params":{"threadId":"thr \"1\"","items":[{"text":"<b> & \n é"},{"b":[1,2]}, {} ]}}`
	if err != nil || string(line) != want {
		t.Errorf("wrote %s (%v)\nwant  %s", line, err, want)
	}
	if !json.Valid(line) || cap(line) == len(line) {
		t.Error("it is not JSON, or has no room for the line's end")
	}
	if line, err := encodeCall(6, methodThreadInject, injectParams{"t", nil}); err != nil || !json.Valid(line) {
		t.Errorf("without items: %s (%v)", line, err)
	}
}

// Values that are nested without end are no message, and do not exhaust the reader's stack.
func TestNesting(t *testing.T) {
	c, log := newTestConn(), new(logbook.Book)
	c.opts.Logger = log.Logger
	for _, open := range []string{"[", `{"a":`, `[{"a":`} {
		for name, line := range map[string]string{
			"method": `{"method":"item/completed","params":{"item":` + strings.Repeat(open, 4<<20),
			"answer": `{"id":1,"result":` + strings.Repeat(open, 4<<20),
		} {
			before := strings.Count(log.String(), "unreadable line")
			c.dispatch([]byte(line))
			if after := strings.Count(log.String(), "unreadable line"); after != before+1 {
				t.Errorf("%s of %s: %d lines were garbage, then %d", name, open, before, after)
			}
		}
	}
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	if m, err := parseMessage([]byte(`{"id":1,"method":"item/tool/call","params":{"arguments":`+deep+`}}`), new(Event)); err != nil || m.id != "1" {
		t.Errorf("what Codex may write is no message: %v", err)
	}
}

func TestLastID(t *testing.T) {
	for line, want := range map[string]string{
		`{"params":{"item":{"threadId":"a"},"threadId":"b","turnId":"c"}}`:   "b",
		`{"params":{"threadId":"b","text":"\"threadId\":\"a\""}}`:            "b",
		`{"method":"item/started","params":{"item":{"type":"userMessage"}}}`: "",
		`{"method":"item/started","params":{"threadId":7}}`:                  "",
	} {
		if got := lastID([]byte(line), "threadId"); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
