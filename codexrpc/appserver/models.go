package appserver

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// listFresh is how long modelLists uses a list of models before it asks the app-server again.
	listFresh = 30 * time.Second
	// listTime bounds one request for the list. Codex waits five seconds for the back end of its
	// login, and then lists the models that it knows without the back end.
	listTime = 15 * time.Second
	// listWait is how long a caller waits for the first list.
	listWait = time.Second
)

// modelLists are the known models of an app-server: the catalogue that its program has printed, and
// the last list that the app-server has returned.
type modelLists struct {
	mu        sync.Mutex
	catalogue *catalogue // of the serving instance, else of the last one; nil: there is none

	conn   *codexrpc.Conn // the connection that was asked; nil: none
	models []codexrpc.Model
	err    error // the last failure while there is no list; nil: there is a list, or no answer yet
	asked  time.Time
	asking chan struct{} // closed with the answer; nil: no question is under way
}

// serve sets the catalogue.
func (l *modelLists) serve(c *catalogue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.catalogue = c
}

// known returns the catalogue, or nil.
func (l *modelLists) known() *catalogue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.catalogue
}

// get returns the list that came over a connection, or nil and the last failure. If there is no
// list, or the list is old, get asks for a new one in the background; answered is closed after the
// answer.
func (l *modelLists) get(conn *codexrpc.Conn) (models []codexrpc.Model, answered <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != conn {
		l.conn, l.models, l.err, l.asking = conn, nil, nil, nil
	}
	if l.asking == nil && (l.models == nil || time.Since(l.asked) > listFresh) {
		l.asking, l.asked = make(chan struct{}), time.Now()
		go l.ask(conn, l.asking)
	}
	return l.models, l.asking, l.err
}

// ask asks the app-server for its models.
func (l *modelLists) ask(conn *codexrpc.Conn, answered chan struct{}) {
	defer close(answered)
	ctx, cancel := context.WithTimeoutCause(context.Background(), listTime, codexrpc.ErrTimeout)
	defer cancel()
	models, err := conn.Models(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != conn {
		return
	}
	if l.asking = nil; err == nil {
		l.models, l.err = append([]codexrpc.Model{}, models...), nil // not nil, even if empty
	} else if l.models == nil {
		l.err = err
	}
}

// Models returns the models that an app-server of the process lists. It renews a list that is older
// than listFresh in the background. If there is no list yet, Models waits for it up to listWait,
// and then returns the models that the program knows. If these are not known, it waits longer, and
// fails if the app-server returns no list. It also fails when ctx ends. The caller must not change
// the models.
func (p *Process) Models(ctx context.Context, conn *codexrpc.Conn) ([]codexrpc.Model, error) {
	models, answered, _ := p.models.get(conn)
	if models != nil {
		return models, nil
	}
	var known []codexrpc.Model // the models that the program knows without the back end; nil: not known
	patience := make(<-chan time.Time)
	if c := p.models.known(); c != nil {
		known, patience = c.list(), time.After(listWait)
	}
	select {
	case <-answered:
		p.models.mu.Lock()
		defer p.models.mu.Unlock()
		if p.models.conn == conn && p.models.models != nil {
			return p.models.models, nil
		}
		if known == nil {
			return nil, p.models.err
		}
	case <-patience:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return known, nil
}

// DefaultModel returns the model that an app-server of the process uses if a request names none:
// the model in the app-server's configuration, or else the default of its list. Empty: Codex
// chooses.
func (p *Process) DefaultModel(ctx context.Context, conn *codexrpc.Conn) (string, error) {
	model, err := conn.ConfiguredModel(ctx)
	if err != nil || model != "" {
		return model, err
	}
	models, err := p.Models(ctx, conn)
	return codexrpc.DefaultModel(models), err
}
