package gateway

import (
	"encoding/json"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// TestSaveCopiesTheEntry checks that the end of a response does not change the entry that others
// got when the response began: the store of its events may read that entry at the same time.
func TestSaveCopiesTheEntry(t *testing.T) {
	g := newGateway(nil, Options{})
	a := &keptResponse{g: g, q: new(responses.Request), entry: &objects.Entry{User: "ann"}}
	begun := a.runningResponse().Entry
	a.save(api.Record{Response: json.RawMessage(`{"status":"completed"}`), Output: make([]json.RawMessage, 1)})
	if begun.Response != nil || begun.Output != nil {
		t.Errorf("the entry of the running response has the end of the response: %s", begun.Response)
	}
	if len(a.entry.Output) != 1 || a.entry.User != "ann" {
		t.Errorf("the entry to store lacks the end of the response: %+v", a.entry)
	}
}
