package appserver

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// The waits of a [Config] that does not say.
const (
	defaultStartTimeout = 10 * time.Second
	defaultStopTimeout  = 5 * time.Second
)

// Config says what to start and how long to wait for it.
type Config struct {
	// Command is the program and its arguments, for example codex app-server.
	Command []string
	// Start, if not nil, starts an app-server in place of Command, for example one
	// that runs within this process. There is no catalogue of models then, since
	// that comes from another run of the Command.
	Start func() (*Program, error) `json:"-"`
	// Connect is the address of an app-server that runs already, and then there
	// is no Command: ws://HOST:PORT, wss://HOST or, as Caddy writes a unix
	// socket, unix//path/of.sock. See [codexrpc.CheckAddress].
	Connect string
	// Token is sent to the app-server at Connect as a bearer token; empty: none.
	Token string
	// Home is the CODEX_HOME of the operator: where the login and the settings of
	// the model provider come from. The program gets a home of its own with these
	// and nothing else. Empty: that of Env or of this process's environment, else
	// ~/.codex.
	Home string
	// Dir is the working directory; empty: a new, empty, private one, removed
	// at the end. Of an app-server at Connect it is a path on its own machine;
	// empty: where that was started.
	Dir string
	// Env is added to what the program gets of this process's environment: what it
	// needs to run, to reach the network and to log, and what its model providers
	// name.
	Env map[string]string
	// StartTimeout bounds a start up to the end of the handshake; 0: 10 s.
	StartTimeout time.Duration
	// StopTimeout bounds a stop before the process is killed; 0: 5 s.
	StopTimeout time.Duration
	// MaxMemory is how many bytes of memory the app-server may have resident
	// before a fresh one takes its place; 0: as many as it likes. It has no meaning
	// with Connect.
	MaxMemory int64
	// Client names this client to the app-server.
	Client codexrpc.ClientInfo
}

// withDefaults fills in the waits.
func (cfg Config) withDefaults() Config {
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = defaultStartTimeout
	}
	if cfg.StopTimeout <= 0 {
		cfg.StopTimeout = defaultStopTimeout
	}
	return cfg
}
