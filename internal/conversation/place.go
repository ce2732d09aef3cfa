package conversation

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// catalogueKey is the setting for a thread's catalogue: a file with the properties of models.
const catalogueKey = "model_catalog_json"

// Place is the process that a thread runs on, and how the thread is set up there.
type Place struct {
	Process      *appserver.Process
	Instance     *appserver.Instance // the app-server of the process
	Conn         *codexrpc.Conn      // of Instance
	Model        string              // Codex's name of the model
	Reserve      bool                // Model is the Luna Reserve, in place of the model of the request
	Instructions prompt.Placement
	Serial       bool // the provider has refused the model's full form, see allowsParallelCalls
	OverHTTP     bool // Codex asks the model's provider over HTTP only, not over a WebSocket
}

// counted returns the model whose meter counts a turn that asks for a model; empty: the default.
func (p *Place) counted(asked string) string {
	if p.Reserve {
		return codexrpc.ReserveModel
	}
	return asked
}

// settings are the parameters of a thread and the place where the thread is started.
type settings struct {
	place     Place
	params    codexrpc.ThreadStartParams
	provider  codexrpc.Constant // the settings that choose the model's provider
	catalogue string            // the file with the properties of the model; empty: none
	kind      *kind             // of the spare threads with these settings; nil: there is none
}

// settings returns the settings for the thread of a plan. The thread runs in the process's
// directory. If there is a catalogue (a file with the model's properties), the thread gets it.
func (p Place) settings(plan *prompt.Plan) *settings {
	params, _ := plan.WithPlacement(p.Instructions)
	params.Model, params.Cwd = p.Model, p.Process.Dir()
	params.Config.Place = p.Instance.ProviderSettings(p.OverHTTP)
	s := &settings{place: p, params: params, provider: params.Config.Place}
	if catalogue := p.catalogueFor(plan); catalogue != "" {
		s.useCatalogue(catalogue)
	}
	return s
}

func (s *settings) useCatalogue(path string) {
	setting := append(make([]byte, 0, 512), s.provider...) // 512 bytes: room for the path
	if len(setting) > 0 {
		setting = append(setting, ',')
	}
	s.params.Config.Place = codexrpc.Constant(wirejson.AppendString(append(setting, `"`+catalogueKey+`":`...), path))
	s.catalogue = path
}

// start starts a thread; Codex reads the catalogue then. If Codex refuses the catalogue, start uses the one
// for unknown models: without a catalogue, Codex would offer its own tools to the model.
func (s *settings) start(ctx context.Context, logger *slog.Logger) (*codexrpc.Thread, error) {
	thread, err := s.place.Conn.StartThread(ctx, s.params)
	refused, ok := errors.AsType[*codexrpc.CallError](err)
	if !ok || !strings.Contains(refused.Message, "failed to load configuration") {
		return thread, err
	}
	fallback := s.place.Instance.FallbackCatalogue()
	if fallback == "" || s.catalogue == fallback {
		return nil, err
	}
	logger.Warn("codex does not take its own properties of the model, which is used without them", "model", s.place.Model, "error", err)
	s.useCatalogue(fallback)
	return s.place.Conn.StartThread(ctx, s.params)
}

// allowsParallelCalls reports whether the model of a plan needs its full form (see
// [appserver.Model]) to call several tools at a time. It is false if the model has no such form, if
// the plan has no tools, or if the tools are to be called one at a time.
func (p Place) allowsParallelCalls(plan *prompt.Plan) bool {
	return !p.Serial && !plan.SerialTools && len(plan.Thread.DynamicTools) > 0 && p.Instance.Model(p.Model).Full != ""
}

// catalogueFor returns the catalogue for a plan's model (a file with the properties of models), or "".
// Without a catalogue, Codex would read the properties from its login's back end, and offer its own tools.
// A model that Codex does not know gets the fallback catalogue, whose prompt is empty, unless the
// instructions have to follow the model's prompt. A lite model is used in the full form for parallel tool
// calls, and for web search: in the full form the provider itself searches and gives citations, in the lite
// form Codex offers its own search tool.
func (p Place) catalogueFor(plan *prompt.Plan) string {
	model := p.Instance.Model(p.Model)
	switch {
	case model.Full != "" && (plan.WebSearch || p.allowsParallelCalls(plan)):
		return model.Full
	case model.Catalogue != "" || p.Instructions.Append:
		return model.Catalogue
	}
	return p.Instance.FallbackCatalogue()
}
