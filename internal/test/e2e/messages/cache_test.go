package messages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// sent is what the model was sent in a session.
type sent struct {
	keys     map[string]bool // of the provider's cache
	extends  bool            // each input begins with all of the one before
	repeated float64         // the part of the input, without that of the first request, that was sent before with the same key
	requests int
}

// sentIn reads what the requests of a session had.
func sentIn(t *testing.T, requests []scriptedmodel.Request) sent {
	t.Helper()
	s := sent{keys: map[string]bool{}, extends: true, requests: len(requests)}
	last := map[string][]json.RawMessage{} // by the key
	var before []json.RawMessage
	all, again := 0, 0
	for i, r := range requests {
		var body struct{ Input []json.RawMessage }
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		s.keys[r.PromptCacheKey] = true
		s.extends = s.extends && samePrefix(body.Input, before) == len(before)
		same := samePrefix(body.Input, last[r.PromptCacheKey])
		for k, item := range body.Input {
			if k >= same && strings.Contains(string(item), `"encrypted_content"`) {
				continue // what the model has just thought is long, and new to any cache
			}
			if i > 0 {
				all += len(item)
			}
			if i > 0 && k < same {
				again += len(item)
			}
		}
		last[r.PromptCacheKey], before = body.Input, body.Input
	}
	s.repeated = float64(again) / float64(all)
	return s
}

// samePrefix returns with how many equal items two inputs begin. The ids of items are Codex's.
func samePrefix(a, b []json.RawMessage) int {
	n := 0
	for n < len(a) && n < len(b) && string(a[n]) == string(b[n]) {
		n++
	}
	return n
}

// rounds are how many requests of the model a part of a session has.
const rounds = 5

// agent makes the model work in rounds: mostly it runs a command, in the last one of a part it
// ends its turn. It loads a deferred tool and calls it, if there are such.
func agent(s *e2e.Site) {
	var round atomic.Int64
	s.T.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if !slices.ContainsFunc(r.Tools, func(t scriptedmodel.Tool) bool { return t.Name == "Bash" }) {
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say(`{"title":"A session"}`)}}, true // a title
		}
		n := round.Add(1)
		var out []scriptedmodel.Output
		switch deferred := slices.ContainsFunc(r.Tools, func(t scriptedmodel.Tool) bool { return t.Name == "call_tool" }); {
		case n%rounds == 0:
			out = []scriptedmodel.Output{scriptedmodel.Reason("So."), scriptedmodel.Say("This is done.")}
		case deferred && n == 2:
			out = []scriptedmodel.Output{scriptedmodel.Call{Name: "ToolSearch", Arguments: `{"query":"select:CronList,TaskStop","max_results":2}`}}
		case deferred && n == 3:
			out = []scriptedmodel.Output{scriptedmodel.Call{Name: "call_tool", Arguments: `{"name":"CronList","arguments":{}}`}}
		case n%2 == 0:
			out = []scriptedmodel.Output{scriptedmodel.Say("Let me look."), scriptedmodel.Call{Name: "Bash", Arguments: fmt.Sprintf(`{"command":"seq %d","description":"count"}`, n)}}
		default:
			out = []scriptedmodel.Output{
				scriptedmodel.Reason("Hm."),
				scriptedmodel.Call{Name: "Bash", Arguments: fmt.Sprintf(`{"command":"sleep 0.1; seq %d","description":"count"}`, n)},
				scriptedmodel.Call{Name: "Bash", Arguments: fmt.Sprintf(`{"command":"seq %d; false","description":"fail"}`, n)},
			}
		}
		return scriptedmodel.Script{Output: out}, true
	}))
}

// session returns the requests of the session with the tools of Claude Code.
func session(s *e2e.Site) (all []scriptedmodel.Request) {
	for _, r := range s.Model.Requests() {
		if strings.Contains(string(r.Body), `"name":"Bash"`) {
			all = append(all, r)
		}
	}
	return all
}

// once runs a test over the usual transport.
func once(t *testing.T, test func(t *testing.T, all bool)) { test(t, true) }

// TestCache: a session of Claude Code of 20 rounds, or of 10 or 5, has one key of the provider's cache,
// and nearly all of each input was sent before, with deferred tools and without. With a thread for
// each request, as other programs do it, nothing was.
func TestCache(t *testing.T) {
	for _, c := range []struct {
		name, options string
		env           []string
		kept          bool
		sdk           bool // it is the Agent SDK's
		parts         int  // of the session; each but the SDK's starts Claude Code
		over          func(*testing.T, func(t *testing.T, all bool))
	}{
		{"deferred tools", "", nil, true, false, 4, e2e.OverBothSampled},
		{"all tools", "", []string{"ENABLE_TOOL_SEARCH=false"}, true, false, 2, once},
		{"the Agent SDK", "", nil, true, true, 4, once},
		{"a thread for each request", "conversations off", nil, false, false, 1, once},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.over(t, func(t *testing.T, all bool) {
				s := e2e.NewSite(t, c.options)
				agent(s)
				claude := newClaude(t, s, c.env...)
				said := []string(nil)
				parts, least := []string{"Part 0.", "Part 1.", "Part 2.", "Part 3."}[:c.parts], 0.95
				if !all {
					parts = parts[:2]
				}
				if len(parts) < 4 {
					least = 0.92
				}
				if c.sdk {
					said = claude.session(parts)
				} else {
					for i, part := range parts {
						said = append(said, claude.run(part, []string{"--continue"}[:min(i, 1)]...).Result)
					}
				}
				if !slices.Equal(said, slices.Repeat([]string{"This is done."}, len(parts))) {
					t.Fatalf("%q", said)
				}
				got := sentIn(t, session(s))
				t.Logf("%d requests, %d keys, %.1f %% sent before", got.requests, len(got.keys), 100*got.repeated)
				if got.requests != rounds*len(parts) || c.kept != (len(got.keys) == 1) || c.kept && (!got.extends || got.repeated < least) || !c.kept && got.repeated > 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}
