package appserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// world is a relay of a login, and its issuer.
type world struct {
	*tokenRelay
	t      *testing.T
	token  string // the first refresh token
	file   string
	asked  atomic.Int64
	answer chan func(http.ResponseWriter) // for each question
	log    bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, token: "r1-" + rand.Text(), file: filepath.Join(t.TempDir(), "auth.json"), answer: make(chan func(http.ResponseWriter), 8)}
	must.OK(t, os.WriteFile(w.file, []byte(strings.Replace(someLogin, "r1", w.token, 1)), 0o600))
	issuer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.asked.Add(1)
		if r.URL.Path != "/token" || r.Header.Get("Originator") != "codex" || r.Header.Get("Cookie") != "" || !bytes.Contains(body, []byte("client")) {
			t.Errorf("the issuer is asked at %s with %v: %s", r.URL, r.Header, body)
		}
		select {
		case answer := <-w.answer:
			answer(rw)
		case <-time.After(patience):
		}
	}))
	t.Cleanup(issuer.Close)
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	relay, err := listenRelay(func() *slog.Logger { return log })
	must.OK(t, err)
	w.tokenRelay = relay
	t.Cleanup(relay.close)
	relay.issuer.Store(&tokenIssuer{File: w.file, Env: []string{issuerVariable + "=http://not.used.invalid", issuerVariable + "=" + issuer.URL + "/token"}})
	return w
}

func (w *world) next() string { return "next-" + w.token }

// renewed is an answer with the next refresh token.
func (w *world) renewed(rw http.ResponseWriter) {
	_, _ = fmt.Fprintf(rw, `{"access_token":"a2","refresh_token":"%s"}`, w.next())
}

// ask asks the relay for new tokens, and returns the answer with its status.
func (w *world) ask(ctx context.Context, refresh string) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(`{"client_id":"client","refresh_token":"`+refresh+`"}`))
	if err != nil {
		w.t.Error(err)
		return 0, ""
	}
	request.Header = http.Header{"Originator": {"codex"}, "Cookie": {"x"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func (w *world) await(n int64) {
	w.t.Helper()
	must.Happen(w.t, fmt.Sprintf("the issuer was asked %d times", n), func() bool { return w.asked.Load() >= n })
}

// TestAskedOnce has many ask for the renewal of one login, of which the first leaves, at two relays,
// during it and after it. The issuer is asked once, everybody else gets the same answer, and the tokens
// are stored. Nobody can renew the new ones in the next moments.
func TestAskedOnce(t *testing.T) {
	w := newWorld(t)
	second, err := listenRelay(w.tokenRelay.log)
	must.OK(t, err)
	defer second.close()
	second.issuer.Store(w.issuer.Load())
	first, leave := context.WithCancel(t.Context())
	left := make(chan int)
	go func() {
		status, _ := w.ask(first, w.token)
		left <- status
	}()
	w.await(1)
	leave()
	if status := <-left; status != 0 {
		t.Errorf("the one that left got %d", status)
	}
	var all sync.WaitGroup
	check := func(refresh string) {
		if status, text := w.ask(t.Context(), refresh); status != http.StatusOK || !strings.Contains(text, w.next()) {
			t.Errorf("%d %s", status, text)
		}
	}
	for range 8 {
		all.Go(func() { check(w.token) })
	}
	other := &world{tokenRelay: second, t: t}
	all.Go(func() {
		if status, text := other.ask(t.Context(), w.token); status != http.StatusOK || !strings.Contains(text, w.next()) {
			t.Errorf("at the other relay: %d %s", status, text)
		}
	})
	w.answer <- w.renewed
	all.Wait()
	check(w.token)
	check(w.next())
	w.close() // it would leave an app-server the time to store them
	if n := w.asked.Load(); n != 1 || refreshIn(t, w.file) != w.next() {
		t.Errorf("after %d questions the file has %s", n, refreshIn(t, w.file))
	}
}

// TestCloseDuringTheRenewal checks that a relay ends with its renewals, and begins none afterwards.
func TestCloseDuringTheRenewal(t *testing.T) {
	w := newWorld(t)
	go w.ask(t.Context(), w.token)
	w.await(1)
	closed := make(chan struct{})
	go func() {
		w.close()
		close(closed)
	}()
	select {
	case <-closed:
		t.Error("it was closed during a renewal")
	case <-time.After(50 * time.Millisecond):
	}
	w.answer <- w.renewed
	<-closed
	if got := refreshIn(t, w.file); got != w.next() {
		t.Errorf("the file has %s", got)
	}
	if w.renew("another", w.file, func() answer { return answer{} }) != nil {
		t.Error("a renewal was begun")
	}
}

// TestFailures checks what is said of a failed renewal, and how long that holds.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	w.answer <- func(rw http.ResponseWriter) { http.Error(rw, "secret", http.StatusInternalServerError) }
	if status, _ := w.ask(t.Context(), w.token); status != http.StatusInternalServerError {
		t.Errorf("it answers %d", status)
	}
	if !strings.Contains(w.log.String(), "500 Internal Server Error") || strings.Contains(w.log.String(), "secret") || strings.Contains(w.log.String(), w.token) {
		t.Errorf("the log is %s", &w.log)
	}
	w.issuer.Store(&tokenIssuer{File: w.file, Env: []string{issuerVariable + "=http://127.0.0.1:1/"}})
	if status, _ := w.ask(t.Context(), "another-"+w.token); status != http.StatusBadGateway {
		t.Errorf("an issuer that cannot be reached is %d", status)
	}
	if !w.fails.Load() {
		t.Error("the issuer does not fail")
	}
	for want, answers := range map[time.Duration][]answer{
		keepTokens:  {{status: 200}},
		keepRefusal: {{status: 401, body: []byte(`{"error":{}}`)}, {status: 400, body: []byte(`{"error":"invalid_grant"}`)}},
		keepFailure: {{status: 500, body: []byte(`{}`)}, {status: 401, body: []byte(`<html>`)}, {status: 403, body: []byte(`{}`)}, {status: 429}, {}},
	} {
		for _, a := range answers {
			if got := a.keepTime(); got != want {
				t.Errorf("%+v is kept for %s", a, got)
			}
		}
	}
}

// The issuer is asked only for who knows the secret, and only for renewals.
func TestStrangers(t *testing.T) {
	w := newWorld(t)
	body := `{"client_id":"client","refresh_token":"r1"}`
	for name, c := range map[string]struct {
		method, url, body string
		status            int
	}{
		"another path": {http.MethodPost, w.url[:len(w.url)-1], body, http.StatusNotFound},
		"a GET":        {http.MethodGet, w.url, "", http.StatusNotFound},
		"no token":     {http.MethodPost, w.url, `{"grant_type":"refresh_token"}`, http.StatusBadRequest},
		"no JSON":      {http.MethodPost, w.url, `refresh_token=r1`, http.StatusBadRequest},
		"too long":     {http.MethodPost, w.url, body + strings.Repeat(" ", maxRequest), http.StatusBadRequest},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader(c.body))
		must.OK(t, err)
		response, err := http.DefaultClient.Do(request)
		must.OK(t, err)
		_ = response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s: %s", name, response.Status)
		}
	}
	if n := w.asked.Load(); n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
}
