package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
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

// loopback returns the loopback addresses on which a port is free.
func loopback(port int) (addresses []string, err error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("there is no port %d: choose one with make run PORT=8080", port)
	}
	for _, address := range []string{"127.0.0.1", "::1"} {
		// Caddy would share the port with another process, which would get half of the requests.
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

// caddyfile returns the configuration of the demo. Without a home, Codex uses that of the
// user. There is no api_key, but the addresses are those of this machine.
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
		usage all
		drain_timeout 2s
		app_server %q app-server {
			%s
		}
	}
	redir / /codex/
	respond "The API is below /v1." 404
}
`, data, port, strings.Join(addresses, " "), codex, home)
}

// start starts Caddy in this process. From now on Caddy handles the signals that end it.
func start(config string) error {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), nil)
	if err != nil {
		return fmt.Errorf("adapting the demo's configuration: %w", err)
	}
	caddy.TrapSignals()
	if err := caddy.Load(adapted, true); err != nil {
		return fmt.Errorf("starting Caddy: %w", err)
	}
	return nil
}

// waitReady waits for Codex or the end of ctx. The error has the reason that the site gives.
func waitReady(ctx context.Context, port int) error {
	limit, cancel := context.WithTimeout(ctx, time.Minute)
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

// stopCaddy prints a failure and makes Caddy exit as on SIGTERM, which ends the process.
func stopCaddy(folder string, failure error) error {
	if failure != nil {
		fmt.Fprintln(os.Stderr, "make run:", failure)
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
	time.Sleep(20 * time.Second) // then Codex exits with this process, which closes its standard input
	_ = os.RemoveAll(folder)
	return errors.New("the Caddy before did not end in time")
}
