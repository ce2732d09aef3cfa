package chat

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestAnnotations encodes citations, streamed and whole.
func TestAnnotations(t *testing.T) {
	outs := []turn.Output{
		textOut("x\n\ncited"),
		{Kind: turn.OutputAnnotations, Part: 3, Text: `[{"type":"url_citation","url":"https://a.example/","title":"A","start_index":0,"end_index":5},{"type":"file_citation"}]`},
		{Kind: turn.OutputAnnotations, Text: `[{"type":"file_citation"}]`},
		finishOut(turn.FinishStop),
	}
	const want = `"annotations":[{"type":"url_citation","url_citation":{"end_index":8,"start_index":3,"url":"https://a.example/","title":"A"}}]`
	if got := strings.Join(chunks(t, testMeta, outs), "\n"); !strings.Contains(got, `"delta":{`+want+`}`) || strings.Count(got, "annotations") != 1 {
		t.Errorf("%s", got)
	}
	if body := string(bodyOf(t, outs).JSON()); !strings.Contains(body, want) {
		t.Errorf("%s", body)
	}
}

// TestSearchOptions reads web_search_options, and ignores them if they are not allowed.
func TestSearchOptions(t *testing.T) {
	r := mustDecode(t, withFields(`"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"city":"Bonn"}}}`))
	p, _ := r.Plan(prompt.Options{})
	search, _ := p.Thread.Config.Own["tools"].(map[string]any)["web_search"].(map[string]any)
	if !p.WebSearch || p.Thread.Config.Own["web_search"] != "live" || search["location"].(map[string]string)["city"] != "Bonn" {
		t.Errorf("%v", p.Thread.Config)
	}
	if err := r.WithoutSearch(); err != nil || r.Ignored[0] != "web_search_options" {
		t.Errorf("%v %v", err, r.Ignored)
	}
	if p, _ := r.Plan(prompt.Options{}); p.WebSearch || p.Thread.Config.Own["web_search"] != "disabled" {
		t.Errorf("%v", p.Thread.Config)
	}
	if _, err := Decode([]byte(withFields(`"web_search_options":{"user_location":{"approximate":{"city":1}}}`))); err == nil || err.Param != "web_search_options.user_location.approximate.city" {
		t.Errorf("%v", err)
	}
}
