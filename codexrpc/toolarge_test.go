package codexrpc

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestTooLargeMessageEndsItsTurn checks that a turn ends with an error if a message was skipped
// that may have been a part of its answer, and that no other turn does.
func TestTooLargeMessageEndsItsTurn(t *testing.T) {
	const own = `"threadId":"thr-1","turnId":"trn-1"`
	const other = `"threadId":"thr-1","turnId":"trn-0"`
	const strange = `"threadId":"thr-2","turnId":"trn-1"`
	long := strings.Repeat("x", 3*readBuffer)
	for name, test := range map[string]struct {
		line string
		ends bool
	}{
		"delta":                   {`{"method":"item/agentMessage/delta","params":{` + own + `,"itemId":"i","delta":"` + long + `"}}`, true},
		"delta that quotes ids":   {`{"method":"item/agentMessage/delta","params":{` + own + `,"itemId":"i","delta":"` + long + strings.ReplaceAll(strange, `"`, `\"`) + `"}}`, true},
		"delta of another turn":   {`{"method":"item/agentMessage/delta","params":{` + other + `,"itemId":"i","delta":"` + long + `"}}`, false},
		"delta of another thread": {`{"method":"item/agentMessage/delta","params":{` + strange + `,"itemId":"i","delta":"` + long + `"}}`, false},
		"item":                    {`{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"i","text":"` + long + `"},` + own + `},"emittedAtMs":1}`, true},
		"item with ids":           {`{"method":"item/completed","params":{"item":{"type":"dynamicToolCall","arguments":{` + strange + `,"text":"` + long + `"}},` + own + `}}`, true},
		"message of the user":     {`{"method":"item/completed","params":{"item":{"type":"userMessage","content":[{"type":"text","text":"` + long + `"}]},` + own + `}}`, false},
		"raw message":             {`{"method":"rawResponseItem/completed","params":{` + own + `,"item":{"type":"message","role":"user","content":"` + long + `"}}}`, false},
		"raw call":                {`{"method":"rawResponseItem/completed","params":{` + own + `,"item":{"type":"function_call","arguments":"` + long + `"}}}`, true},
		"raw call of a history":   {`{"method":"rawResponseItem/completed","params":{` + other + `,"item":{"type":"function_call","arguments":"` + long + `"}}}`, false},
		"no ids":                  {`{"result":"` + long + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestConn()
			thread := openTestTurn(c, "thr-1", "trn-1")
			s := NewStdio(io.NopCloser(strings.NewReader(test.line+"\n{}\n")), nil)
			s.limit = 100_000
			_, err := s.Read()
			if !errors.Is(err, ErrMessageTooLarge) {
				t.Fatal(err)
			}
			c.handleTooLarge(err)
			if _, err := thread.Recv(); errors.Is(err, ErrMessageTooLarge) != test.ends || (err == nil) == test.ends {
				t.Errorf("the turn's error is %v", err)
			}
			if next, err := s.Read(); string(next) != "{}" || err != nil {
				t.Errorf("next %q, %v", next, err)
			}
		})
	}
}
