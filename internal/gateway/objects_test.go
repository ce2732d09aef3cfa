package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// unreadWriter is the writer of a stream whose client reads nothing: a write ends when a deadline has
// passed. It sends what is written first.
type unreadWriter struct {
	*httptest.ResponseRecorder
	first chan string
	late  chan struct{}
}

func (u *unreadWriter) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() && !at.After(time.Now()) {
		u.late <- struct{}{}
	}
	return nil
}

func (u *unreadWriter) Write(p []byte) (int, error) {
	u.first <- string(p)
	<-u.late
	return 0, os.ErrDeadlineExceeded
}

// TestDeleteUnread: a response whose client does not read it is deleted soon, and not stored when
// it ends.
func TestDeleteUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newPlayed(t, func(int) fakecodex.Options {
			return fakecodex.Options{Default: "multibyte", Faults: fakecodex.Faults{Delay: time.Second}}
		})
		engine := &puts{Engine: store.NewMemory(1<<20, time.Hour)}
		g := newGateway(u, Options{MaxConcurrent: 1, Responses: objects.NewStore(engine, discard())})
		w := &unreadWriter{httptest.NewRecorder(), make(chan string, 1), make(chan struct{}, 1)}
		var streamed sync.WaitGroup
		streamed.Go(func() {
			defer func() {
				if cut := recover(); cut != http.ErrAbortHandler {
					t.Errorf("the stream ended with %v", cut)
				}
			}()
			g.ServeHTTP(w, posting(responsesPath, `{"model":"m","input":"x","stream":true}`))
		})
		id := idIn(t, <-w.first)
		asked := func(method string) int {
			return answerTo(g, httptest.NewRequest(method, responsesPath+"/"+id, nil)).Code
		}
		began := time.Now()
		if status := asked(http.MethodDelete); status != http.StatusOK || time.Since(began) > 5*time.Second {
			t.Errorf("deleted: %d after %s", status, time.Since(began))
		}
		if status := asked(http.MethodGet); status != http.StatusNotFound {
			t.Errorf("read while it runs: %d", status)
		}
		streamed.Wait()
		if status := asked(http.MethodGet); status != http.StatusNotFound || engine.count != 0 {
			t.Errorf("read after its end: %d, stored %d times", status, engine.count)
		}
		u.process.Stop()
	})
}

type puts struct {
	store.Engine
	count int
}

func (p *puts) Put(ctx context.Context, user, id string, e *store.Put) error {
	p.count++
	return p.Engine.Put(ctx, user, id, e)
}

// TestDeleteWhileStored: a response that is deleted while the store takes long to store it is gone
// afterwards.
func TestDeleteWhileStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &slowEngine{store.NewMemory(1<<20, time.Hour), make(chan writing, 1), make(chan struct{}, 1)}
		kept := objects.NewStore(engine, discard())
		g, _ := storeGateway(kept)
		form, _ := keepResponse(t, g, `{"model":"m","input":"x","stream":true}`)
		_, end := g.objects.Running.Begin(t.Context(), form.runningResponse())
		var saved sync.WaitGroup
		saved.Go(func() { form.save(api.Record{Response: json.RawMessage("{}")}) })
		<-engine.begun
		deleted := answerTo(g, httptest.NewRequest(http.MethodDelete, responsesPath+"/"+form.meta.ID, nil))
		if deleted.Code != http.StatusOK {
			t.Errorf("deleted: %d %s", deleted.Code, deleted.Body)
		}
		engine.goOn <- struct{}{}
		saved.Wait()
		end()
		if _, err := kept.Get(t.Context(), "ann", form.meta.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("it is stored: %v", err)
		}
	})
}
