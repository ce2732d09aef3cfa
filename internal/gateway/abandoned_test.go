package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// TestAbandonedInBlock: a block that is open when the client of a response leaves, or when a
// response in the background is cancelled, is a part of what is stored.
func TestAbandonedInBlock(t *testing.T) {
	const said = "so <use_tool><name>f"
	u := newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
		return []fakecodex.Step{
			{Message: `{"id":0,"result":{"turn":{"id":"` + a.Turn + `"}}}`},
			{Message: fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":%q,"turnId":%q,"itemId":"m","delta":%q}}`, a.Thread, a.Turn, said)},
			{Pause: patience, Message: `{}`},
		}
	}})
	url, _ := responsesServer(t, u, Options{})
	const untilText = 5 // events: created, in progress, item, part, the text before the block
	for name, background := range map[string]bool{"the client leaves": false, "cancelled": true} {
		body := fmt.Sprintf(`{"model":"m","instructions":"Write <use_tool>.","input":"x","stream":true,"background":%t}`, background)
		_, answer := call(t, http.MethodPost, url, body, untilText)
		one := url + "/" + idIn(t, answer)
		if !strings.Contains(answer, `"delta":"so "`) || strings.Contains(answer, "<name>") {
			t.Fatalf("%s: the begin %s", name, answer)
		}
		if background {
			call(t, http.MethodPost, one+"/cancel", "", -1)
		}
		stored := ""
		for end := time.Now().Add(patience); !strings.Contains(stored, `"status":"cancelled"`) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, stored = call(t, http.MethodGet, one, "", -1)
		}
		if !strings.Contains(stored, `"text":"so \u003cuse_tool\u003e\u003cname\u003ef"`) && !strings.Contains(stored, `"text":"`+said+`"`) {
			t.Errorf("%s: stored %s", name, stored)
		}
	}
}
