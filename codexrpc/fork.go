package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// forkRelease begins the versions of the release whose forks are known to work as described
// at [Conn.ForkThread]. A fork has the environment of the host, unlike a thread that is
// started without one. Only the features in the configuration of threads keep Codex's own
// tools from it, and their names change between releases.
const forkRelease = "0.169."

// Forks reports whether an app-server of this version may be asked to fork threads.
func Forks(version string) bool { return strings.HasPrefix(version, forkRelease) }

// SessionFile returns the content of a file with an empty session, whose forks have its
// id, a UUID, as their cache key. client is the name with which the connection was
// initialized.
func SessionFile(id, client, version string) ([]byte, error) {
	const begin = "2026-01-01T00:00:00.000Z"
	line, err := json.Marshal(map[string]any{
		"timestamp": begin, "type": "session_meta",
		"payload": map[string]any{
			"id": id, "session_id": id, "timestamp": begin, "cwd": "/", "originator": client,
			"cli_version": version, "source": "vscode", "history_mode": "legacy", "dynamic_tools": []any{},
		},
	})
	return append(line, '\n'), err
}

// forkParams are the parameters of thread/fork.
type forkParams struct {
	ThreadStartParams
	ThreadID     string `json:"threadId"` // empty: Path counts
	Path         string `json:"path"`
	ExcludeTurns bool   `json:"excludeTurns"`
	// These are not sent: forks have none of them.
	RawEvents    *bool `json:"experimentalRawEvents,omitempty"`
	Environments *bool `json:"environments,omitempty"`
	Tools        *bool `json:"dynamicTools,omitempty"`
}

// errNoForks means that the app-server has refused to fork a thread before.
var errNoForks = errors.New("the app-server does not fork threads")

// ForkThread starts a thread like StartThread, but as a fork of the session in the file
// at path ([SessionFile]), whose id its requests to the provider have as their cache key.
// Such a thread has no tools, and it sends no raw events: of the kinds of [Event] those
// that come with rawResponseItem/completed and rawResponse/completed are missing. If the
// app-server refuses, which this connection remembers, or answers otherwise, the error
// leaves StartThread as the way out.
func (c *Conn) ForkThread(ctx context.Context, path, session string, params ThreadStartParams) (*Thread, error) {
	if c.noForks.Load() {
		return nil, errNoForks
	}
	params.Ephemeral = true
	fork := forkParams{ThreadStartParams: params, Path: path, ExcludeTurns: true}
	t, err := c.openThread(ctx, methodThreadFork, fork, func(thread gjson.Result) bool {
		ours := thread.Get("forkedFromId").Str == session && thread.Get("ephemeral").Bool()
		c.noForks.Store(!ours)
		return ours
	})
	if refused := (*CallError)(nil); errors.As(err, &refused) && !errors.Is(err, ErrOverloaded) {
		c.noForks.Store(true)
	}
	if err != nil {
		return nil, fmt.Errorf("forking a thread: %w", err)
	}
	t.fork = true
	return t, nil
}

// Fork reports whether the thread was started by [Conn.ForkThread].
func (t *Thread) Fork() bool { return t.fork }
