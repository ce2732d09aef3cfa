package responsestore

import (
	"github.com/caddy-codex/caddy-codex/internal/eventlog"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// endAhead returns the end of a lost response for a client that is at a number after it.
func endAhead(from int64, lost *Entry) Events {
	name, data := responses.LostEvent(from, lost.Response)
	return Events{First: from, Events: []eventlog.Event{{Name: name, Data: data}}, Over: true}
}
