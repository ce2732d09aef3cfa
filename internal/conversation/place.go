package conversation

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// catalogueKey is the name of the setting for a thread's catalogue: the path of a file with the
// properties of models.
const catalogueKey = "model_catalog_json"

// Place is the process that a thread runs on, and how the thread is set up there.
type Place struct {
	Process      *appserver.Process
	Conn         *codexrpc.Conn
	Acceptance   *appserver.Acceptance // of Conn
	Model        string                // Codex's name of it
	Instructions prompt.Placement
	Serial       bool // a lite model keeps the lite form, in which it calls one tool at a time
	OverHTTP     bool // Codex asks the model's provider over HTTP only
}

// outdated reports whether the process has started a newer app-server than the one of at.Conn. New
// turns run on the newer one.
func (at *Place) outdated() bool {
	serving := at.Process.Serving()
	return serving != nil && serving != at.Conn
}

// settings are the parameters of a thread and the place where it is started.
type settings struct {
	at        Place
	params    codexrpc.ThreadStartParams
	provider  codexrpc.Constant // the settings that choose the model's provider
	catalogue string            // the file with the properties of the model; empty: none
	kind      string            // the name of the spares with the same settings; empty: there are none
	encoded   codexrpc.Constant // params as JSON; empty: they are to be encoded
}

// settings returns the settings for the thread of a plan. The thread runs in the process's
// directory. If there is a catalogue (a file with the model's properties), the thread gets it.
func (at Place) settings(plan *prompt.Plan) *settings {
	params, _ := plan.Placed(at.Instructions)
	params.Model, params.Cwd = at.Model, at.Process.Dir()
	params.Config.Place = at.provider()
	s := &settings{at: at, params: params, provider: params.Config.Place}
	if catalogue := at.catalogueFor(plan); catalogue != "" {
		s.useCatalogue(catalogue)
	}
	return s
}

// provider returns the settings that choose the model's provider.
func (at Place) provider() codexrpc.Constant {
	if at.OverHTTP {
		return at.Process.HTTPSettings()
	}
	return at.Process.ProviderSettings()
}

// useCatalogue sets the path of the thread's catalogue.
func (s *settings) useCatalogue(path string) {
	to := append(make([]byte, 0, 512), s.provider...) // with room for the path, which is added below
	if len(to) > 0 {
		to = append(to, ',')
	}
	s.params.Config.Place = codexrpc.Constant(wirejson.AppendString(append(to, `"`+catalogueKey+`":`...), path))
	s.catalogue, s.encoded = path, ""
}

// start starts a thread. Codex reads the thread's catalogue at the start. If Codex refuses the
// model's catalogue, start tries again with the catalogue for unknown models, because without any
// catalogue Codex would offer its own tools to the model.
func (s *settings) start(ctx context.Context, logger *slog.Logger) (*codexrpc.Thread, error) {
	thread, err := s.at.Conn.StartThread(ctx, s.params)
	refused, ok := errors.AsType[*codexrpc.CallError](err)
	if !ok || !strings.Contains(refused.Message, "failed to load configuration") {
		return thread, err
	}
	fallback := s.at.Process.FallbackCatalogue()
	if fallback == "" || s.catalogue == fallback {
		return nil, err
	}
	logger.Warn("codex does not take its own properties of the model, which is used without them", "model", s.at.Model, "error", err)
	s.useCatalogue(fallback)
	return s.at.Conn.StartThread(ctx, s.params)
}

// parallel reports whether the thread of a plan uses a lite model (see [appserver.Model]) in the
// full form, so that the model can call several tools at a time.
func (at Place) parallel(plan *prompt.Plan) bool {
	return !at.Serial && !plan.SerialTools && len(plan.Thread.DynamicTools) > 0 && at.Process.Model(at.Model).Full != ""
}

// full reports whether the thread of a plan should use a lite model in the full form. It should for
// parallel tool calls, and for web search: in the full form the provider itself searches, with
// citations, while in the lite form Codex offers its own search tool.
func (at Place) full(plan *prompt.Plan) bool { return plan.WebSearch || at.parallel(plan) }

// catalogueFor returns the path of the catalogue for a plan's model, or "" if there is none.
// Without a catalogue (a file with the properties of models), Codex would read the properties from
// the back end of its login, and offer its own tools to the model. For an unknown model, the path
// is also empty if the instructions are appended to the model's prompt, since only Codex has that
// prompt.
func (at Place) catalogueFor(plan *prompt.Plan) string {
	own := at.Process.Model(at.Model)
	switch {
	case own.Full != "" && at.full(plan):
		return own.Full
	case own.Catalogue != "" || at.Instructions.Append:
		return own.Catalogue
	}
	return at.Process.FallbackCatalogue()
}
