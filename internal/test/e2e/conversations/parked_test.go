package conversations

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// manyParked and fewParked are how many turns wait at the same time.
const manyParked, fewParked = 25, 10

// TestManyParkedTurns parks many turns, reloads Caddy or kills codex, and sends the
// results. After a reload all turns go on; after a kill all conversations go on in
// fresh threads. Each client gets its own answer, and the model is asked once for each.
func TestManyParkedTurns(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, s *e2e.Site){
		"reload": func(t *testing.T, s *e2e.Site) { s.Load(s.Caddyfile("api_key ann-key ann\nmax_concurrent 9")) },
		"kill":   func(t *testing.T, s *e2e.Site) { e2e.Kill(t, "codex") }, // and nobody waits for the next one
	} {
		t.Run(name, func(t *testing.T) {
			e2e.OverBothSampled(t, func(t *testing.T, all bool) {
				parked := fewParked
				if all {
					parked = manyParked
				}
				testManyParkedTurns(t, parked, name == "reload", meanwhile)
			})
		})
	}
}

func testManyParkedTurns(t *testing.T, parked int, resumed bool, meanwhile func(*testing.T, *e2e.Site)) {
	s := e2e.NewSite(t, "api_key ann-key ann")
	s.WaitReadyAs(e2e.Bearer("ann-key"))
	var mu sync.Mutex
	asked := make(map[string][]scriptedmodel.Request) // by the question
	defer s.Model.On(func(request scriptedmodel.Request) (scriptedmodel.Script, bool) {
		at := slices.IndexFunc(request.Input, func(item scriptedmodel.Item) bool { return item.Role == "user" })
		question := request.Input[at].Content.String()
		mu.Lock()
		defer mu.Unlock()
		asked[question] = append(asked[question], request)
		return scriptedmodel.Script{}, false
	})()
	talks := make([]talk, parked)
	sideBySide(parked, func(i int) {
		one := talk{user: "ann", system: fmt.Sprint("Talk ", i), messages: []chatMessage{
			{"role": "user", "content": fmt.Sprintf("reason: hm\ntool: find {\"q\": %d}\nthen\nsay: end of %d", i, i)}}}
		message := sayIn(t, s, &one, i%2 == 0)
		call, _ := message["tool_calls"].([]any)[0].(map[string]any)
		one.messages = append(one.messages, message, chatMessage{"role": "tool", "tool_call_id": call["id"], "content": fmt.Sprint("result ", i)})
		talks[i] = one
	})
	meanwhile(t, s)
	sideBySide(parked, func(i int) {
		message := sayIn(t, s, &talks[i], i%2 == 0)
		if got, want := message["content"], fmt.Sprint("end of ", i); got != want {
			t.Errorf("talk %d was answered with %q", i, got)
		}
	})
	for i := range talks {
		question := talks[i].messages[0]["content"].(string)
		requests := asked[question]
		if len(requests) != 2 {
			t.Fatalf("the model was asked %d times in talk %d", len(requests), i)
		}
		if same := requests[0].PromptCacheKey == requests[1].PromptCacheKey; same != resumed {
			t.Errorf("talk %d went on in its thread: %t", i, same)
		}
		want := append(spokenTo(requests[0]), fmt.Sprintf("call 0 find({\"q\":%d})", i), fmt.Sprint("output 000 result ", i))
		if n := len(thoughtsIn(requests[1])); (n == 1) != resumed || n > 1 {
			t.Errorf("the model was given %d items of reasoning", n)
		}
		if got := spokenTo(requests[1]); !slices.Equal(got, want) {
			t.Errorf("the model was given\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// sideBySide calls f with each number below n, eight at a time.
func sideBySide(n int, f func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	all.Wait()
}
