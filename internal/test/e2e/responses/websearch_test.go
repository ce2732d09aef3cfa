package responses

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// cited is as long as answers with citations often are: 9,000 characters.
var cited = strings.Repeat("Caddy ist ein Server für alle.", 300)

// searchingModel makes the model search, if it may, and cite a page after an uncited message.
func searchingModel(s *e2e.Site) {
	s.T.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		searches := slices.ContainsFunc(r.Tools, func(t scriptedmodel.Tool) bool { return t.Type == "web_search" })
		return scriptedmodel.Script{Output: []scriptedmodel.Output{
			scriptedmodel.Say("Ich prüfe."), scriptedmodel.Search("caddy server"),
			scriptedmodel.Cite{Text: cited, URL: "https://caddyserver.com/", Title: "Caddy"},
		}}, searches
	}))
}

// TestWebSearch lets the model search the web, in the Responses API.
func TestWebSearch(t *testing.T) {
	s := e2e.NewSite(t, "web_search on")
	searchingModel(s)
	tool := e2e.Fields{
		"type": "web_search", "search_context_size": "low", "filters": e2e.Fields{"allowed_domains": []string{"caddyserver.com"}},
		"user_location": e2e.Fields{"type": "approximate", "country": "DE"},
	}
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		r := s.Respond(e2e.Asks("q", e2e.Fields{"tools": []any{tool, e2e.FunctionTool("f")}, "stream": stream}), nil)
		if r.Types() != "message web_search_call message" || r.Output[1].Status != "completed" {
			t.Fatalf("%+v", r)
		}
		_, raw := about(s, http.MethodGet, r.ID, nil)
		for _, want := range []string{
			`"type":"web_search_call","status":"completed","action":{"type":"search","query":"caddy server"}`,
			`"text":"` + cited + `","annotations":[{"type":"url_citation","url":"https://caddyserver.com/","title":"Caddy","start_index":0,"end_index":9000}]`,
			`"text":"Ich prüfe.","annotations":[]`,
		} {
			if !strings.Contains(raw, want) {
				t.Errorf("%s lacks %s", raw, want)
			}
		}
		if stream {
			events := strings.Join(r.EventTypes(), " ")
			for _, want := range []string{
				"web_search_call.in_progress web_search_call.searching web_search_call.completed output_item.done output_item.added content_part.added",
				"output_text.annotation.added output_text.done content_part.done output_item.done completed",
			} {
				if !strings.Contains(events, want) {
					t.Errorf("%s lacks %s", events, want)
				}
			}
		}
		request, _ := s.Model.Last()
		if tools := string(request.Body); !strings.Contains(tools, `"search_context_size":"low"`) || !strings.Contains(tools, `"caddyserver.com"`) || !strings.Contains(tools, `"DE"`) {
			t.Errorf("the model was offered %s", tools)
		}
		// The next request gives the search back to the model, under the provider's id.
		next := s.Respond(e2e.Asks("say:Fine.", e2e.Fields{"previous_response_id": r.ID, "stream": stream}), nil)
		request, _ = s.Model.Last()
		at := slices.IndexFunc(request.Input, func(i scriptedmodel.Item) bool { return i.Type == "web_search_call" })
		if next.Text() != "Fine." || at < 0 || !strings.HasPrefix(request.Input[at].ID, "ws_") || strings.HasPrefix(request.Input[at].ID, "ws_"+strings.TrimPrefix(r.ID, "resp_")) {
			t.Errorf("%q, the model was given %+v", next.Text(), request.Input)
		}
		// It may be the only tool, beside one call at a time.
		if r := s.Respond(e2e.Asks("q", e2e.Fields{"tools": []any{tool}, "parallel_tool_calls": false, "stream": stream}), nil); r.Types() != "message web_search_call message" {
			t.Errorf("%+v", r)
		}
		// No other request may search.
		for _, choice := range []e2e.Fields{{}, {"tools": []any{tool}, "tool_choice": "none"}} {
			choice["stream"] = stream
			if r := s.Respond(e2e.Asks("say:No.", choice), nil); r.Types() != "message" || r.Text() != "No." {
				t.Errorf("%v: %+v", choice, r)
			}
		}
	})
}

// TestWebSearchInChat lets the model search the web, in chat completions.
func TestWebSearchInChat(t *testing.T) {
	s := e2e.NewSite(t, "web_search on")
	searchingModel(s)
	params := e2e.UserSays("q")
	params.WebSearchOptions = openai.ChatCompletionNewParamsWebSearchOptions{SearchContextSize: "high"}
	completion, err := s.NewCompletion(params)
	must.OK(t, err)
	text, citations := completion.Choices[0].Message.Content, completion.Choices[0].Message.Annotations
	if text != "Ich prüfe.\n\n"+cited || len(citations) != 1 {
		t.Fatalf("%q %+v", text, citations)
	}
	c := citations[0].URLCitation
	if got := string([]rune(text)[c.StartIndex:c.EndIndex]); got != cited || c.URL != "https://caddyserver.com/" || c.Title != "Caddy" {
		t.Errorf("cited %q, %+v", got, c)
	}
}

// TestWebSearchOff: unless allowed, a request with a search is refused, or its options are ignored.
func TestWebSearchOff(t *testing.T) {
	s := e2e.NewSite(t, "")
	searchingModel(s)
	_, refused := s.RefuseResponse(e2e.Asks("q", e2e.Fields{"tools": []any{e2e.Fields{"type": "web_search_preview"}}}), nil)
	if *refused.Error.Param != "tools[0].type" || !strings.Contains(*refused.Error.Message, "web_search") {
		t.Errorf("%+v", refused)
	}
	answer, text := s.Post(`{"model":"gpt-5","web_search_options":{},"messages":[{"role":"user","content":"say:No."}]}`, nil)
	if answer.Header.Get("X-Codex-Ignored-Params") != "web_search_options" || !strings.Contains(text, `"No."`) {
		t.Errorf("%v %s", answer.Header, text)
	}
}
