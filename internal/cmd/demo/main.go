// Command demo serves the API on localhost with a Caddy that contains this module. It
// uses the user's own Codex login if there is one, else the built-in scripted model.
// `make run` starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	caddy        string
	codexDir     string
	codexVersion string
	port         int
}

func main() {
	var o options
	flag.StringVar(&o.caddy, "caddy", "build/caddy", "the Caddy to run")
	flag.StringVar(&o.codexDir, "codex-dir", ".cache/codex", "the directory to install codex in if it is not on the PATH")
	flag.StringVar(&o.codexVersion, "codex-version", "latest", "the release of codex to install")
	flag.IntVar(&o.port, "port", 8080, "the port to serve on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	codex, err := findCodex(ctx, o)
	if err != nil {
		return err
	}
	home, closeModel, err := chooseModel(ctx, codex)
	if err != nil {
		return err
	}
	defer closeModel()
	fmt.Printf("serving on http://localhost:%d/v1; try:\n\n  curl http://localhost:%d/v1/chat/completions -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"gpt-5\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'\n\n", o.port, o.port)
	return serve(ctx, o, caddyfile(o.port, codex, home))
}

// findCodex returns the path of the codex on the PATH, else of the one in the directory
// of the project, where npm installs it if it is missing.
func findCodex(ctx context.Context, o options) (string, error) {
	if path, err := exec.LookPath("codex"); err == nil {
		return filepath.Abs(path)
	}
	local, err := filepath.Abs(filepath.Join(o.codexDir, "node_modules", ".bin", "codex"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(local); err == nil {
		return local, nil
	}
	fmt.Println("codex is not on the PATH: installing it with npm")
	npm := exec.CommandContext(ctx, "npm", "install", "--no-save", "--prefix", o.codexDir, "@openai/codex@"+o.codexVersion)
	npm.Stdout, npm.Stderr = os.Stdout, os.Stderr
	if err := npm.Run(); err != nil {
		return "", fmt.Errorf("installing codex: %w; install it yourself with npm install -g @openai/codex", err)
	}
	return local, nil
}

// caddyfile returns the configuration of the demo. Since it has no api_key, it listens on
// loopback addresses only.
func caddyfile(port int, codex, home string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\tadmin off\n\tpersist_config off\n}\nhttp://:%d {\n\tbind %s\n\tcodex {\n\t\tapp_server %q app-server {\n", port, strings.Join(loopbacks(), " "), codex)
	if home != "" {
		fmt.Fprintf(&b, "\t\t\thome %q\n", home)
	}
	b.WriteString("\t\t}\n\t}\n\trespond \"The API is below /v1.\" 404\n}\n")
	return b.String()
}

// loopbacks returns the loopback addresses of this machine.
func loopbacks() []string {
	addresses := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		addresses = append(addresses, "::1")
	}
	return addresses
}

// stopWait is how long Caddy may take to exit before it is killed.
const stopWait = 10 * time.Second

// serve runs Caddy until it exits or ctx ends.
func serve(ctx context.Context, o options, config string) error {
	path, err := filepath.Abs(o.caddy)
	if err != nil {
		return err
	}
	caddy := exec.CommandContext(ctx, path, "run", "--adapter", "caddyfile", "--config", "-")
	caddy.Stdin = strings.NewReader(config)
	caddy.Stdout, caddy.Stderr = os.Stdout, os.Stderr
	caddy.Cancel = func() error { return caddy.Process.Signal(syscall.SIGTERM) }
	caddy.WaitDelay = stopWait
	err = caddy.Run()
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err()) || caddy.ProcessState.Exited()) {
		return nil // it was told to exit
	}
	return err
}
