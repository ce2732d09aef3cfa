package messages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/seal"
)

// opened returns what the model is given of a body with summaries that the opener can open.
func opened(t *testing.T, body string, open func(string) ([]byte, error)) (string, *apierror.Error) {
	t.Helper()
	r, apiErr := Decode([]byte(body))
	if apiErr == nil {
		apiErr = r.OpenSummaries(open)
	}
	if apiErr != nil {
		return "", apiErr
	}
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	lines, text := []string{}, *p.Thread.BaseInstructions+p.Thread.DeveloperInstructions
	if strings.Contains(text, "rule") {
		lines = append(lines, "rule")
	}
	if !strings.Contains(text, "Be brief.") {
		t.Errorf("the instructions are %q", text)
	}
	for _, item := range p.History {
		lines = append(lines, string(item))
	}
	for _, in := range p.Turn.Input {
		lines = append(lines, "> "+in.Text)
	}
	return strings.Join(lines, "\n"), nil
}

// TestSummaryBlock: no message before a summary counts. A sealed one has the instructions of the conversation.
func TestSummaryBlock(t *testing.T) {
	item := func(text string) string { return string(prompt.NewSummary(text).Item) }
	open := func(sealed string) ([]byte, error) {
		if sealed != "codex-sealed-1.ours" {
			return nil, seal.ErrUnreadable
		}
		return []byte(`{"messages":[{"role":"system","text":"rule"},{"role":"summary","text":"sealed"}]}`), nil
	}
	const before = `{"role":"user","content":"q"},{"role":"system","content":"rule"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"codex-1.a.b"},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]},`
	const after = `{"role":"user","content":"next"}`
	const rule = "rule\n" // instructions at the beginning are those of the thread
	block := func(members string) string {
		return `{"role":"assistant","content":[{"type":"compaction",` + members + `},{"type":"text","text":"a"}]},`
	}
	answer := "\n" + assistant + `"a"}]}` + "\n> next"
	for name, c := range map[string]struct{ messages, want, param string }{
		"ours":           {before + block(`"content":"plain","encrypted_content":"codex-sealed-1.ours"`) + after, rule + item("sealed") + answer, ""},
		"first":          {block(`"content":"plain","encrypted_content":"codex-sealed-1.ours","signature":null,"tool_changes":[]`) + after, rule + item("sealed") + answer, ""},
		"a foreign one":  {before + block(`"content":"plain","encrypted_content":"EqoB","signature":"x"`) + after, item("plain") + answer, ""},
		"a plain one":    {before + block(`"content":"plain","encrypted_content":null`) + after, item("plain") + answer, ""},
		"the newest":     {before + block(`"content":"old","encrypted_content":"codex-sealed-1.gone"`) + after + "," + block(`"content":"plain"`) + after, item("plain") + answer, ""},
		"in between":     {block(`"content":"plain"`) + after + "," + block(`"content":"plain","encrypted_content":"codex-sealed-1.ours"`) + after, rule + item("sealed") + answer, ""},
		"a failed one":   {`{"role":"user","content":"q"},` + block(`"content":null,"encrypted_content":null`) + after, user + `[{"type":"input_text","text":"q"}]}` + answer, ""},
		"without":        {`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"compaction"}]},` + after, user + `[{"type":"input_text","text":"q"}]}` + "\n> next", ""},
		"the last":       {before + strings.TrimSuffix(block(`"content":"plain"`), ","), item("plain") + strings.TrimSuffix(answer, "\n> next"), ""},
		"a changed one":  {before + block(`"content":"plain","encrypted_content":"codex-sealed-1.changed"`) + after, "", "messages[4].content[0].encrypted_content"},
		"an empty one":   {before + block(`"content":""`) + after, "", "messages[4].content[0].content"},
		"a number":       {before + block(`"content":7`) + after, "", "messages[4].content[0].content"},
		"sealed number":  {before + block(`"content":"p","encrypted_content":7`) + after, "", "messages[4].content[0].encrypted_content"},
		"a lost call":    {before + block(`"content":"p"`) + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}`, "", "messages[5].content[0].tool_use_id"},
		"an open call":   {strings.TrimSuffix(before, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]},`) + block(`"content":"plain"`) + after, item("plain") + answer, ""},
		"from the user":  {`{"role":"user","content":[{"type":"compaction","content":"p"}]}`, "", "messages[0].content[0].type"},
		"after a search": {before + `{"role":"assistant","content":[{"type":"text","text":"gone"},{"type":"compaction","content":"plain"},{"type":"text","text":"a"}]},` + after, item("plain") + answer, ""},
	} {
		got, apiErr := opened(t, ask(c.messages, `"system":"Be brief."`), open)
		switch {
		case apiErr != nil && (c.param == "" || apiErr.Param != c.param || apiErr.Status != 400):
			t.Errorf("%s: %+v", name, apiErr)
		case apiErr == nil && got != c.want:
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestSummaryCount: a count knows the text of a sealed summary, not what is before it.
func TestSummaryCount(t *testing.T) {
	long := strings.Repeat("word ", 4000)
	r, apiErr := Decode([]byte(ask(`{"role":"user","content":"`+long+`"},{"role":"assistant","content":[{"type":"compaction","content":"two words","encrypted_content":"codex-sealed-1.`+strings.Repeat("x", 4000)+`"}]},{"role":"user","content":"q"}`, "")))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if n := r.EstimateTokens(prompt.SampleBytes); n > 20 {
		t.Errorf("%d tokens", n)
	}
}

// TestShortening: what a request says of a summary.
func TestShortening(t *testing.T) {
	for more, want := range map[string]prompt.Shortening{
		``:                                  {},
		`"compaction":null`:                 {},
		`"compaction":{"type":"summarize"}`: {Summary: true},
		`"compaction":{"type":"summarize","instructions":" \n"}`:                                 {Summary: true},
		`"compaction":{"type":"summarize","instructions":"Be brief."},"context_management":null`: {Summary: true, Instructions: "Be brief."},
		`"context_management":{"edits":[{"type":"compact_20260112"}]}`:                           {Above: 150_000},
		`"context_management":{"edits":[{"type":"compact_20260112","trigger":{"type":"input_tokens","value":50000},"instructions":"Be brief.","pause_after_compaction":true},` + clearEdit + `}]}`: {Above: 50_000, Pause: true, Instructions: "Be brief."},
		`"context_management":{"edits":[` + clearEdit + `},{"type":"compact_20260112","trigger":null,"instructions":null,"pause_after_compaction":null,"trigger":null,"instructions":null}]}`:      {Above: 150_000},
	} {
		r, apiErr := Decode([]byte(ask(`{"role":"user","content":"q"}`, more)))
		if apiErr != nil || r.Shortening != want || len(r.Ignored) > 0 {
			t.Errorf("%s: %+v %v", more, r.Shortening, apiErr)
		}
	}
	for more, param := range map[string]string{
		`"compaction":7`:            "compaction",
		`"compaction":{}`:           "compaction.type",
		`"compaction":{"type":"x"}`: "compaction.type",
		`"compaction":{"type":"summarize","instructions":7}`:                                                           "compaction.instructions",
		`"compaction":{"type":"summarize"},"context_management":{}`:                                                    "compaction",
		`"context_management":{},"compaction":{"type":"summarize"}`:                                                    "compaction",
		`"context_management":{"edits":[{"type":"compact_20260112","trigger":{"type":"tool_uses","value":60000}}]}`:    "context_management.edits[0].trigger",
		`"context_management":{"edits":[{"type":"compact_20260112","trigger":{"type":"input_tokens","value":49999}}]}`: "context_management.edits[0].trigger",
		`"context_management":{"edits":[{"type":"compact_20260112","pause_after_compaction":1}]}`:                      "context_management.edits[0].pause_after_compaction",
		`"context_management":{"edits":[{"type":"compact_20260112","instructions":[]}]}`:                               "context_management.edits[0].instructions",
	} {
		_, apiErr := Decode([]byte(ask(`{"role":"user","content":"q"}`, more)))
		if apiErr == nil || apiErr.Status != 400 || apiErr.Param != param {
			t.Errorf("%s: %+v", more, apiErr)
		}
	}
}

// TestDescribedAgain: after a summary the model no longer has the description of a deferred tool, so the next reference has it.
func TestDescribedAgain(t *testing.T) {
	reference := func(id string) string {
		return strings.Replace(used(id, "f", `{}`, "R"), `"R"`, `[{"type":"tool_reference","tool_name":"Web"}]`, 1)
	}
	body := ask(`{"role":"user","content":"q"},`+reference("a")+`,`+reference("b")+`,{"role":"assistant","content":[{"type":"compaction","content":"S"}]},`+reference("c")+`,`+reference("d"),
		`"tools":[{"name":"f","input_schema":{}},{"name":"Web","description":"Reads.","input_schema":{},"defer_loading":true}]`)
	r, apiErr := Decode([]byte(body))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	all, _ := json.Marshal(r.Messages)
	if n := strings.Count(given(t, body), "Reads."); n != 1 {
		t.Errorf("%d descriptions in %s", n, all)
	}
}
