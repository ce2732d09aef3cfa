// Package threads starts the threads of conversations on app-servers, and keeps them so that
// the conversations go on there.
package threads

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// catalogueKey is the setting of a thread that names the file with the models'
// properties.
const catalogueKey = "model_catalog_json"

// Place is where a thread runs, and where its instructions go.
type Place struct {
	Process      *appserver.Process
	Conn         *codexrpc.Conn
	Model        string // Codex's name of it
	Instructions prompt.Placement
}

// Settings are what a thread is started with.
type Settings struct {
	at        Place
	params    codexrpc.ThreadStartParams
	catalogue string            // of models; empty: none
	plain     codexrpc.Config   // without the catalogue
	kind      string            // the name of the spare ones with the same settings; empty: there are none
	encoded   codexrpc.Constant // params as JSON; empty: they are to be encoded
}

// Settings returns what the thread of a plan is started with: in the process's directory,
// with a catalogue of models if there is one for the model.
func (at Place) Settings(ctx context.Context, plan *prompt.Plan) *Settings {
	params, _ := plan.Placed(at.Instructions)
	params.Model, params.Cwd = at.Model, at.Process.Dir()
	s := &Settings{at: at, params: params, catalogue: at.catalogueFor(ctx, plan), plain: params.Config}
	s.plain.Place = at.Process.ProviderSettings()
	s.params.Config = s.plain
	if s.catalogue != "" {
		s.params.Config.Place = withCatalogue(s.plain.Place, s.catalogue)
	}
	return s
}

// withCatalogue adds the file of a catalogue to the settings of a place.
func withCatalogue(settings codexrpc.Constant, path string) codexrpc.Constant {
	to := append([]byte(nil), settings...)
	if len(to) > 0 {
		to = append(to, ',')
	}
	return codexrpc.Constant(jsontext.AppendString(append(to, `"`+catalogueKey+`":`...), path))
}

// Start starts a thread. Codex reads the catalogue for each thread; a file that is gone or
// broken must not fail the turn. If key is not empty, the thread is a fork with this cache
// key, unless that is not possible.
func (s *Settings) Start(ctx context.Context, key string, logger *slog.Logger) (*codexrpc.Thread, error) {
	if thread := s.at.fork(ctx, s.params, key, logger); thread != nil {
		return thread, nil
	}
	thread, err := s.at.Conn.StartThread(ctx, s.params)
	refused, ok := errors.AsType[*codexrpc.CallError](err)
	if s.catalogue == "" || !ok || !strings.Contains(refused.Message, "failed to load configuration") {
		return thread, err
	}
	logger.Warn("codex does not take its catalogue of models; the model may be offered tools of codex's own, and long conversations refused", "error", err)
	s.params.Config, s.encoded = s.plain, ""
	return s.at.Conn.StartThread(ctx, s.params)
}

// forkTimeout bounds the start of a fork. Starting a fresh thread is the way out.
const forkTimeout = 5 * time.Second

// fork starts a thread with a cache key. It returns nil if there is no key, or if that
// is not possible.
func (at Place) fork(ctx context.Context, params codexrpc.ThreadStartParams, key string, logger *slog.Logger) *codexrpc.Thread {
	if key == "" {
		return nil
	}
	path, err := at.Process.WriteSession(key)
	if err != nil {
		return nil
	}
	defer os.Remove(path)
	ctx, cancel := context.WithTimeoutCause(ctx, forkTimeout, codexrpc.ErrTimeout)
	defer cancel()
	thread, err := at.Conn.ForkThread(ctx, path, key, params)
	if err != nil {
		logger.Debug("a conversation gets a new cache key", "error", err)
		return nil
	}
	return thread
}

// LongHistory reports whether a thread with a history of so many bytes needs a catalogue
// that it may not have been started with.
func (at Place) LongHistory(size int) bool {
	return size > longHistory && at.Process.Model(at.Model).Catalogue == ""
}

// longHistory is the size in bytes above which a history may be too long for a model
// that Codex does not know. Codex's own limit for such a model is 979,200 bytes.
const longHistory = 256 << 10

// catalogueFor returns the path of the file with the properties of a plan's model, or
// an empty one. Codex may have learnt of a model that is in no catalogue from the
// provider, whose properties then must stay; so the fallback is for long histories
// and for service tiers only. It is not for appended instructions, since Codex's own
// prompt for such a model is not known here.
func (at Place) catalogueFor(ctx context.Context, plan *prompt.Plan) string {
	model := at.Model
	path := at.Process.Model(model).Catalogue
	needed := plan.HistorySize() >= longHistory || plan.Thread.ServiceTier != ""
	if path != "" || !needed || at.Instructions.Append {
		return path
	}
	models, err := at.Conn.Models(ctx)
	name := model[strings.LastIndexByte(model, '/')+1:] // without the provider's
	if err != nil || slices.ContainsFunc(models, func(m codexrpc.Model) bool {
		return strings.HasPrefix(model, m.Model) || strings.HasPrefix(name, m.Model)
	}) {
		return "" // if the process fails, so will the thread's start
	}
	return at.Process.FallbackCatalogue()
}
