package caddymodule

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestURLs checks which URLs a configuration may have.
func TestURLs(t *testing.T) {
	t.Setenv("TOPIC", "alerts")
	for line, want := range map[string]string{
		"codex_webhook http://localhost/{env.TOPIC}":    "",
		"codex_webhook http://localhost/{env.NO_TOPIC}": "NO_TOPIC",
		"codex_webhook :":                 "no URL",
		"codex_webhook localhost:80/a":    "no URL",
		"codex_webhook":                   "argument",
		"codex_webhook http://a http://b": "argument",
	} {
		h := new(Webhook)
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(line))
		if err == nil {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
			err = h.Provision(ctx)
			cancel()
		}
		if err := errors.Join(err, h.Cleanup()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestSlowReceiver: events beyond those that may wait are refused, none waits for the receiver, and
// the end of a configuration ends the request.
func TestSlowReceiver(t *testing.T) {
	arrived := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that the server does not notice that the client leaves
		close(arrived)
		<-r.Context().Done()
	}))
	defer receiver.Close()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	h := &Webhook{URL: receiver.URL}
	must.OK(t, h.Provision(ctx))
	event, err := caddy.NewEvent(ctx, "codex.key_used", nil)
	must.OK(t, err)
	for i := range maxWaitingEvents + 2 {
		if i == 1 {
			<-arrived
		}
		if err := h.Handle(ctx, event); (err != nil) != (i > maxWaitingEvents) {
			t.Fatal(i, err)
		}
	}
	cancel()
	if err := h.Cleanup(); err != nil {
		t.Error(err)
	}
}

// TestRedirect checks that a redirect is an error without the URL, and that its target gets nothing.
func TestRedirect(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the target gets %s with the Referer %q", r.Method, r.Referer())
	}))
	defer target.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		receiver := httptest.NewServer(http.RedirectHandler(target.URL, status))
		err := postEvent(t.Context(), receiver.URL+"/secret", []byte("{}"))
		receiver.Close()
		if err == nil || !strings.Contains(err.Error(), http.StatusText(status)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
	}
}
