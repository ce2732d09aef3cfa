package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/pool"
)

// AppServer is the configuration of a `codex app-server`. Handlers whose AppServers are equal share
// the processes. A reload keeps the processes of each AppServer that stays the same.
type AppServer struct {
	// The program and its arguments. Default: `codex app-server`.
	Command []string `json:"command,omitempty"`

	// How many processes run, at most 1024. Default: 1.
	Processes int `json:"processes,omitempty" option:"<n>"`

	// The CODEX_HOME that has the login and the settings of the model provider. The app-server
	// itself runs with a private CODEX_HOME, which has only this login and these settings. Default:
	// the CODEX_HOME of Caddy's environment, else ~/.codex.
	Home string `json:"home,omitempty" option:"<name>"`

	// Additional environment variables. From Caddy's environment, the app-server gets only the
	// variables that it needs to run, to reach the network and to log, and those that the
	// configurations of its model providers name.
	Env map[string]string `json:"env,omitempty"`

	// How much private memory a process may use, in bytes. If it uses more, a new process replaces
	// it; the old one ends with its last turn. Negative: no limit. Default: 1 GiB.
	MaxMemory int64 `json:"max_memory,omitempty" option:"<size>|off"`

	// Whether turns may use the Luna Reserve of the login's plan: when the plan's own limit is spent and the
	// provider offers it, the model gpt-reserve serves in place of the model of the request, as in Codex's own
	// terminal. Such an answer has the header X-Codex-Luna-Reserve. Default: false; a spent plan is an error.
	LunaReserve bool `json:"luna_reserve,omitempty" option:"on|off"`

	// Which threads are kept after their turns.
	Conversations Conversations `json:"conversations,omitzero"`
}

const (
	defaultMaxMemory = 1 << 30
	// maxProcesses is more than a machine can reasonably run.
	maxProcesses = 1024
)

// logEnv has variables for the log of the app-server, which appears in Caddy's log. They turn off colours
// and the error that Codex logs when a client's tool call ends a turn. They turn on the lines that this
// module reads. Caddy's environment and the option env take precedence.
var logEnv = map[string]string{
	"NO_COLOR": "1",
	"RUST_LOG": "error,codex_core::tools::router=off," + appserver.HeededLog,
}

func (a *AppServer) complete() error {
	if a == nil {
		return errors.New("must not be null")
	}
	if err := option.Complete(a); err != nil {
		return err
	}
	if err := option.Complete(&a.Conversations); err != nil {
		return fmt.Errorf("conversations: %w", err)
	}
	if a.Processes > maxProcesses {
		return fmt.Errorf("processes: must be at most %d", maxProcesses)
	}
	_, err := a.resolve(caddy.NewReplacer())
	return err
}

// resolve returns the configuration with its placeholders replaced. In the command and in env, braces
// that are no placeholder stay as they are, since an argument may be JSON. Elsewhere an empty
// placeholder is an error: an empty home would mean the default home, which may have another login.
func (a *AppServer) resolve(repl *caddy.Replacer) (cfg appserver.Config, err error) {
	cfg = appserver.Config{
		MaxMemory: max(0, cmp.Or(a.MaxMemory, defaultMaxMemory)), LunaReserve: a.LunaReserve,
		Client: codexrpc.ClientInfo{Name: "caddy-codex", Title: "caddy-codex", Version: version()},
	}
	if cfg.Home, err = option.AbsolutePath(repl, a.Home); err != nil {
		return cfg, fmt.Errorf("home: %w", err)
	}
	if cfg.Command, err = a.resolveCommand(repl); err != nil {
		return cfg, err
	}
	cfg.Env, err = a.resolveEnv(repl)
	return cfg, err
}

// resolveCommand returns the command with its placeholders replaced. Its program is a bare name, which is
// looked up on the PATH, or an absolute path.
func (a *AppServer) resolveCommand(repl *caddy.Replacer) ([]string, error) {
	if len(a.Command) == 0 {
		return []string{"codex", "app-server"}, nil
	}
	command := make([]string, len(a.Command))
	for i, part := range a.Command {
		if command[i] = repl.ReplaceKnown(part, ""); command[i] == "" {
			// The other parts are not shown: they may be secret.
			return nil, fmt.Errorf("the command has an empty part, number %d of %d", i+1, len(a.Command))
		}
	}
	// A bare name is looked up on the PATH. Other paths are relative to Caddy's directory.
	if program := command[0]; filepath.Base(program) != program {
		var err error
		if command[0], err = caddy.FastAbs(program); err != nil {
			return nil, err
		}
	}
	return command, nil
}

func (a *AppServer) resolveEnv(repl *caddy.Replacer) (map[string]string, error) {
	env := make(map[string]string, len(a.Env))
	for key, value := range logEnv {
		if _, set := os.LookupEnv(key); !set {
			env[key] = value
		}
	}
	for name, value := range a.Env {
		if before, _, found := strings.Cut(name, "="); found {
			return nil, fmt.Errorf("env: the name %q is followed by =; the value stands apart", before)
		}
		if name == "" || strings.Contains(name, "\x00") {
			return nil, fmt.Errorf("env: %q is not the name of a variable", name)
		}
		env[name] = repl.ReplaceKnown(value, "")
	}
	return env, nil
}

// Conversations configures the threads that an app-server keeps after their turns. The next request
// of a conversation continues in the thread that was kept for the conversation. Most of the prompt
// is then in the cache of the model's provider.
type Conversations struct {
	// Whether each request gets a fresh thread. Default: false.
	Off bool `json:"off,omitempty"`

	// The most threads that each process keeps. Each takes about 1 MB of its memory (1.5 MB while
	// its turn waits for tool calls' results), plus twice the size of its history. Default: 128.
	Max int `json:"max,omitempty" option:"<n>" default:"128"`

	// How long a thread is kept after its last turn. Default: `10m`.
	Idle caddy.Duration `json:"idle,omitempty" option:"<duration>" default:"10m"`

	// How long a turn waits for the results of the tool calls that it made. Negative: turns do not
	// wait, and the request with the results gets a fresh thread. Default: `30m`.
	Parked caddy.Duration `json:"parked,omitempty" option:"<duration>|off" default:"30m"`
}

// maxSpares bounds the threads that each process starts in advance, for requests that begin a
// conversation with the same settings as earlier requests. Each thread takes about 1 MB of memory.
const maxSpares = 8

// maxKeptBytes bounds the histories of a process's kept threads together, in bytes. The process needs two
// bytes of memory for each of these bytes: at most a quarter of the default max_memory.
const maxKeptBytes = 128 << 20

// parse reads `on` or `off`, and then a block. Both may be left out.
func (c *Conversations) parse(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		if err := option.CheckWord(d.Val(), "on|off"); err != nil {
			return d.WrapErr(fmt.Errorf("conversations: %w", err))
		}
		c.Off = d.Val() == "off"
	}
	return option.ParseBlock(d, c, nil)
}

func (c *Conversations) limits() conversation.Limits {
	if c.Off {
		return conversation.Limits{}
	}
	return conversation.Limits{Max: c.Max, MaxBytes: maxKeptBytes, Idle: time.Duration(c.Idle), Parked: max(0, time.Duration(c.Parked)), Spares: maxSpares}
}

// Pool is the policy by which an app-server is chosen for a turn. But if an app-server has kept a
// thread of a conversation, it also gets the conversation's next turn, whatever the policy.
type Pool struct {
	// `spread`: the app-server with the fewest turns. `reserve`: like `spread`, but the app_servers
	// of the reserve get turns only if no other app-server can take them. Default: `spread`.
	Policy string `json:"policy,omitempty" option:"spread|reserve" default:"spread"`

	// For `reserve`: how many app_servers, counted from the last, are the reserve. Default: 1.
	Reserve int `json:"reserve,omitempty" option:"<n>"`
}

// parse reads <policy> [<n>].
func (p *Pool) parse(d *caddyfile.Dispenser) error {
	return option.ParseLine(d, option.Of(p), p.complete)
}

// complete sets the default of Reserve for the policy reserve. It refuses a Reserve with another policy.
func (p *Pool) complete() error {
	if p.Policy == pool.PolicyReserve {
		p.Reserve = max(1, p.Reserve)
	} else if p.Reserve != 0 {
		return fmt.Errorf("pool: only the policy %s has a reserve", pool.PolicyReserve)
	}
	return nil
}

// check sets the defaults, and refuses a policy that does not fit the app-servers.
func (p *Pool) check(servers []*AppServer) error {
	if err := option.Complete(p); err != nil {
		return fmt.Errorf("pool: %w", err)
	}
	if err := p.complete(); err != nil {
		return err
	}
	if p.Policy == pool.PolicyReserve && p.Reserve >= len(servers) {
		return fmt.Errorf("pool: of %d app_servers %d cannot be the reserve", len(servers), p.Reserve)
	}
	return nil
}

func newPool(app *App, servers []*AppServer, policy Pool, repl *caddy.Replacer) (*pool.Pool, error) {
	var all []pool.Server
	for i, server := range servers {
		cfg, err := server.resolve(repl)
		if err == nil {
			err = cfg.CheckCommand()
		}
		if err != nil {
			return nil, fmt.Errorf("app_server %d: %w", i+1, err)
		}
		all = append(all, pool.Server{Config: cfg, Processes: server.Processes, Limits: server.Conversations.limits()})
	}
	return app.servers.Pool(all, pool.Policy{Name: policy.Policy, Reserve: policy.Reserve})
}
