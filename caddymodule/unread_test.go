package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestRefusedUnread: a request without a key is refused before its body is read. If the body
// does not arrive, this delays neither the answer nor the end of the connection.
func TestRefusedUnread(t *testing.T) {
	h := started(t, APIKey{Key: "sk-1"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain, _ := prepared(r.Method, r.URL.Path)
		plain.Body, plain.ContentLength = r.Body, r.ContentLength
		_ = h.ServeHTTP(w, plain, nil)
	}))
	defer server.Close()
	for name, test := range map[string]struct{ head, body string }{
		"a part of it":    {"Content-Length: 1000\r\n", "{"},
		"asked for first": {"Content-Length: 1000\r\nExpect: 100-continue\r\n", ""},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%s\r\n%s", test.head, test.body)
		all, err := io.ReadAll(bufio.NewReader(conn))
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 401 ") || !strings.Contains(string(all), "Connection: close") {
			t.Errorf("%s: %v %s", name, err, all)
		}
	}
}

// TestUnusedBody: a body that a request has no use for does not delay the answer, nor the end of
// the connection, if it does not arrive. If it arrives it does not matter.
func TestUnusedBody(t *testing.T) {
	h := started(t)
	var err error
	if h.cors, err = newCORS([]string{"https://app.example"}, caddy.NewReplacer()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = h.ServeHTTP(w, caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, nil), nil)
	}))
	defer server.Close()
	var asking sync.WaitGroup
	defer asking.Wait()
	const preflight = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
	const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for request, test := range map[string]struct {
		header      string
		whole, part int // the status if the body arrives, and if it does not
	}{
		"GET /healthz":                                     {"", 200, 408},
		"GET /v1/models":                                   {"", 200, 408},
		"HEAD /v1/models":                                  {"", 200, 408},
		"GET /v1/usage":                                    {"", 200, 408},
		"GET /v1/responses/resp_x":                         {"", 404, 408},
		"GET /v1/responses/resp_x?stream=true":             {"", 404, 408},
		"DELETE /v1/responses/resp_x":                      {"", 404, 408},
		"POST /v1/responses/resp_x/cancel":                 {"", 404, 408},
		"POST /v1/responses/compact":                       {"", 404, 408},
		"DELETE /v1/conversations/conv_x/items/item_x":     {"", 404, 408},
		"OPTIONS /v1/responses":                            {preflight, 204, 204},
		"GET /v1/responses":                                {handshake, 101, 408},
		"DELETE /v1/conversations/conv_x/items/item_x?x=y": {"Expect: 100-continue\r\n", 404, 408},
	} {
		asking.Go(func() { sendUnused(t, server.Listener.Addr(), request, test.header, 2, test.whole) })
		asking.Go(func() { sendUnused(t, server.Listener.Addr(), request, test.header, 1000, test.part) })
	}
}

// sendUnused sends a request with two bytes of a body of a length, and checks the status of the
// answer. If more of the body is missing the connection has to end.
func sendUnused(t *testing.T, addr net.Addr, request, header string, length, want int) {
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n{}", request, length, header)
	answers := bufio.NewReader(conn)
	response, err := http.ReadResponse(answers, nil)
	if err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(answers, nil)
	}
	if err != nil || response.StatusCode != want {
		t.Errorf("%s with %d bytes: %v %v", request, length, response, err)
		return
	}
	if length == 2 {
		return // the connection may go on
	}
	if rest, err := io.ReadAll(answers); err != nil {
		t.Errorf("%s: the connection goes on: %v after %q", request, err, rest)
	}
}
