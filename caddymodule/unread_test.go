package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
