package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/stores"
	"github.com/caddy-codex/caddy-codex/stores/storestest"
)

func init() { caddy.RegisterModule(ShelfModule{}) }

// ShelfModule is a guest module that stores on a [Shelf]. It imports what any other Go module may.
type ShelfModule struct {
	Name string `json:"name,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (ShelfModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.codex.stores.shelf", New: func() caddy.Module { return new(ShelfModule) }}
}

// UnmarshalCaddyfile parses: shelf <name>
func (m *ShelfModule) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&m.Name) {
		return d.ArgErr()
	}
	return nil
}

func (m *ShelfModule) Key() string { return m.Name }

func (m *ShelfModule) Open(*slog.Logger) stores.Store { return newShelf() }

func (m *ShelfModule) Start(s stores.Store) error {
	shelves.Store(m.Name, s)
	return nil
}

// shelves are those that were started, by name.
var shelves sync.Map

// Shelf is a store in memory with the least that one needs; it has no bounds.
type Shelf struct {
	mu     sync.Mutex
	now    func() time.Time
	placed map[[2]string]placed // by user and id
}

type placed struct {
	entry []byte
	at    time.Time
}

func newShelf() *Shelf { return &Shelf{now: time.Now, placed: make(map[[2]string]placed)} }

func (s *Shelf) Put(_ context.Context, id string, e *stores.Entry) error {
	if e.Size() > stores.MaxEntry {
		return stores.ErrTooLarge
	}
	entry, err := stores.Encode(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed[[2]string{e.User, id}] = placed{entry, s.now()}
	return err
}

// get returns an entry. The caller holds the lock.
func (s *Shelf) get(user, id string) (*stores.Entry, error) {
	p, ok := s.placed[[2]string{user, id}]
	if !ok || s.now().Sub(p.at) > time.Hour {
		return nil, stores.ErrNotFound
	}
	return stores.Decode(p.entry), nil
}

func (s *Shelf) Get(_ context.Context, user, id string) (*stores.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(user, id)
}

func (s *Shelf) Delete(_ context.Context, user, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.get(user, id)
	delete(s.placed, [2]string{user, id})
	return err
}

// change changes an entry.
func (s *Shelf) change(user, id string, change func(*stores.Entry) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.get(user, id)
	if err != nil {
		return err
	}
	if err := change(e); err != nil {
		return err
	}
	entry, err := stores.Encode(e)
	s.placed[[2]string{user, id}] = placed{entry, s.placed[[2]string{user, id}].at}
	return err
}

func (s *Shelf) Append(_ context.Context, user, id string, items []json.RawMessage) error {
	return s.change(user, id, func(e *stores.Entry) error {
		e.Input = append(e.Input, items...)
		return nil
	})
}

func (s *Shelf) RemoveItem(_ context.Context, user, id string, item json.RawMessage) error {
	return s.change(user, id, func(e *stores.Entry) error {
		at := slices.IndexFunc(e.Input, func(other json.RawMessage) bool { return bytes.Equal(item, other) })
		if at < 0 {
			return stores.ErrNotFound
		}
		e.Input = slices.Delete(e.Input, at, at+1)
		return nil
	})
}

func (s *Shelf) SetObject(_ context.Context, user, id string, object json.RawMessage) error {
	return s.change(user, id, func(e *stores.Entry) error {
		e.Response = object
		return nil
	})
}

// TestShelf runs the suite for engines with that of a guest.
func TestShelf(t *testing.T) {
	storestest.Run(t, func(*testing.T) storestest.Engine {
		s, later := newShelf(), time.Duration(0)
		s.now = func() time.Time { return time.Now().Add(later) }
		return storestest.Engine{Store: s, Age: time.Hour, Later: func(d time.Duration) { later += d }}
	})
}

// TestGuestStore stores with the module of a guest, which a Caddyfile names: a chain is followed, also
// after a reload, and what is deleted is gone.
func TestGuestStore(t *testing.T) {
	s := e2e.NewSite(t, "store shelf "+t.Name())
	first := s.Respond(e2e.Asks("say:One.", nil), nil)
	found, started := shelves.Load(t.Name())
	if !started || len(found.(*Shelf).placed) != 1 {
		t.Fatal("the response is not on the shelf")
	}
	s.Load(s.Caddyfile("store shelf " + t.Name() + "\nmax_queue 7"))
	second := s.Respond(e2e.Asks("say:Two.", e2e.Fields{"previous_response_id": first.ID}), nil)
	request, _ := s.Model.Last()
	if got := e2e.Describe(request); !slices.Contains(got, "assistant: One.") {
		t.Errorf("the model was given\n%s", strings.Join(got, "\n"))
	}
	if status, body := about(s, http.MethodDelete, second.ID, nil); status != http.StatusOK {
		t.Error(status, body)
	}
	if status, body := about(s, http.MethodGet, second.ID, nil); status != http.StatusNotFound {
		t.Error(status, body)
	}
}
