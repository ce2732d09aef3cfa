package appserver

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// maxListAge is how long modelList uses a list of models before it asks the app-server again.
	maxListAge = 30 * time.Second
	// listTimeout bounds one request for the list. Codex waits five seconds for the back end of its
	// login, and then lists the models that it knows without the back end.
	listTimeout = 15 * time.Second
	// firstListWait is how long Models waits for the first list if there is a catalogue.
	firstListWait = time.Second
)

// modelList is the list of models that an app-server has sent last.
type modelList struct {
	mu       sync.Mutex
	models   []codexrpc.Model // nil: there is none yet
	bundled  bool             // models are those that Codex brings along: the back end of the plan has listed none yet
	err      error            // of the last request
	askedAt  time.Time        // when the list was last asked for
	answered chan struct{}    // closed after the answer to the request under way; nil: there is none
}

func (l *modelList) latest() ([]codexrpc.Model, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.models, l.err
}

// ask asks an instance for the list in the background, unless the last list is at most maxListAge old or a
// request is under way. answered is closed after the answer; nil: no request is under way.
func (l *modelList) ask(in *Instance) (answered <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered == nil && (l.models == nil || time.Since(l.askedAt) > maxListAge) {
		l.answered, l.askedAt = make(chan struct{}), time.Now()
		go l.fetch(in)
	}
	return l.answered
}

func (l *modelList) fetch(in *Instance) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), listTimeout, codexrpc.ErrTimeout)
	defer cancel()
	models, err := in.conn.Models(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err = err; err == nil {
		l.models = append([]codexrpc.Model{}, models...) // not nil, even if empty
		if in.models != nil {
			_, missing := os.Stat(in.models.backendPath)
			l.bundled = in.conn.HasPlan() && missing != nil
		}
	}
	close(l.answered)
	l.answered = nil
}

// Models returns the models that the app-server lists, which the caller must not change. If the
// list is older than maxListAge, it also asks for a new one in the background.
//
// Without a list, Models waits for the first list. With a catalogue, it waits up to firstListWait, and then
// returns the catalogue's models. Without a catalogue, it waits until the app-server answers, and fails if
// the answer is an error. In both cases it fails if ctx ends.
func (in *Instance) Models(ctx context.Context) ([]codexrpc.Model, error) {
	answered := in.list.ask(in)
	if models, _ := in.list.latest(); models != nil {
		return models, nil
	}
	timeout := make(<-chan time.Time) // without a catalogue, there is no timeout
	if in.models != nil {
		timeout = time.After(firstListWait)
	}
	select {
	case <-answered:
	case <-timeout:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	models, err := in.list.latest()
	if models == nil && in.models != nil {
		return in.models.list(), nil
	}
	return models, err
}

// DefaultModel returns the model that the app-server uses if a request names none: the model in the
// app-server's configuration, or else the default of its list. Empty: Codex chooses.
func (in *Instance) DefaultModel(ctx context.Context) (string, error) {
	model, err := in.conn.ConfiguredModel(ctx)
	if err != nil || model != "" {
		return model, err
	}
	models, err := in.Models(ctx)
	return DefaultOf(models), err
}

// KnownDefault is like DefaultModel, but does not ask for a list of models. Empty: the default is not known yet.
func (in *Instance) KnownDefault(ctx context.Context) string {
	model, err := in.conn.ConfiguredModel(ctx)
	in.list.mu.Lock()
	defer in.list.mu.Unlock()
	if err == nil && model == "" && !in.list.bundled {
		model = DefaultOf(in.list.models)
	}
	return model
}

// DefaultOf returns the default model of a list, or else the first one that is not hidden, or "".
func DefaultOf(models []codexrpc.Model) string {
	first := ""
	for _, m := range models {
		switch {
		case m.Hidden:
		case m.IsDefault:
			return m.Model
		case first == "":
			first = m.Model
		}
	}
	return first
}
