package prompt_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/seal"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const form = "codex-sealed-1."

// compaction is the item with a sealed content. The tests seal nothing: they only encode it.
func compaction(content []byte) string {
	return `{"type":"compaction","encrypted_content":"` + form + base64.RawURLEncoding.EncodeToString(content) + `"}`
}

func unseal(sealed string) ([]byte, error) {
	content, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sealed, form))
	if err != nil || len(content) == 0 {
		return nil, seal.ErrUnreadable
	}
	return content, nil
}

// conversationOfItems decodes a request with these members and items, and opens its summaries.
func conversationOfItems(t *testing.T, members string, items ...string) *responses.Request {
	t.Helper()
	r, apiErr := responses.Decode([]byte(`{"model":"m",` + members + `"input":[` + strings.Join(items, ",") + `]}`))
	if apiErr == nil {
		apiErr = r.Resolve(nil, nil)
	}
	if apiErr == nil {
		apiErr = r.OpenSummaries(unseal)
	}
	if apiErr != nil {
		t.Fatalf("%+v\n%s", apiErr, strings.Join(items, "\n"))
	}
	return r
}

// said lists the messages of a conversation in short: roles and texts, and for an item its text.
func said(c *prompt.Conversation) string {
	var all []string
	for i := range c.Messages {
		m := &c.Messages[i]
		text := string(m.Role) + ":"
		if m.Role == prompt.RoleItem {
			content := gjson.GetBytes(m.Item, "content.0.text").String()
			text += content[strings.LastIndex(content, "\n")+1:]
		}
		for p := range m.Parts() {
			if p.Text != nil {
				text += p.Text.Text()
			}
		}
		for _, call := range m.Calls {
			text += "call " + call.ID.Text()
		}
		if m.Role == prompt.RoleTool {
			text += " of " + m.CallID.Text()
		}
		if len(text) > 40 {
			text = text[:20] + fmt.Sprintf("(%d)", len(text))
		}
		all = append(all, text)
	}
	return strings.Join(all, " | ")
}

func says(role, text string) string {
	return `{"role":"` + role + `","content":` + wirejson.Quote(text) + `}`
}

func calls(id string) string {
	return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
}

func returns(id, output string) string {
	return `{"type":"function_call_output","call_id":"` + id + `","output":` + wirejson.Quote(output) + `}`
}

const picture = `{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}`

// TestShorten: what stays in the place of the first messages, and what is sealed of it.
func TestShorten(t *testing.T) {
	long := strings.Repeat("long ", 8000)
	for name, test := range map[string]struct {
		items   []string
		covered int    // negative: all
		want    string // what the model gets
		later   string // what it gets from the sealed content; empty: the same
	}{
		"a question":         {[]string{says("user", "a"), says("assistant", "b"), says("user", "c")}, -1, "system:I | item:S | user:c", ""},
		"a long question":    {[]string{says("user", "a"), says("assistant", "b"), says("user", long)}, -1, "system:I | item:S | user:long long long (40005)", "system:I | item:S"},
		"a picture":          {[]string{says("user", "a"), picture}, -1, "system:I | item:S | user:look", "system:I | item:S"},
		"results":            {[]string{says("user", "a"), calls("1"), returns("1", "r")}, -1, "system:I | user:a | item:S", ""},
		"results, long":      {[]string{says("user", long), calls("1"), returns("1", "r")}, -1, "system:I | item:S", ""},
		"results, picture":   {[]string{picture, calls("1"), returns("1", "r")}, -1, "system:I | item:S", ""},
		"an answer":          {[]string{says("user", "a"), says("assistant", "b")}, -1, "system:I | user:a | item:S", ""},
		"no user":            {[]string{says("assistant", "b")}, -1, "system:I | item:S", ""},
		"instructions":       {[]string{says("developer", "A"), says("user", "a"), says("system", "B"), says("user", "b")}, -1, "system:I | developer:A | system:B | item:S | user:b", ""},
		"the question, too":  {[]string{says("user", "a"), says("assistant", "b"), says("user", "c"), calls("1"), returns("1", "r"), calls("2"), returns("2", "s")}, 6, "system:I | user:c | item:S | assistant:call 2 | tool:s of 2", "-"},
		"the first messages": {[]string{says("user", "a"), says("developer", "A"), says("assistant", "b"), says("user", "c"), says("assistant", "d"), says("user", "e")}, 4, "system:I | developer:A | item:S | user:c | assistant:d | user:e", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &conversationOfItems(t, `"instructions":"I",`, test.items...).Conversation
			if test.covered < 0 {
				test.covered = len(c.Messages)
			}
			sealed := c.Shorten(test.covered, "S")
			if got := said(c); got != test.want {
				t.Errorf("the model gets %s\nwant %s", got, test.want)
			}
			if test.later == "-" {
				if sealed != nil {
					t.Errorf("sealed: %s", sealed)
				}
				return
			}
			if test.later == "" {
				test.later = test.want
			}
			later := conversationOfItems(t, `"instructions":"I",`, append(test.items, compaction(sealed))...)
			if got := said(&later.Conversation); got != test.later {
				t.Errorf("later it gets %s\nwant %s", got, test.later)
			}
		})
	}
}

// TestLeading: a first part never ends between a call and its result, has at least one message that can stand
// alone, and is not larger than asked for if it has more.
func TestLeading(t *testing.T) {
	for name, test := range map[string]struct {
		items []string
		share float64
		want  int // messages, with the instructions
	}{
		"half":            {[]string{says("user", "aaaa"), says("assistant", "bbbb"), says("user", "cccc"), says("assistant", "dddd")}, 0.6, 3},
		"at least one":    {[]string{says("user", "aaaaaaaaaaaaaaaaaa"), says("assistant", "b")}, 0.1, 2},
		"no half call":    {[]string{says("user", "a"), calls("1"), returns("1", strings.Repeat("r", 100)), says("user", "b")}, 0.5, 2},
		"calls together":  {[]string{says("user", "a"), calls("1"), calls("2"), returns("2", "r"), returns("1", "r"), says("user", strings.Repeat("b", 100))}, 0.5, 6},
		"a call is first": {[]string{calls("1"), returns("1", strings.Repeat("r", 100)), says("user", "b")}, 0.1, 3},
	} {
		c := &conversationOfItems(t, `"instructions":"I",`, test.items...).Conversation
		if got := c.Leading(test.share); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	if n := new(prompt.Conversation).Leading(0.5); n != 0 {
		t.Errorf("of nothing: %d", n)
	}
}

// TestPiecewise shortens random conversations by their first parts until they cannot be shorter. There is an end, and no
// call is parted from its result.
func TestPiecewise(t *testing.T) {
	r := draw.Random(t)
	for range draw.Cases(100, 2000) {
		items := randomItems(r, 2+r.IntN(40))
		c := &conversationOfItems(t, "", items...).Conversation
		for i, progress := 0, true; progress; i++ {
			before := len(c.Messages)
			n := c.Leading(0.1 + 0.8*r.Float64())
			if i > len(items) {
				t.Fatalf("no end: %d of %s", n, said(c))
			}
			if n == 0 { // there are only instructions
				break
			}
			piece := *c
			piece.Messages, piece.Shortening.Summary = c.Messages[:n], true
			checkCalls(t, planOf(t, &piece))
			c.Shorten(n, "S")
			checkCalls(t, planOf(t, c))
			progress = len(c.Messages) < before // otherwise one message has become a summary
		}
	}
}

func planOf(t *testing.T, c *prompt.Conversation) *prompt.Plan {
	t.Helper()
	p, apiErr := c.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	return p
}

// checkCalls checks that each call in the history has a result, and each result a call before it.
func checkCalls(t *testing.T, p *prompt.Plan) {
	t.Helper()
	open := make(map[string]bool)
	for _, item := range p.History {
		id := gjson.GetBytes(item, "call_id").String()
		switch gjson.GetBytes(item, "type").String() {
		case "function_call":
			open[id] = true
		case "function_call_output":
			if !open[id] {
				t.Errorf("the result of %s has no call: %s", id, p.History)
			}
			delete(open, id)
		}
	}
	if len(open) > 0 {
		t.Errorf("no results of %v in %s", open, p.History)
	}
}

// randomItems returns a conversation of at least n items, whose calls all have results.
func randomItems(r *rand.Rand, n int) (items []string) {
	words := func() string { return strings.Repeat("word ", 1+r.IntN(30)) }
	for i := 0; len(items) < n; i++ {
		switch id := fmt.Sprint("c", i); r.IntN(7) {
		case 0:
			items = append(items, says("developer", words()))
		case 1:
			items = append(items, `{"type":"reasoning","summary":[],"encrypted_content":"x"}`, says("assistant", words()))
		case 2:
			items = append(items, calls(id), calls(id+"b"), returns(id+"b", words()), returns(id, words()))
		case 3:
			items = append(items, says("assistant", words()), calls(id), returns(id, words()))
		case 4:
			items = append(items, says("assistant", words()))
		default:
			items = append(items, says("user", words()))
		}
	}
	return items
}

// TestSummaryRoundTrip: the request after the answer has the history that the answer's turn had, so that it goes on in
// the same thread, whether its client sends all items or only those from the summary on; also if
// there was a summary before.
func TestSummaryRoundTrip(t *testing.T) {
	r := draw.Random(t)
	links := func(c *prompt.Conversation) *conversation.Chain {
		p := planOf(t, c)
		chain, err := conversation.NewChain(conversation.Identity{User: "ann", Thread: p.Thread}, p.History, p.Turn.Input)
		must.OK(t, err)
		return chain
	}
	for range draw.Cases(200, 5000) {
		members := []string{"", `"instructions":"Be kind.",`}[r.IntN(2)]
		items := randomItems(r, 1+r.IntN(20))
		switch c := &conversationOfItems(t, members, items...).Conversation; r.IntN(3) {
		case 0:
			items = append(items, compaction(c.Shorten(len(c.Messages), "Earlier.")))
			items = append(items, randomItems(r, 1+r.IntN(8))...)
		case 1:
			c.Shortening.UsersStay = true
			items = append(items, compaction(c.SealedSummary()("Earlier.")))
			items = append(items, randomItems(r, r.IntN(8))...)
		}
		c := &conversationOfItems(t, members, items...).Conversation
		sealed := c.Shorten(len(c.Messages), "Sum <of> \"it\".")
		a := new(conversation.Answer)
		a.Text("Fine.")
		want := links(c).After(a)
		for _, all := range []bool{true, false} {
			rest := []string{compaction(sealed), says("assistant", "Fine."), says("user", "And?")}
			if all {
				rest = slices.Concat(items, rest)
			}
			later := &conversationOfItems(t, members, rest...).Conversation
			if chain := links(later); len(chain.Links) == 0 || chain.Links[len(chain.Links)-1].Hash != want {
				t.Fatalf("all %t, items\n%s\nthe turn had %s\nlater %s", all, strings.Join(items, "\n"), said(c), said(later))
			}
		}
	}
}

// TestForSummary: the model is asked for a summary after all else, in the form of the client's thread. Calls that wait
// for their results are left out; the schema of the answer is, too.
func TestForSummary(t *testing.T) {
	c := &conversationOfItems(t, `"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}},"tools":[{"type":"function","name":"f"}],`,
		says("user", "a"), calls("1"), returns("1", "r"), calls("2"), calls("3"), returns("3", "s"), `{"type":"compaction_trigger"}`).Conversation
	p := planOf(t, c)
	checkCalls(t, p)
	if !p.Summary || len(p.Turn.Input) != 1 || p.Turn.Input[0].Text != prompt.SummaryRequest || p.Turn.OutputSchema != nil || len(p.History) != 5 {
		t.Errorf("%t %+v %s", p.Summary, p.Turn, p.History)
	}
	answer := &conversationOfItems(t, `"tools":[{"type":"function","name":"f"}],`, says("user", "a")).Conversation
	if other := planOf(t, answer); len(other.Thread.DynamicTools) != len(p.Thread.DynamicTools) || *other.Thread.BaseInstructions != *p.Thread.BaseInstructions {
		t.Error("the thread is another one")
	}
}

// TestOpenSummaries: what stays of the messages before a summary, and after it.
func TestOpenSummaries(t *testing.T) {
	beside := func(text string) string {
		c := &prompt.Conversation{Shortening: prompt.Shortening{UsersStay: true}}
		return compaction(c.SealedSummary()(text))
	}
	alone := func(text string, instructions ...string) string {
		c := new(prompt.Conversation)
		for _, i := range instructions {
			c.Messages = append(c.Messages, prompt.Message{Role: prompt.RoleDeveloper, Text: wirejson.AppendString(nil, i)})
		}
		return compaction(c.SealedSummary()(text))
	}
	large := strings.Repeat("u", 150<<10)
	for name, test := range map[string]struct {
		items []string
		want  string
	}{
		"users stay":           {[]string{says("user", "a"), says("assistant", "b"), says("developer", "D"), says("user", "c"), beside("S"), says("user", "d")}, "system:I | user:a | developer:D | user:c | item:S | user:d"},
		"users do not":         {[]string{says("user", "a"), says("assistant", "b"), says("developer", "D"), alone("S", "D"), says("user", "d")}, "system:I | developer:D | item:S | user:d"},
		"the last item":        {[]string{says("user", "a"), beside("S")}, "system:I | user:a | item:S"},
		"nothing else":         {[]string{alone("S")}, "system:I | item:S"},
		"an open call":         {[]string{says("user", "a"), calls("1"), beside("S"), returns("1", "r"), says("user", "b")}, "system:I | user:a | item:S | assistant:call 1 | tool:r of 1 | user:b"},
		"one of two calls":     {[]string{calls("1"), calls("2"), returns("1", "r"), alone("S"), returns("2", "s")}, "system:I | item:S | assistant:call 2 | tool:s of 2"},
		"two":                  {[]string{says("user", "a"), alone("S"), says("user", "b"), beside("T"), says("user", "c")}, "system:I | user:a | user:b | item:T | user:c"},
		"the newest users":     {[]string{says("user", "old"), says("user", large), says("user", large), says("user", "a"), beside("S")}, "system:I | user:uuuuuuuuuuuuuuu(153605) | user:a | item:S"},
		"the provider's after": {[]string{alone("S"), `{"type":"compaction","encrypted_content":"theirs"}`, says("user", "a")}, "system:I | item:S | item: | user:a"},
	} {
		if got := said(&conversationOfItems(t, `"instructions":"I",`, test.items...).Conversation); got != test.want {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
}

// TestUnreadableSummaries: a summary that cannot be opened is the client's error, with its path; that the keys are not
// there is not.
func TestUnreadableSummaries(t *testing.T) {
	r, apiErr := responses.Decode([]byte(`{"model":"m","input":[` + says("user", "a") + "," + compaction([]byte("{}")) + `]}`))
	if apiErr != nil || r.Resolve(nil, nil) != nil {
		t.Fatal(apiErr)
	}
	for name, test := range map[string]struct {
		content string
		err     error
		status  int
	}{
		"changed": {"", seal.ErrUnreadable, http.StatusBadRequest}, "no JSON": {"{", nil, http.StatusBadRequest}, "a list": {"[]", nil, http.StatusBadRequest},
		"nothing": {"", nil, http.StatusBadRequest}, "a role": {`{"messages":[{"role":1}]}`, nil, http.StatusBadRequest},
		"no keys": {"", errors.New("the disk is on fire"), http.StatusServiceUnavailable},
	} {
		before := len(r.Messages)
		apiErr := r.OpenSummaries(func(string) ([]byte, error) { return []byte(test.content), test.err })
		if apiErr == nil || apiErr.Status != test.status || test.status == http.StatusBadRequest && apiErr.Param != "input[1].encrypted_content" || strings.Contains(apiErr.Message, "fire") {
			t.Errorf("%s: %+v", name, apiErr)
		}
		if len(r.Messages) != before {
			t.Errorf("%s: the conversation has changed", name)
		}
	}
}
