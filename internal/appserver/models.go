package appserver

import (
	"context"
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

type modelList struct {
	mu      sync.Mutex
	models  []codexrpc.Model
	askedAt time.Time    // when the list was last asked for
	pending *listRequest // the request under way; nil: no request is under way
}

type listRequest struct {
	answered chan struct{} // closed after the answer
	// Set before answered is closed. Without an err, models is not nil, even if empty.
	models []codexrpc.Model
	err    error
}

// get returns the list, or nil. If there is no list, or the list is older than maxListAge, get asks
// for a new one over conn in the background, unless a request is under way. It also returns the
// request under way, or nil; if there is no list, the request is not nil.
func (l *modelList) get(conn *codexrpc.Conn) (models []codexrpc.Model, pending *listRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil && (l.models == nil || time.Since(l.askedAt) > maxListAge) {
		l.pending, l.askedAt = &listRequest{answered: make(chan struct{})}, time.Now()
		go l.fetch(conn, l.pending)
	}
	return l.models, l.pending
}

// fetch asks the app-server for its models, and stores the answer in request and in l.
func (l *modelList) fetch(conn *codexrpc.Conn, request *listRequest) {
	defer close(request.answered)
	ctx, cancel := context.WithTimeoutCause(context.Background(), listTimeout, codexrpc.ErrTimeout)
	defer cancel()
	models, err := conn.Models(ctx)
	if request.err = err; err == nil {
		request.models = append([]codexrpc.Model{}, models...) // not nil, even if empty
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending = nil; err == nil {
		l.models = request.models
	}
}

// Models returns the models that the app-server lists, which the caller must not change. If the
// list is older than maxListAge, it also asks for a new one in the background.
//
// Without a list, it waits: with a catalogue up to firstListWait, to return the catalogue's models
// then; else until the app-server answers, and fails if that is no list or ctx ends.
func (in *Instance) Models(ctx context.Context) ([]codexrpc.Model, error) {
	models, request := in.list.get(in.conn)
	if models != nil {
		return models, nil
	}
	var builtIn []codexrpc.Model // the models of the catalogue; nil: there is no catalogue
	timeout := make(<-chan time.Time)
	if c := in.models; c != nil {
		builtIn, timeout = c.list(), time.After(firstListWait)
	}
	select {
	case <-request.answered:
		if request.err == nil {
			return request.models, nil
		}
		if builtIn == nil {
			return nil, request.err
		}
	case <-timeout:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return builtIn, nil
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

// DefaultOf returns the default of a list, or else the first, of those not hidden, or "".
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
