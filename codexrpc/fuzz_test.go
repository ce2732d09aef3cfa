package codexrpc

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzDispatch passes any line to the reader. It must not panic or block, and its
// replies must be lines of JSON. Only JSON objects may count as messages.
func FuzzDispatch(f *testing.F) {
	for _, line := range []string{
		`{"id":1,"result":{"thread":{"id":"thr-2"}}}`,
		`{"id":1,"error":{"code":-32001,"message":"later","data":[]}}`,
		`{"id":"s","method":"item/tool/call","params":{"threadId":"thr-1"}}`,
		`{"id":0,"method":"future/thing"}`,
		`{"method":"item/agentMessage/delta","params":{"threadId":"thr-1","turnId":"trn-1","itemId":"m","delta":"é"}}`,
		`{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"thr-1","turnId":"trn-1","summaryIndex":1e99}}`,
		`{"method":"rawResponseItem/completed","params":{"threadId":"thr-1","turnId":"trn-1","item":{"type":"function_call","arguments":"{}"}}}`,
		`{"method":"error","params":{"threadId":"thr-1","turnId":"trn-1","error":{"codexErrorInfo":{"a":{"httpStatusCode":1}}}}}`,
		`{"method":"turn/completed","params":{"threadId":"thr-1","turn":{"id":"trn-1","status":"failed","error":{}}}}`,
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"thr-1","turnId":"trn-1","tokenUsage":{"total":{"totalTokens":-1}}}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c := newTestConn()
		thread := openTestTurn(c, "thr-1", "trn-1")
		waiting := &pendingCall{outcome: make(chan error, 1)}
		c.calls.registered[1] = waiting
		c.dispatch(line)
		if _, err := parseMessage(line, new(Event)); err == nil && !isObject(line) {
			t.Errorf("%q was taken for a message", line)
		}
		for len(c.out.replies) > 0 {
			answer := <-c.out.replies
			if !isObject(answer) || strings.Contains(string(answer), "\n") {
				t.Errorf("%q was answered with %q", line, answer)
			}
		}
		events, err := thread.Recv()
		if err != nil {
			t.Errorf("%q ended the turn: %v", line, err)
		}
		for _, e := range events {
			if e.Kind == 0 || e.Kind > EventTurnCompleted || e.threadID != "thr-1" || e.turnID != "trn-1" {
				t.Errorf("%q made %+v", line, e)
			}
		}
	})
}

// isObject reports whether encoding/json decodes a line as an object.
func isObject(line []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(line, &object) == nil && object != nil
}

// FuzzStdio checks that the messages are the lines of the stream, however reads cut
// it.
func FuzzStdio(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{\"b\":2}\r\n\n{\"cut"), uint8(3))
	f.Add([]byte("\n \n\x00\nx"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, most uint8) {
		got := chunked(t, stream, int(most)+1)
		var want []string
		for line := range strings.SplitSeq(string(stream), "\n") {
			if trimmed := string(trimSpace([]byte(line))); trimmed != "" {
				want = append(want, trimmed)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("read %q, want %q", got, want)
		}
	})
}
