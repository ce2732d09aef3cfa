package objects

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// as returns a request of a user.
func as(user string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("User", user)
	return r
}

// newItem is a request for a conversation with one item.
type newItem struct{}

func (newItem) Object(id string, _ int64) json.RawMessage {
	return wirejson.Append(nil, map[string]string{"id": id})
}

func (newItem) Items(suffix string) []json.RawMessage {
	return []json.RawMessage{wirejson.Append(nil, map[string]string{"id": "msg_" + suffix})}
}

// objectsIn returns the objects of a store. The header User has the user of a request.
func objectsIn(s *Store) *Objects {
	return &Objects{Store: s, Running: NewRunning(), Logger: slog.New(slog.DiscardHandler), User: func(r *http.Request) string { return r.Header.Get("User") }}
}

// begin begins a response of the user "ann", which runs until the end of the test. Its object is "made".
func begin(t *testing.T, o *Objects, id string) context.Context {
	ctx, end := o.Running.Begin(t.Context(), Response{
		ID: id, Entry: &Entry{User: "ann"}, Stored: true, InProgress: func() json.RawMessage { return json.RawMessage(`"made"`) },
	})
	t.Cleanup(end)
	return ctx
}

// TestOthersObjects: each object is its owner's alone, whatever another user tries.
func TestOthersObjects(t *testing.T) {
	o := objectsIn(inMemory())
	made, apiErr := o.CreateConversation(as("ann"), newItem{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	list, _ := o.ConversationItems(as("ann"), idOf(t, made), free)
	_, item, _ := strings.Cut(string(list), `"first_id":"`)
	item, _, _ = strings.Cut(item, `"`)
	conversation, stored, running := idOf(t, made), id(1), id(2)
	must.OK(t, o.Store.Put(t.Context(), stored, &Entry{User: "ann", Response: json.RawMessage(`{"id":"r"}`)}))
	ctx := begin(t, o, running)
	uses := map[string]func(*http.Request) ([]byte, *apierror.Error){
		"read the response":     func(r *http.Request) ([]byte, *apierror.Error) { return o.Response(r, stored, free) },
		"list its input":        func(r *http.Request) ([]byte, *apierror.Error) { return o.InputItems(r, stored, free) },
		"read what goes on":     func(r *http.Request) ([]byte, *apierror.Error) { return o.Response(r, running, free) },
		"read the conversation": func(r *http.Request) ([]byte, *apierror.Error) { return o.Conversation(r, conversation, free) },
		"change the conversation": func(r *http.Request) ([]byte, *apierror.Error) {
			return o.UpdateConversation(r, conversation, newItem{})
		},
		"list its items": func(r *http.Request) ([]byte, *apierror.Error) { return o.ConversationItems(r, conversation, free) },
		"add items":      func(r *http.Request) ([]byte, *apierror.Error) { return o.AddItems(r, conversation, newItem{}, free) },
		"read an item": func(r *http.Request) ([]byte, *apierror.Error) {
			return o.ConversationItem(r, conversation, item, free)
		},
	}
	ends := []struct {
		what string
		use  func(*http.Request) ([]byte, *apierror.Error)
	}{
		{"delete an item", func(r *http.Request) ([]byte, *apierror.Error) { return o.DeleteItem(r, conversation, item) }},
		{"delete the conversation", func(r *http.Request) ([]byte, *apierror.Error) { return o.DeleteConversation(r, conversation) }},
		{"delete the response", func(r *http.Request) ([]byte, *apierror.Error) { return o.DeleteResponse(r, stored) }},
	}
	refused := func(what string, use func(*http.Request) ([]byte, *apierror.Error)) {
		t.Helper()
		if body, apiErr := use(as("bob")); apiErr == nil || apiErr.Status/100 != 4 {
			t.Errorf("another user can %s: %s %v", what, body, apiErr)
		}
	}
	for what, use := range uses {
		refused(what, use)
		if _, apiErr := use(as("ann")); apiErr != nil {
			t.Errorf("the owner cannot %s: %v", what, apiErr)
		}
	}
	refused("cancel what goes on", func(r *http.Request) ([]byte, *apierror.Error) { return o.CancelResponse(r, running, free) })
	refused("delete what goes on", func(r *http.Request) ([]byte, *apierror.Error) { return o.DeleteResponse(r, running) })
	if ctx.Err() != nil {
		t.Error("another user has cancelled a response")
	}
	for _, e := range ends {
		refused(e.what, e.use)
		if _, apiErr := e.use(as("ann")); apiErr != nil {
			t.Errorf("the owner cannot %s: %v", e.what, apiErr)
		}
		if _, apiErr := e.use(as("ann")); apiErr == nil {
			t.Errorf("the owner can %s twice", e.what)
		}
	}
}

// idOf returns the id of an object.
func idOf(t *testing.T, object []byte) string {
	t.Helper()
	var o struct{ ID string }
	must.OK(t, json.Unmarshal(object, &o))
	return o.ID
}

// free holds nothing.
func free(int64) *apierror.Error { return nil }

// TestEndedResponse checks that a response whose events are still being stored is read as it ended
// once that is stored, and as it is being made before.
func TestEndedResponse(t *testing.T) {
	o := objectsIn(inMemory())
	begin(t, o, id(1))
	read := func(want string) {
		t.Helper()
		if got, apiErr := o.Response(as("ann"), id(1), free); apiErr != nil || string(got) != want {
			t.Errorf("it is %s, %v, want %s", got, apiErr, want)
		}
	}
	read(`"made"`)
	o.Running.Ended(id(1), json.RawMessage(`"ended"`))
	read(`"made"`)
	o.Running.Kept(id(1))
	read(`"ended"`)
}

// TestCancelWaits checks that a response which does not end is returned as it is, after a while.
func TestCancelWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, began := objectsIn(nil), time.Now()
		ctx := begin(t, o, id(1))
		body, apiErr := o.CancelResponse(as("ann"), id(1), free)
		if string(body) != `"made"` || apiErr != nil || time.Since(began) != cancelWait {
			t.Errorf("%s, %v, after %v", body, apiErr, time.Since(began))
		}
		if !errors.Is(context.Cause(ctx), apierror.ErrCancelled) {
			t.Errorf("the response goes on: %v", context.Cause(ctx))
		}
	})
}

// TestDeleteWaits checks that the deletion of a response which does not end is answered after a
// while, and that the response is not found any more.
func TestDeleteWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, began := objectsIn(inMemory()), time.Now()
		ctx := begin(t, o, id(1))
		if body, apiErr := o.DeleteResponse(as("ann"), id(1)); apiErr != nil || time.Since(began) != cancelWait {
			t.Errorf("%s, %v, after %v", body, apiErr, time.Since(began))
		}
		if !errors.Is(context.Cause(ctx), apierror.ErrCancelled) || !o.Running.IsDeleted(id(1)) {
			t.Errorf("the response goes on: %v", context.Cause(ctx))
		}
		for what, use := range map[string]func(*http.Request, string) ([]byte, *apierror.Error){
			"read":   func(r *http.Request, id string) ([]byte, *apierror.Error) { return o.Response(r, id, free) },
			"cancel": func(r *http.Request, id string) ([]byte, *apierror.Error) { return o.CancelResponse(r, id, free) },
			"delete": o.DeleteResponse,
		} {
			if body, apiErr := use(as("ann"), id(1)); apiErr == nil || apiErr.Status != http.StatusNotFound {
				t.Errorf("%s again: %s, %v", what, body, apiErr)
			}
		}
	})
}
