package chat

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// newModels are models that the back end of a login lists and that Codex does not know: like
// most of today's, and one of another form. Codex would offer them its own tools.
var newModels = map[string]string{"gpt-7": "gpt-6-sol", "gpt-7-full": "gpt-5.5"}

// newSiteOfModels starts a site whose back end lists newModels as well. The first is the default.
func newSiteOfModels(t *testing.T) *e2e.Site {
	t.Helper()
	s := e2e.NewUnstarted(t)
	for slug, like := range newModels {
		if err := s.Plan.AddModel(slug, like, map[string]any{
			"priority": len(slug) - len("gpt-7"), "tool_mode": "code_mode_only", "apply_patch_tool_type": "freeform", "context_window": 1_000_000,
			"experimental_supported_tools": []string{"clock"}, "multi_agent_version": "v2", "supports_search_tool": true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.Serve("")
	s.WaitReady()
	return s
}

// TestEveryModel checks for each model that it gets the client's tool and no other, that it
// may call several at a time, and that the client gets its call.
func TestEveryModel(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBothSampled(t, func(t *testing.T, all bool) {
		s := newSiteOfModels(t)
		var models []string
		e2e.WaitFor(t, "the list of the back end", func() bool {
			models = s.Models()
			for slug := range newModels {
				if !slices.Contains(models, slug) {
					return false
				}
			}
			return true
		})
		for _, model := range models {
			if model == "default" {
				continue
			}
			t.Run(model, func(t *testing.T) {
				bothWays(t, s.At(t), func(t *testing.T, ask func(openai.ChatCompletionNewParams) (e2e.Answer, error)) {
					s.At(t).CheckModel(model, ask)
				})
				request, _ := s.Model.Last()
				if parallel := request.ParallelToolCalls; parallel == nil || !*parallel {
					t.Errorf("the request says parallel_tool_calls %v", parallel)
				}
				length := 12_000
				if all {
					length = 1_200_000 // longer than Codex would leave it
				}
				checkNoTools(t, s.At(t), model, length)
			})
		}
	})
}

// TestSerialCalls: parallel_tool_calls: false reaches models of each kind, also in the middle of a
// conversation: as an instruction, and for lite models also as the field. true is not told.
func TestSerialCalls(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := newSiteOfModels(t)
		e2e.WaitFor(t, "the list of the back end", func() bool { return slices.Contains(s.Models(), "gpt-7") })
		for model, lite := range map[string]bool{"gpt-6-sol": true, "gpt-7": true, "gpt-5.5": false, "gpt-7-full": false, "no-list-has-it": false} {
			messages := []any{e2e.Fields{"role": "user", "content": "say:ok"}}
			for _, parallel := range []bool{false, true, false} {
				response, text := s.Post(e2e.EncodeJSON(e2e.Fields{
					"model": model, "messages": messages, "tools": []any{e2e.Tool("localSearch")}, "parallel_tool_calls": parallel,
				}), nil)
				request, _ := s.Model.Last()
				if response.StatusCode != http.StatusOK || request.Transport != e2e.Transport || request.ParallelToolCalls == nil {
					t.Fatalf("%s over %s: %s %s", model, request.Transport, response.Status, text)
				}
				told := strings.Contains(strings.Join(e2e.Describe(request), " "), "at most one tool call")
				if told == parallel || *request.ParallelToolCalls != (parallel || !lite) {
					t.Errorf("%s, %t: the request says %t, the instructions %t", model, parallel, *request.ParallelToolCalls, told)
				}
				messages = append(messages, e2e.Fields{"role": "assistant", "content": "ok"}, e2e.Fields{"role": "user", "content": "say:ok"})
			}
		}
		// The operator may ask for the same.
		s.Load(s.Caddyfile("parallel_tool_calls off"))
		s.WaitReady()
		s.Post(e2e.ChatBody("say:ok", e2e.Fields{"tools": []any{e2e.Tool("localSearch")}}), nil)
		if request, _ := s.Model.Last(); !strings.Contains(strings.Join(e2e.Describe(request), " "), "at most one tool call") {
			t.Errorf("the option does not reach the model: %s", request.Body)
		}
	})
}

// checkNoTools: a model gets no tools without, and all of a history of some length.
func checkNoTools(t *testing.T, s *e2e.Site, model string, length int) {
	t.Helper()
	long := strings.Repeat("words of a long history ", length/24)
	body := e2e.EncodeJSON(e2e.Fields{"model": model, "messages": []any{
		e2e.Fields{"role": "user", "content": long}, e2e.Fields{"role": "assistant", "content": "yes"}, e2e.Fields{"role": "user", "content": "say:ok"},
	}})
	before := s.Model.Stats().Requests
	response, text := s.Post(body, nil)
	if response.StatusCode != http.StatusOK || !strings.Contains(text, `"content":"ok"`) {
		t.Fatalf("%s %.300s", response.Status, text)
	}
	request, _ := s.Model.Last()
	if n := s.Model.Stats().Requests - before; n != 1 || !strings.Contains(string(request.Body), long) {
		t.Errorf("the history was not passed on: %d requests, the last of %d bytes", n, len(request.Body))
	}
	if offered := e2e.EveryTool(request); len(offered) > 0 {
		t.Errorf("the model is offered %q", offered)
	}
}

// TestNewModelUnseen checks that a model which only the back end lists gets no tools of Codex's
// before its list has come, and that the default does not wait for it.
func TestNewModelUnseen(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	must.OK(t, s.Plan.AddModel("gpt-7", "gpt-6-sol", map[string]any{"priority": 0}))
	s.Plan.Fail(planbackend.Models, planbackend.Silent())
	s.Serve("")
	s.WaitReady()
	for _, model := range []string{"gpt-7", "default"} {
		begin := time.Now()
		response, text := s.Post(e2e.EncodeJSON(e2e.Fields{
			"model": model, "messages": []any{e2e.Fields{"role": "user", "content": "say:ok"}}, "tools": []any{e2e.Tool("localSearch")},
		}), nil)
		if response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, text)
		}
		request, _ := s.Model.Last()
		if offered := e2e.EveryTool(request); !slices.Equal(offered, []string{"localSearch"}) {
			t.Errorf("%s is offered %q", model, offered)
		}
		t.Logf("%s answered after %s", request.Model, time.Since(begin))
	}
}

// TestSerialModels checks that a model whose provider refuses requests for several calls at a
// time is asked in the form that it takes, unnoticed by the client and from then on at once,
// that a request which is wrong itself is refused, and that a refused prompt is not tried again.
func TestSerialModels(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := newCountedSite(t, "")
		s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			if strings.Contains(string(r.Body), "flagged") {
				return scriptedmodel.Script{End: scriptedmodel.Failed{Code: "invalid_prompt", Message: "Invalid prompt: your prompt was flagged as potentially violating our usage policy."}}, true
			}
			refused := r.ParallelToolCalls != nil && *r.ParallelToolCalls && r.Model == "gpt-6-sol" || strings.Contains(string(r.Body), "wrong")
			return scriptedmodel.Script{End: scriptedmodel.HTTPError{Status: http.StatusBadRequest, Message: "Unsupported form."}}, refused
		})
		ask := func(model, prompt string) (int, string) {
			response, text := s.Post(e2e.EncodeJSON(e2e.Fields{
				"model": model, "messages": []any{e2e.Fields{"role": "user", "content": prompt}}, "tools": []any{e2e.Tool("localSearch")},
			}), nil)
			return response.StatusCode, text
		}
		for _, step := range []struct {
			model, prompt    string
			status, requests int
		}{
			{"gpt-6-sol", "flagged", http.StatusBadRequest, 1},
			{"gpt-6-sol", "wrong", http.StatusBadRequest, 2},
			{"gpt-6-sol", "say:ok", http.StatusOK, 2},
			{"gpt-6-sol", "say:ok", http.StatusOK, 1},
			{"gpt-6-astra", "say:ok", http.StatusOK, 1},
			{"gpt-6-astra", "wrong", http.StatusBadRequest, 1},
		} {
			status, text := ask(step.model, step.prompt)
			if n := s.requests(); status != step.status || n != step.requests {
				t.Errorf("%+v: %d after %d requests: %s", step, status, n, text)
			}
		}
		if got := s.admin.Status().AppServers[0].SerialModels; !slices.Equal(got, []string{"gpt-6-sol"}) {
			t.Errorf("the status names %q", got)
		}
		log, err := os.ReadFile(s.log)
		if n := strings.Count(string(log), "it calls one at a time"); err != nil || n != 1 {
			t.Errorf("the log says so %d times, %v: %s", n, err, log)
		}
	})
}

// TestDefaultModel checks that `default` is the model of Codex's configuration, or else
// the default of Codex's list, that it is listed, and that an alias of the name goes first.
func TestDefaultModel(t *testing.T) {
	s := e2e.NewUnstarted(t)
	config := filepath.Join(s.Home, "config.toml")
	provider := strings.Replace(e2e.ReadFile(t, config), "model = \"gpt-5\"\n", "", 1)
	e2e.WriteFile(t, config, provider)
	s.Serve("")
	s.WaitReady()
	ask := func(want string) {
		t.Helper()
		response, text := s.Post(strings.Replace(e2e.ChatBody("say:Hello", nil), "gpt-5", "default", 1), nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(text, `"model":"default"`) {
			t.Fatal(response.StatusCode, text)
		}
		if request, _ := s.Model.Last(); request.Model != want {
			t.Errorf("%q was asked, want %q", request.Model, want)
		}
	}
	first := defaultModel(t, s)
	ask(first)
	listed := s.Models()
	if listed[len(listed)-1] != "default" {
		t.Errorf("it is not listed: %q", listed)
	}
	if status, text := s.Get("/v1/models/default"); status != http.StatusOK {
		t.Error(status, text)
	}
	s.Load(s.Caddyfile("model default gpt-5.5 low\nmodel fast default low"))
	s.WaitReady()
	ask("gpt-5.5")
	response, text := s.Post(strings.Replace(e2e.ChatBody("say:Hello", nil), "gpt-5", "fast", 1), nil)
	if request, _ := s.Model.Last(); response.StatusCode != http.StatusOK || request.Model != first {
		t.Errorf("an alias of it: %d %s; %q was asked", response.StatusCode, text, request.Model)
	}
	e2e.WriteFile(t, config, "model = \"gpt-5\"\n"+provider)
	s.Load(s.Caddyfile("app_server {\ncommand " + e2e.CodexBinary + " app-server\nhome " + s.Home + "\nenv A B\n}")) // another process
	s.WaitSuccessor(1)
	ask("gpt-5")
}

// defaultModel returns the default of Codex's list: the first one, or with a login the one
// to which the back end gives the first place.
func defaultModel(t *testing.T, s *e2e.Site) (slug string) {
	t.Helper()
	if s.Plan == nil {
		return s.Models()[0]
	}
	entries, err := s.Plan.Models()
	must.OK(t, err)
	first := gjson.Result{}
	for _, entry := range entries {
		if e := gjson.ParseBytes(entry); e.Get("visibility").Str == "list" && (!first.Exists() || e.Get("priority").Int() < first.Get("priority").Int()) {
			first = e
		}
	}
	return first.Get("slug").Str
}

// TestUnknownModelNamesOthers checks that names of models reach the provider unchanged, and that the
// error of a model that does not exist names the others.
func TestUnknownModelNamesOthers(t *testing.T) {
	s := e2e.NewSite(t, "model fast gpt-5 low")
	var want string
	e2e.WaitFor(t, "the list of the back end", func() bool { // until then, it is Codex's own, in another order
		models, end := s.Models(), "."
		if len(models) > 12 { // some releases of Codex list more than an error names
			models, end = models[:12], " and others."
		}
		want = "The models here are: " + strings.Join(models, ", ") + end
		_, text := s.Get("/v1/models/no-such")
		return strings.Contains(text, want)
	})
	for _, stream := range []string{"", `"stream":true,`} {
		body := strings.Replace(e2e.ChatBody("http:404", nil), `"model":"gpt-5"`, stream+`"model":"no-such/model"`, 1)
		began := time.Now()
		if response, text := s.Post(body, nil); response.StatusCode != http.StatusNotFound && !e2e.IsLate(response, began) || !strings.Contains(text, want) || !strings.Contains(text, `"code":"model_not_found"`) {
			t.Errorf("%d %s; want %q", response.StatusCode, text, want)
		}
		if request, _ := s.Model.Last(); request.Model != "no-such/model" {
			t.Errorf("the model was asked as %q", request.Model)
		}
	}
	if status, text := s.Get("/v1/models/no-such"); status != http.StatusNotFound || !strings.Contains(text, want) {
		t.Errorf("%d %s; want %q", status, text, want)
	}
}

// TestCatalogueGone checks that turns do not fail when the catalogue file is gone.
func TestCatalogueGone(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := e2e.NewSite(t, "")
	files, err := filepath.Glob(filepath.Join(temp, "*", "home-*", "model-*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the catalogues are %q (%v)", files, err)
	}
	each := func(spoil func(path string) error) func() error {
		return func() (err error) {
			for _, path := range files {
				err = errors.Join(err, spoil(path))
			}
			return err
		}
	}
	for name, spoil := range map[string]func() error{
		"broken": each(func(path string) error { return os.WriteFile(path, []byte(`{"models":[`), 0o600) }),
		"gone":   each(os.RemoveAll),
	} {
		t.Run(name, func(t *testing.T) {
			must.OK(t, spoil())
			response, body := s.At(t).Post(e2e.ChatBody("say:It works.", map[string]any{"model": "gpt-6-sol"}), nil)
			if response.StatusCode != 200 || !strings.Contains(body, "It works.") {
				t.Error(response.Status, body)
			}
		})
	}
}
