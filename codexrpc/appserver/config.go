package appserver

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Config configures a [Process].
type Config struct {
	// Command is the program and its arguments, for example codex app-server.
	Command []string
	// Start, if not nil, starts an app-server in place of Command, for example one
	// that runs within this process. Such an app-server has no catalogue of models,
	// since the catalogue comes from another run of Command.
	Start func() (*Program, error) `json:"-"`
	// Connect is the address of an app-server that runs elsewhere, in place of
	// Command: ws://HOST:PORT, wss://HOST or, in Caddy's notation for a unix socket,
	// unix//path/of.sock. See [codexrpc.CheckAddress].
	Connect string
	// Token is sent to the app-server at Connect as a bearer token; empty: none.
	Token string
	// Home is the CODEX_HOME of the operator, from which the program gets the login
	// and the settings of the model provider. All else in the program's CODEX_HOME is private to
	// the program. Empty: the CODEX_HOME in Env or in this process's environment, else ~/.codex.
	Home string
	// Dir is the working directory; empty: a new, empty one, removed at the end. Not
	// used with Connect.
	Dir string
	// Env is added to the environment of the program. From this process's environment
	// the program gets the variables that it needs to run, to reach the network and to log,
	// and those that its model providers name.
	Env map[string]string
	// StartTimeout bounds a start up to the end of the handshake; 0: 10 s.
	StartTimeout time.Duration
	// StopTimeout bounds a stop before the process is killed; 0: 5 s.
	StopTimeout time.Duration
	// MaxMemory is the memory above which the app-server is replaced by a fresh one, in
	// bytes; 0: no limit. On Linux it is the process's own memory, without the pages of files;
	// elsewhere it is the resident memory. Not used with Connect.
	MaxMemory int64
	// Provider is how Codex reaches the model's provider, unless the operator's
	// configuration of Codex says otherwise. Not used with Connect.
	Provider Provider
	// Client names this client to the app-server.
	Client codexrpc.ClientInfo
}
