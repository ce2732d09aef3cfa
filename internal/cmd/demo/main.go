// Command demo serves the API and the page on localhost: Caddy with this module in one
// process, and the scripted model if the user has no Codex login. `make run` builds and
// starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// options are the command's flags.
type options struct {
	codex  string
	port   int
	dir    string
	began  int64
	parent int
}

func main() {
	var o options
	flag.StringVar(&o.codex, "codex", ".cache/codex/node_modules/.bin/codex", "the codex to run")
	flag.IntVar(&o.port, "port", 8080, "the port to serve on")
	flag.StringVar(&o.dir, "dir", "build", "the directory for the demo's folder")
	flag.Int64Var(&o.began, "began", time.Now().Unix(), "when the start began, for the times that are shown, as Unix time")
	flag.IntVar(&o.parent, "parent", os.Getppid(), "the process whose end also ends the demo")
	flag.Parse()
	ctx, stop := untilEnd(o.parent)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

// run starts everything, says where it is, and waits for the end.
func run(ctx context.Context, o options) error {
	codex, err := filepath.Abs(o.codex)
	if err != nil {
		return err
	}
	listeners, err := listen(o.port)
	if err != nil {
		return err
	}
	folder, err := newFolder(o.dir, o.port)
	if err != nil {
		return err
	}
	defer folder.remove()
	model, err := chooseModel(ctx, codex, folder.path("codex"))
	if err != nil {
		return err
	}
	defer model.close()
	began := time.Unix(o.began, 0)
	stage(began, model.note)
	if err := start(listeners, caddyfile(listeners, codex, model.home, folder.path("data"))); err != nil {
		return err
	}
	// From here on Caddy ends the process.
	if err := waitReady(ctx, o.port); err != nil {
		return stopCaddy(folder, err)
	}
	if ctx.Err() == nil {
		stage(began, "ready")
		fmt.Print(welcome(o.port))
	}
	<-ctx.Done()
	return stopCaddy(folder, nil)
}

// stage prints what is being done, with the time since the start.
func stage(began time.Time, text string) {
	fmt.Printf("[%3.0f s] %s\n", time.Since(began).Seconds(), text)
}

// welcome says what a person can do now.
func welcome(port int) string {
	return fmt.Sprintf(`
  playground  http://localhost:%[1]d/codex/
  the API     http://localhost:%[1]d/v1
  a try       curl http://localhost:%[1]d/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"default","messages":[{"role":"user","content":"hello"}]}'

Ctrl-C ends it.
`, port)
}
