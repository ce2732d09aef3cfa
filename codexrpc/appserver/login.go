package appserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// LoginCommand returns the command `codex login` with arguments, for the login that the
// app-server uses. It has the environment of this process. It fails for an app-server
// that runs elsewhere, and for a command that does not run codex by its own name for the
// app-server.
func (cfg *Config) LoginCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	if cfg.Connect != "" {
		return nil, fmt.Errorf("the app-server runs elsewhere; run `codex login` there")
	}
	i := slices.Index(cfg.Command, appServerCommand)
	if i < 1 {
		return nil, fmt.Errorf("the command %q does not run codex with %q; run `codex login` for it by hand", cfg.Command, appServerCommand)
	}
	home, err := cfg.OperatorHome()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, cfg.Command[0], slices.Concat(cfg.Command[1:i], []string{"login"}, args)...)
	cmd.Env = os.Environ()
	for name, value := range cfg.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if home != "" {
		cmd.Env = append(cmd.Env, homeVariable+"="+home)
	}
	ownGroup(cmd) // the program may be a launcher
	cmd.Cancel = func() error {
		killGroup(cmd)
		return nil
	}
	cmd.WaitDelay = stderrGrace
	return cmd, nil
}
