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
