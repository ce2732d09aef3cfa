package responses

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestWebSearchItems compares streams and bodies with searches and citations, which have
// OpenAI's form.
func TestWebSearchItems(t *testing.T) {
	meta := metaOf(t, withMember(`"tools":[{"type":"web_search"},{"type":"function","name":"f"}]`))
	citation := `[{"type":"url_citation","url":"https://a.example/","title":"A","start_index":0,"end_index":1},{"type":"url_citation","url":"https://b.example/","title":"B","start_index":1,"end_index":2}]`
	for _, action := range []string{
		`{"type":"search","query":"q","queries":["q"]}`, `{"type":"open_page","url":"https://a.example/"}`,
		`{"type":"find_in_page","url":"https://a.example/","pattern":"p"}`, `{"type":"other"}`, "", "{",
	} {
		outs := []turn.Output{
			{Kind: turn.OutputSearchStart, ID: "ws_1"}, {Kind: turn.OutputSearchEnd, ID: "ws_1", Text: action},
			{Kind: turn.OutputSearchEnd, ID: "ws_2", Text: action},
			{Kind: turn.OutputText, Text: "ab"}, {Kind: turn.OutputAnnotations, ID: "m", Text: citation},
			messageGapOut, {Kind: turn.OutputAnnotations, ID: "m", Text: citation}, // of no message
			{Kind: turn.OutputSearchStart, ID: "ws_3"}, {Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}},
		}
		checkResponseFold(t, meta, outs)
		body := string(bodyOfResponse(meta, outs).JSON())
		if strings.Count(body, `"type":"web_search_call"`) != 3 || !strings.Contains(body, `"annotations":`+citation) || strings.Contains(body, `"other"`) {
			t.Errorf("%s: %s", action, body)
		}
	}
}

func TestWebSearchRead(t *testing.T) {
	r := responseOf(t, withMember(`"tools":[{"type":"web_search","search_context_size":"high","external_web_access":false,"filters":{"allowed_domains":["a.example"]},"user_location":{"type":"approximate","city":"Bonn","country":null}}]`))
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil || !p.WebSearch || p.Thread.Config.Own["web_search"] != "cached" {
		t.Errorf("%v %v", p, apiErr)
	}
	search := p.Thread.Config.Own["tools"].(map[string]any)["web_search"].(map[string]any)
	if search["context_size"] != "high" || search["location"].(map[string]string)["city"] != "Bonn" || len(search["location"].(map[string]string)) != 1 || search["allowed_domains"].([]string)[0] != "a.example" {
		t.Errorf("%v", search)
	}
	const function = `"tools":[{"type":"function","name":"f"},{"type":"web_search"}],"tool_choice":`
	for _, choice := range []string{`"none"`, `{"type":"function","name":"f"}`} {
		if p, _ := responseOf(t, withMember(function+choice)).Plan(prompt.Options{}); p.WebSearch || p.Thread.Config.Own["web_search"] != "disabled" {
			t.Errorf("%s: the model may search", choice)
		}
	}
	p, apiErr = responseOf(t, withMember(function+`{"type":"web_search"}`)).Plan(prompt.Options{})
	if apiErr != nil || !p.WebSearch || p.Thread.DynamicTools != nil || !strings.Contains(p.Thread.DeveloperInstructions, "must search the web") {
		t.Errorf("the model may not search, or call the function: %+v %v", p, apiErr)
	}
	if p, apiErr := responseOf(t, withMember(`"tools":[{"type":"web_search"}],"tool_choice":"required"`)).Plan(prompt.Options{}); apiErr != nil || !p.WebSearch {
		t.Errorf("the model may not search: %v", apiErr)
	}
	for tool, want := range map[string]struct {
		param string
		code  apierror.Code
	}{
		`{"type":"web_search"},{"type":"web_search_preview"}`:                                          {"tools[1].type", apierror.CodeInvalidValue},
		`{"type":"web_search","search_context_size":"huge"}`:                                           {"tools[0].search_context_size", apierror.CodeInvalidValue},
		`{"type":"web_search","external_web_access":1}`:                                                {"tools[0].external_web_access", apierror.CodeInvalidType},
		`{"type":"web_search","filters":[]}`:                                                           {"tools[0].filters", apierror.CodeInvalidType},
		`{"type":"web_search","filters":{"allowed_domains":"a"}}`:                                      {"tools[0].filters.allowed_domains", apierror.CodeInvalidType},
		`{"type":"web_search","filters":{"allowed_domains":[""]}}`:                                     {"tools[0].filters.allowed_domains[0]", apierror.CodeInvalidValue},
		`{"type":"web_search","filters":{"allowed_domains":[` + strings.Repeat(`"a",`, 100) + `"a"]}}`: {"tools[0].filters.allowed_domains", apierror.CodeInvalidValue},
		`{"type":"web_search","user_location":1}`:                                                      {"tools[0].user_location", apierror.CodeInvalidType},
		`{"type":"web_search","user_location":{"city":1}}`:                                             {"tools[0].user_location.city", apierror.CodeInvalidType},
	} {
		if _, err := Decode([]byte(withMember(`"tools":[` + tool + `]`))); err == nil || err.Param != want.param || err.Code != want.code {
			t.Errorf("%s: %v", tool, err)
		}
	}
}
