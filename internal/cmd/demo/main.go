// Command demo serves the API and the page on localhost: Caddy with this module in one process,
// and the scripted model if the user has no Codex login. `make run` starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

var (
	codexFlag  = flag.String("codex", ".cache/codex/node_modules/.bin/codex", "the codex to run")
	portFlag   = flag.Int("port", 8080, "the port to serve on")
	dirFlag    = flag.String("dir", "build", "the directory for the demo's folder")
	beganFlag  = flag.Int64("began", time.Now().Unix(), "when the start began, for the times that are shown, as Unix time")
	parentFlag = flag.Int("parent", os.Getppid(), "the process whose end also ends the demo")
)

func main() {
	flag.Parse()
	ctx, stop := untilEnd(*parentFlag)
	defer stop()
	if err := run(ctx, *portFlag); err != nil {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

// run starts everything, says where it is, and waits for the end.
func run(ctx context.Context, port int) error {
	codex, err := filepath.Abs(*codexFlag)
	if err != nil {
		return err
	}
	addresses, err := loopback(port)
	if err != nil {
		return err
	}
	folder, err := newFolder(*dirFlag, port)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	home, closeModel, err := chooseModel(ctx, codex, filepath.Join(folder, "codex"))
	if err != nil {
		return err
	}
	defer closeModel()
	began := time.Unix(*beganFlag, 0)
	if home == "" {
		stage(began, "your own Codex login answers")
	} else {
		stage(began, "there is no Codex login: the built-in demo model answers (`codex login` is for a real one)")
	}
	if err := start(caddyfile(addresses, port, codex, home, filepath.Join(folder, "data"))); err != nil {
		return err
	}
	// From here on Caddy ends the process.
	if err := waitReady(ctx, port); err != nil {
		return stopCaddy(folder, err)
	}
	if ctx.Err() == nil {
		stage(began, "ready")
		fmt.Printf(welcome, port)
	}
	<-ctx.Done()
	return stopCaddy(folder, nil)
}

// stage prints what is being done, with the time since the start.
func stage(began time.Time, text string) {
	fmt.Printf("[%3.0f s] %s\n", time.Since(began).Seconds(), text)
}

// welcome says what a person can do now, with the port.
const welcome = `
  playground  http://localhost:%[1]d/codex/
  the API     http://localhost:%[1]d/v1
  a try       curl http://localhost:%[1]d/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"default","messages":[{"role":"user","content":"hello"}]}'

Ctrl-C ends it.
`

// newFolder makes a directory below dir for all that Caddy and Codex would write to those of the
// user, and removes what a demo that was killed has left: only one has its port.
func newFolder(dir string, port int) (string, error) {
	folder, err := filepath.Abs(filepath.Join(dir, fmt.Sprintf("demo-%d", port)))
	if err != nil {
		return "", err
	}
	_ = os.RemoveAll(folder) // what cannot be removed does not matter
	data := filepath.Join(folder, "data")
	// Caddy keeps its instance's id and its locks there.
	return folder, errors.Join(os.MkdirAll(data, 0o700), os.Setenv("XDG_DATA_HOME", data), os.Setenv("XDG_CONFIG_HOME", data))
}

// chooseModel chooses the model that answers: the user's own with a login, as codex knows
// it, with no home; else the scripted model, for which a CODEX_HOME is written.
func chooseModel(ctx context.Context, codex, home string) (chosen string, closeModel func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if exec.CommandContext(ctx, codex, "login", "status").Run() == nil {
		return "", func() {}, nil
	}
	// The delay lets a person see that the answer is streamed.
	server, err := scriptedmodel.Listen(scriptedmodel.Options{Delay: 15 * time.Millisecond})
	if err != nil {
		return "", nil, err
	}
	if err := codexhome.Write(home, server.URL, codexhome.Options{}); err != nil {
		server.Close()
		return "", nil, err
	}
	return home, server.Close, nil
}

// untilEnd returns a context that ends on Ctrl-C, SIGTERM, a closed terminal (unless nohup
// ignores it), or the end of the parent: a make that is killed cannot pass a signal on.
func untilEnd(parent int) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	signalled, stop := signal.NotifyContext(context.Background(), signals...)
	ctx, cancel := context.WithCancel(signalled)
	go func() {
		defer cancel()
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for os.Getppid() == parent && signalled.Err() == nil {
			select {
			case <-signalled.Done():
			case <-tick.C:
			}
		}
	}()
	return ctx, stop
}
