package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile" // the adapter
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	_ "github.com/caddyserver/caddy/v2/modules/logging"

	_ "github.com/caddy-codex/caddy-codex/caddymodule"
)

// caddyfile returns the configuration of the demo. Without a home, Codex uses that of the
// user. There is no api_key, but the listeners are those of loopback addresses.
func caddyfile(listeners []listener, codex, home, data string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\tadmin off\n\tpersist_config off\n\tgrace_period 3s\n\tstorage file_system %q\n", data)
	b.WriteString("\tlog {\n\t\tlevel ERROR\n\t\tformat console\n\t}\n}\n")
	b.WriteString("http:// {\n\tbind")
	for _, l := range listeners {
		fmt.Fprintf(&b, " fd/%d", l.file.Fd())
	}
	fmt.Fprintf(&b, "\n\tcodex {\n\t\tpage on\n\t\tusage all\n\t\tdrain_timeout 2s\n\t\tapp_server %q app-server {\n", codex)
	if home != "" {
		fmt.Fprintf(&b, "\t\t\thome %q\n", home)
	}
	b.WriteString("\t\t}\n\t}\n\tredir / /codex/\n\trespond \"The API is below /v1.\" 404\n}\n")
	return b.String()
}

// start starts Caddy in this process. From now on Caddy handles the signals that end it.
func start(listeners []listener, config string) error {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), nil)
	if err != nil {
		return fmt.Errorf("adapting the demo's configuration: %w", err)
	}
	caddy.TrapSignals()
	if err := caddy.Load(adapted, true); err != nil {
		return fmt.Errorf("starting Caddy: %w", err)
	}
	// Caddy has copies of its own.
	for _, l := range listeners {
		l.close()
	}
	return nil
}

// readyWait bounds the start of Codex.
const readyWait = time.Minute

// waitReady waits until the site answers that Codex is ready. The error has the reason
// that the site gives. It returns nil if ctx ends.
func waitReady(ctx context.Context, port int) error {
	limit, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	last := "no answer"
	for {
		body, ok := ask(limit, fmt.Sprintf("http://localhost:%d/readyz", port))
		switch {
		case ok || ctx.Err() != nil:
			return nil
		case limit.Err() != nil:
			return errors.New("codex did not become ready: " + last)
		case body != "":
			last = body
		}
		select {
		case <-limit.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask returns the beginning of the answer to a GET, and whether it is a 200.
func ask(ctx context.Context, url string) (string, bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error(), false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", false
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return string(body), response.StatusCode == http.StatusOK
}

// stopWait is how long Caddy and Codex may take to end before they are left to the end of
// this process: Codex exits when its standard input is closed.
const stopWait = 20 * time.Second

// stopCaddy makes Caddy exit with its own handler of SIGTERM, if no signal did, and ends
// the process. A failure is printed first.
func stopCaddy(f folder, failure error) error {
	if failure != nil {
		fmt.Fprintln(os.Stderr, "make run:", failure)
	}
	caddy.OnExit(func(context.Context) {
		f.remove()
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
	time.Sleep(stopWait)
	f.remove()
	return errors.New("the Caddy before did not end in time")
}
