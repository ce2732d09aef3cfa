// Command demo runs Caddy with this module, and serves the API and the playground on localhost. If
// the user has no Codex login, a scripted model answers. `make run` starts the demo. Without make,
// `go run ./internal/test/cmd/demo` starts it with the codex on the PATH.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile" // the adapter for Caddyfiles
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	_ "github.com/caddyserver/caddy/v2/modules/logging"

	_ "github.com/caddy-codex/caddy-codex/caddymodule"
)

var (
	codexFlag  = flag.String("codex", "codex", "the codex to run")
	portFlag   = flag.Int("port", 8080, "the port to serve on")
	dirFlag    = flag.String("dir", "build", "the directory for the demo's folder")
	beganFlag  = flag.Int64("began", time.Now().Unix(), "when the start began, for the times that are shown, as Unix time")
	parentFlag = flag.Int("parent", os.Getppid(), "the process whose end also ends the demo")
)

func main() {
	flag.Parse()
	ctx, stop := signalContext(*parentFlag)
	defer stop()
	if err := run(ctx, *portFlag); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run starts the demo, prints its addresses, and waits until the demo is to end.
func run(ctx context.Context, port int) error {
	codex, err := findCodex(*codexFlag)
	if err != nil {
		return err
	}
	addresses, err := freeLoopbackAddresses(port)
	if err != nil {
		return err
	}
	folder, err := newFolder(*dirFlag, port)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	serve := func(home string) error {
		return load(caddyfile(addresses, port, codex, home, filepath.Join(folder, "data")))
	}
	home, person := "", interactive() // an empty home is the user's
	signing, endSignIn := context.WithCancel(ctx)
	defer endSignIn()
	signIns := newSignIns(signing, codex)
	if hasLogin(ctx, codex) {
		printStage("your own Codex login answers")
	} else {
		home = filepath.Join(folder, "codex")
		closeModel, err := startModel(codex, home, signIns.fromChat)
		if err != nil {
			return err
		}
		defer closeModel()
		printStage(loginOffer(codex, person))
	}
	caddy.TrapSignals() // from here on, Caddy handles signals and ends the process
	if err := serve(home); err != nil {
		return fmt.Errorf("starting Caddy: %w", err)
	}
	if err := waitReady(ctx, port); err != nil {
		return stopCaddy(folder, err)
	}
	if ctx.Err() == nil {
		printStage("ready")
		fmt.Printf(welcome, port)
	}
	if home != "" && awaitLogin(ctx, signIns, person) {
		endSignIn() // one that is not needed any more, if the login was made elsewhere
		if err := serve(""); err != nil {
			return stopCaddy(folder, err)
		}
		printStage("your own Codex login answers now")
	}
	<-ctx.Done()
	return stopCaddy(folder, nil)
}

// load lets Caddy use a configuration instead of the last one.
func load(text string) error {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		return fmt.Errorf("adapting the demo's configuration: %w", err)
	}
	return caddy.Load(config, true)
}

// findCodex returns the absolute path of codex, which is named by a path, or as on the PATH.
func findCodex(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w; install Codex with `npm install -g @openai/codex`, or say where it is with -codex", err)
	}
	return filepath.Abs(path)
}

// printStage prints what the demo does now, and the time since the start.
func printStage(text string) {
	fmt.Printf("[%3.0f s] %s\n", time.Since(time.Unix(*beganFlag, 0)).Seconds(), text)
}

// welcome is the text that shows what a person can do now. Its argument is the port.
const welcome = `
  playground  http://localhost:%[1]d/codex/
  the API     http://localhost:%[1]d/v1
  a try       curl http://localhost:%[1]d/v1/chat/completions -d '{"model":"default","messages":[{"role":"user","content":"hello"}]}'

Ctrl-C ends it.
`

// freeLoopbackAddresses returns the loopback addresses on which a port is free.
func freeLoopbackAddresses(port int) (addresses []string, err error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("there is no port %d: choose one with make run PORT=8080", port)
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		// Otherwise, Caddy would share the port, and half the requests, with a process that has it.
		socket, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("port %d is in use: end what uses it, or choose another one with make run PORT=%d", port, port%65535+1)
		case errors.Is(err, syscall.EACCES):
			return nil, fmt.Errorf("port %d needs more rights than you have: choose another one with make run PORT=8080", port)
		case err != nil && address == "::1":
			continue // a machine without IPv6
		case err != nil:
			return nil, fmt.Errorf("listening: %w", err)
		}
		_ = socket.Close()
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// newFolder makes a directory below dir, for what Caddy and Codex write. It removes what a killed
// demo has left there. The port is in its name, so no other demo uses it.
func newFolder(dir string, port int) (string, error) {
	folder, err := filepath.Abs(filepath.Join(dir, fmt.Sprintf("demo-%d", port)))
	if err != nil {
		return "", err
	}
	_ = os.RemoveAll(folder) // what cannot be removed does not matter
	data := filepath.Join(folder, "data")
	// Caddy writes its instance's id and its locks into data.
	return folder, errors.Join(os.MkdirAll(data, 0o700), os.Setenv("XDG_DATA_HOME", data), os.Setenv("XDG_CONFIG_HOME", data))
}

// caddyfile returns the demo's configuration. An empty home means the user's CODEX_HOME. There is
// no api_key: only programs on this machine reach the loopback addresses.
func caddyfile(addresses []string, port int, codex, home, data string) string {
	if home != "" {
		home = fmt.Sprintf("home %q", home)
	}
	return fmt.Sprintf(`{
	admin off
	persist_config off
	grace_period 3s
	storage file_system %q
	log {
		level ERROR
		format console
	}
}
http://:%d {
	bind %s
	codex {
		page on
		ollama on
		usage all
		images on
		cors app://obsidian.md
		drain_timeout 2s
		app_server %q app-server {
			%s
		}
	}
	redir / /codex/
}
`, data, port, strings.Join(addresses, " "), codex, home)
}

// waitReady waits until Codex is ready or ctx ends. After a minute it fails with /readyz's answer.
func waitReady(ctx context.Context, port int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://localhost:%d/readyz", port), nil)
	if err != nil {
		return err
	}
	client, timeout := http.Client{Timeout: 10 * time.Second}, time.After(time.Minute)
	for lastAnswer := "no answer"; ; {
		if response, err := client.Do(request); err == nil {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			lastAnswer = string(body)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timeout:
			return errors.New("codex did not become ready: " + lastAnswer)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// signalContext returns a context that ends on Ctrl-C, on SIGTERM, when the terminal is closed (not
// under nohup), or when the parent ends, since a killed make sends no signal.
func signalContext(parent int) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	go func() {
		for os.Getppid() == parent && ctx.Err() == nil {
			time.Sleep(250 * time.Millisecond)
		}
		stop()
	}()
	return ctx, stop
}

// stopCaddy prints failure, if any, and stops this process by SIGTERM. Its exit removes the folder.
func stopCaddy(folder string, failure error) error {
	if failure != nil {
		fmt.Fprintln(os.Stderr, "demo:", failure)
	}
	caddy.OnExit(func(context.Context) {
		_ = os.RemoveAll(folder)
		if failure != nil {
			os.Exit(1)
		}
	})
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return err
	}
	time.Sleep(20 * time.Second) // Caddy normally ends this process sooner; otherwise main ends it, which closes Codex's standard input
	_ = os.RemoveAll(folder)
	return errors.New("the server did not end in time")
}
