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

// catalogueKey is the setting of a thread that names the file with the models'
// properties.
const catalogueKey = "model_catalog_json"

// Place is where a thread runs, and where its instructions go.
type Place struct {
	Process      *appserver.Process
	Conn         *codexrpc.Conn
	Acceptance   *appserver.Acceptance // of Conn
	Model        string                // Codex's name of it
	Instructions prompt.Placement
	Serial       bool // a lite model keeps the lite form, in which it calls one tool at a time
	OverHTTP     bool // Codex asks the model's provider over HTTP only
}

// outdated reports whether the process has started a later app-server, in which new turns run.
func (at *Place) outdated() bool {
	serving := at.Process.Serving()
	return serving != nil && serving != at.Conn
}

// settings are the parameters of a thread, with the place where it is started.
type settings struct {
	at        Place
	params    codexrpc.ThreadStartParams
	provider  codexrpc.Constant // the settings that choose the model's provider
	catalogue string            // the file with the properties of the model; empty: none
	kind      string            // the name of the spares with the same settings; empty: there are none
	encoded   codexrpc.Constant // params as JSON; empty: they are to be encoded
}

// settings returns what the thread of a plan is started with. The thread runs in the process's
// directory. It gets a catalogue of models if there is one for the model.
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

// useCatalogue sets the file with the properties of the model.
func (s *settings) useCatalogue(path string) {
	to := append(make([]byte, 0, 512), s.provider...) // with room for the path, which is added below
	if len(to) > 0 {
		to = append(to, ',')
	}
	s.params.Config.Place = codexrpc.Constant(wirejson.AppendString(append(to, `"`+catalogueKey+`":`...), path))
	s.catalogue, s.encoded = path, ""
}

// start starts a thread. Codex reads the catalogue for each thread. If Codex does not accept the
// model's catalogue, the thread gets the catalogue for unknown models: without a catalogue Codex
// would offer its own tools.
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

// parallel reports whether a thread of a plan lets a lite model, see [appserver.Model], call
// several tools at a time.
func (at Place) parallel(plan *prompt.Plan) bool {
	return !at.Serial && !plan.SerialTools && len(plan.Thread.DynamicTools) > 0 && at.Process.Model(at.Model).Full != ""
}

// full reports whether a plan's thread uses a lite model in the full form. In that form the
// provider runs web searches itself, with citations. In the lite form Codex offers its own
// search tool instead.
func (at Place) full(plan *prompt.Plan) bool { return plan.WebSearch || at.parallel(plan) }

// catalogueFor returns the path of the file with the properties of a plan's model. Every thread
// gets such a file: without it Codex would read the properties from the back end of its login, and
// offer the model its own tools. The path is empty if there is no file. It is also empty if
// instructions are appended to the prompt of an unknown model, since only Codex has that prompt.
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
