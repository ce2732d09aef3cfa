package codexrpc

import (
	"maps"
	"os"
	"slices"
	"time"
)

// The waits of a [ProcessConfig] that does not say.
const (
	defaultStartTimeout = 10 * time.Second
	defaultStopTimeout  = 5 * time.Second
)

// ProcessConfig says what to start and how long to wait for it.
type ProcessConfig struct {
	// Command is the program and its arguments, for example codex app-server.
	Command []string
	// Home is CODEX_HOME; empty: that of the environment.
	Home string
	// Dir is the working directory; empty: a new, empty, private one, removed
	// at the end.
	Dir string
	// Env is added to this process's environment.
	Env map[string]string
	// StartTimeout bounds a start up to the end of the handshake; 0: 10 s.
	StartTimeout time.Duration
	// StopTimeout bounds a stop before the process is killed; 0: 5 s.
	StopTimeout time.Duration
	// Connect is the address of an app-server that runs elsewhere, to connect to
	// instead of starting Command: ws://…, wss://… or unix//path.
	Connect string
	// Token is the bearer token for Connect; empty: none.
	Token string
	// MaxMemory is how many bytes the program and all that it has started may use
	// before a fresh one takes its place; 0: no limit.
	MaxMemory int64
	// Client names this client to the app-server.
	Client ClientInfo
}

// withDefaults fills in the waits.
func (cfg ProcessConfig) withDefaults() ProcessConfig {
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = defaultStartTimeout
	}
	if cfg.StopTimeout <= 0 {
		cfg.StopTimeout = defaultStopTimeout
	}
	return cfg
}

// environ is the child's environment. Of a name that stands in it twice, the
// later value holds.
func (cfg *ProcessConfig) environ() []string {
	env := os.Environ()
	for _, key := range slices.Sorted(maps.Keys(cfg.Env)) {
		env = append(env, key+"="+cfg.Env[key])
	}
	if cfg.Home != "" {
		env = append(env, "CODEX_HOME="+cfg.Home)
	}
	return env
}

// zone is the time zone of the child, or nil if it has one of its own.
func (cfg *ProcessConfig) zone() *time.Location {
	if _, own := cfg.Env["TZ"]; own {
		return nil
	}
	return time.Local
}
