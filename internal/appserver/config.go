package appserver

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Config configures a [Process].
type Config struct {
	// Command is the program and its arguments, for example codex app-server.
	Command []string
	// Start, if not nil, starts an app-server in place of Command, for example one that runs within
	// this process. Such an app-server has no catalogue (list of models), since only a run of
	// Command can print one.
	Start func() (*Program, error) `json:"-"`
	// Home is the CODEX_HOME of the operator. The program gets the login and the settings of the
	// model provider from there; all else in the program's own CODEX_HOME is private to the
	// program. Empty: the CODEX_HOME in Env or in this process's environment, or else ~/.codex.
	Home string
	// Env is added to the environment of the program. The program also gets some variables of this
	// process's environment: those that it needs to run, to reach the network and to log, and those
	// that its model providers name.
	Env map[string]string
	// MaxMemory limits the app-server's memory, in bytes. If the app-server uses more, a new
	// app-server replaces it. 0: no limit. On Linux the process's own memory counts, without the
	// pages of files; elsewhere the resident memory counts.
	MaxMemory int64
	// Client names this client to the app-server.
	Client codexrpc.ClientInfo

	startTimeout time.Duration // see defaultStartTimeout, which 0 stands for
	stopTimeout  time.Duration // see defaultStopTimeout, which 0 stands for
}

const (
	// defaultStartTimeout bounds a start up to the end of the handshake.
	defaultStartTimeout = 10 * time.Second
	// defaultStopTimeout is how long a stop may take before the program is killed.
	defaultStopTimeout = 5 * time.Second
)
