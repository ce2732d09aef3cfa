package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/usage"
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

// TestAbandonedUsage: a turn whose client leaves counts the input that the model was sent, and what
// it has said or thought, and says that this is an estimate.
func TestAbandonedUsage(t *testing.T) {
	for name, c := range map[string]struct {
		method, delta string
		least, most   int64 // tokens of the output
	}{
		"text":    {"item/agentMessage/delta", "one two three", 3, 4},
		"summary": {"item/reasoning/summaryTextDelta", strings.Repeat("hm ", 100), 70, 80},
	} {
		u := newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
			return []fakecodex.Step{
				{Message: `{"id":0,"result":{"turn":{"id":"` + a.Turn + `"}}}`},
				{Message: fmt.Sprintf(`{"method":%q,"params":{"threadId":%q,"turnId":%q,"itemId":"m","summaryIndex":0,"delta":%q}}`, c.method, a.Thread, a.Turn, c.delta)},
				{Pause: patience, Message: `{}`},
			}
		}})
		ended := make(recorded, 1)
		url, _ := responsesServer(t, u, Options{Observer: ended})
		const untilText = 5 // events: created, in progress, item, part, the text
		body := `{"model":"m","input":"` + strings.Repeat("word ", 1000) + `","stream":true}`
		if _, answer := call(t, http.MethodPost, url, body, untilText); !strings.Contains(answer, c.delta) {
			t.Fatal(name, answer)
		}
		record := <-ended
		if in, out := record.Usage.InputTokens, record.Usage.OutputTokens; !record.Estimated || in < 900 || in > 1500 || out < c.least || out > c.most || record.Usage.TotalTokens != in+out {
			t.Errorf("%s: %+v", name, record)
		}
	}
}

// TestAbandonedStart: a turn whose client leaves while it begins is in the usage, as its key is
// charged for it.
func TestAbandonedStart(t *testing.T) {
	begun := make(chan struct{}, 1)
	u := newFakeUpstream(t, fakecodex.Options{Turn: func(fakecodex.Asked) []fakecodex.Step {
		begun <- struct{}{}
		return []fakecodex.Step{{Pause: patience, Message: `{}`}}
	}})
	ended := make(recorded, 1)
	url, _ := responsesServer(t, u, Options{Observer: ended})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model":"m","input":"`+strings.Repeat("word ", 1000)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		leave()
	}()
	if response, err := http.DefaultClient.Do(r); err == nil {
		response.Body.Close()
		t.Fatal("it was answered with ", response.Status)
	}
	select {
	case record := <-ended:
		if in := record.Usage.InputTokens; !record.Estimated || in < 900 || in > 1500 || record.Code != apierror.ClientGone().Code {
			t.Errorf("%+v", record)
		}
	case <-time.After(patience):
		t.Fatal("the turn was not recorded")
	}
}

// recorded gets the record of each turn.
type recorded chan usage.Record

func (r recorded) AnswerBegan(bool) (ended func()) { return func() {} }
func (r recorded) TurnsEnded(_ context.Context, turns []usage.Record) {
	for _, record := range turns {
		r <- record
	}
}
func (r recorded) RequestFailed(*http.Request, *apierror.Error) {}
