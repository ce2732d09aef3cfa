package fakecodex

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestGenerated checks that Options.Turn gets the client's parameters, that its
// messages are sent in order, and that it can wait for an answer.
func TestGenerated(t *testing.T) {
	var asked Asked
	c := ready(t, Options{Turn: func(a Asked) []Step {
		asked = a
		about := fmt.Sprintf(`"threadId":%q,"turnId":%q`, a.Thread, a.Turn)
		return []Step{
			{Message: `{"id":0,"result":{"turn":{"id":"` + a.Turn + `"}}}`},
			{Message: "no message"},
			{Message: `{"id":7,"method":"future/request","params":{}}`},
			{Await: "7"},
			{Message: `{"method":"item/agentMessage/delta","params":{` + about + `,"itemId":"i","delta":"one"}}`, Pause: time.Millisecond},
			{Message: `{"method":"turn/completed","params":{"threadId":"` + a.Thread + `","turn":{"id":"` + a.Turn + `","status":"completed"}}}`},
			{Message: `{"method":"late"}`},
		}
	}})
	thread := ask(t, c, "hello")
	defer thread.Close(nil)
	if got := take(t, thread); got.text != "one" || got.status != codexrpc.StatusCompleted || got.err != nil {
		t.Errorf("%+v", got)
	}
	if gjson.Get(asked.Params, "input.0.text").Str != "hello" || !strings.HasPrefix(asked.ThreadParams, "{") || asked.History != "" {
		t.Errorf("%+v", asked)
	}
}

// TestResumed checks that a generated turn goes on with the results of its calls and a
// message behind them, and that its thread remembers all of it.
func TestResumed(t *testing.T) {
	var asked []Asked
	c := ready(t, Options{Turn: func(a Asked) []Step {
		asked = append(asked, a)
		about := fmt.Sprintf(`"threadId":%q,"turnId":%q`, a.Thread, a.Turn)
		if len(asked) == 1 {
			item := `{"method":"rawResponseItem/completed","params":{` + about + `,"item":%s}}`
			call := fmt.Sprintf(item, `{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{}"}`)
			return []Step{
				{Message: `{"id":0,"result":{"turn":{"id":"` + a.Turn + `"}}}`},
				{Message: fmt.Sprintf(item, `{"type":"reasoning","id":"rs","encrypted_content":"secret"}`)},
				{Message: call}, {Message: call},
				{Message: `{"id":1,"method":"item/tool/call","params":{` + about + `,"callId":"c","tool":"f","arguments":{}}}`},
				{Resume: true},
			}
		}
		start := Step{Message: `{"id":0,"result":{"turn":{"id":"` + a.Turn + `"}}}`}
		if a.Resumed {
			start.Message = `{"method":"future/nothing"}`
		}
		return []Step{
			start,
			{Message: `{"method":"item/completed","params":{` + about + `,"item":{"type":"agentMessage","id":"m","text":"done"}}}`},
			{Message: `{"method":"turn/completed","params":{"threadId":"` + a.Thread + `","turn":{"id":"` + a.Turn + `","status":"completed"}}}`},
		}
	}})
	thread := ask(t, c, "hello")
	defer thread.Close(nil)
	ctx := patient(t)
	hearCalls(t, thread, 2)
	if err := thread.Parked(ctx, []string{"c"}); err != nil {
		t.Fatal(err)
	}
	text := func(text string) []codexrpc.UserInput { return []codexrpc.UserInput{{Type: "text", Text: text}} }
	if err := thread.Steer(ctx, text("and")); err != nil {
		t.Fatal(err)
	}
	if err := thread.AnswerCalls(ctx, []codexrpc.ToolResult{{CallID: "c", Parts: text("result")}}); err != nil {
		t.Fatal(err)
	}
	if got := take(t, thread); got.status != codexrpc.StatusCompleted || got.err != nil {
		t.Errorf("%+v", got)
	}
	if err := thread.NextTurn(); err != nil {
		t.Fatal(err)
	}
	if err := thread.StartTurn(ctx, codexrpc.TurnStartParams{Input: text("more")}); err != nil {
		t.Fatal(err)
	}
	take(t, thread)
	const first = "hello\x00f\x00{}\x00result\x00and\x00"
	if len(asked) != 3 || !asked[1].Resumed || asked[1].History != first || asked[2].Resumed || asked[2].History != first+"done\x00" || asked[2].Reasoning != "secret\x00" {
		t.Errorf("asked %+v", asked)
	}
}
