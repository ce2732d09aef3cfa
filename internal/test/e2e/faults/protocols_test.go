package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestProtocols checks streams over HTTP/1.1, and HTTP/2 with and without TLS.
func TestProtocols(t *testing.T) {
	s := e2e.NewSite(t, "")
	secure := e2e.FreeAddr(t)
	s.Load(fmt.Sprintf(`{
		admin off
		persist_config off
		auto_https disable_redirects
		skip_install_trust
		servers {
			protocols h1 h2 h2c
		}
	}
	%[1]s {
		codex {
			%[3]s
		}
	}
	https://%[2]s {
		tls internal
		codex {
			%[3]s
		}
	}`, s.URL, secure, s.AppServer()))
	s.WaitReady()
	e2e.WaitFor(t, "the certificate", func() bool {
		conn, err := tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true, ServerName: "127.0.0.1"})
		return err == nil && conn.Close() == nil
	})

	var h1, h2c, h2 http.Protocols
	h1.SetHTTP1(true)
	h2c.SetUnencryptedHTTP2(true)
	h2.SetHTTP2(true)
	for name, c := range map[string]struct {
		url       string
		protocols *http.Protocols
		major     int
	}{
		"HTTP/1.1":           {s.URL, &h1, 1},
		"HTTP/2 without TLS": {s.URL, &h2c, 2},
		"HTTP/2 with TLS":    {"https://" + secure, &h2, 2},
		"HTTP/1.1 with TLS":  {"https://" + secure, &h1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{
				Protocols:       c.protocols,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "127.0.0.1"},
			}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for range 3 { // over the same connection
				text, major := streamOver(t, client, c.url)
				if major != c.major || e2e.StreamedContent(t, text) != "one two three four five" || !strings.HasSuffix(text, "data: [DONE]\n\n") {
					t.Errorf("HTTP/%d %q", major, text)
				}
			}
			leaveOver(t, s.At(t), client, c.url)
			if c.major == 2 {
				resetOver(t, client, c.url)
			}
		})
	}
}

func streamOver(t *testing.T, client *http.Client, url string) (text string, major int) {
	t.Helper()
	body := e2e.ChatBody("chunk=4; say:one two three four five", map[string]any{"stream": true})
	request, err := http.NewRequestWithContext(e2e.Context(t), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	must.OK(t, err)
	response, err := client.Do(request)
	must.OK(t, err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	must.OK(t, err)
	return string(all), response.ProtoMajor
}

// leaveOver leaves a stream, and checks that the turn ends.
func leaveOver(t *testing.T, s *e2e.Site, client *http.Client, url string) {
	t.Helper()
	before := s.Model.Stats().ClosedEarly
	ctx, leave := context.WithCancel(e2e.Context(t))
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions",
		strings.NewReader(e2e.ChatBody("say:Half of it; hang", map[string]any{"stream": true})))
	must.OK(t, err)
	response, err := client.Do(request)
	must.OK(t, err)
	if _, err := io.ReadFull(response.Body, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	leave()
	_ = response.Body.Close()
	if err := s.Model.WaitClosed(e2e.Context(t), before+1); err != nil {
		t.Error("the turn was not interrupted:", err)
	}
}

// resetOver checks that a connection goes on though many streams are reset, half in the body.
func resetOver(t *testing.T, client *http.Client, url string) {
	t.Helper()
	body := e2e.ChatBody("say:ok", map[string]any{"stream": true})
	for i := range 300 {
		ctx, cancel := context.WithCancel(e2e.Context(t))
		var reader io.Reader = strings.NewReader(body)
		if i%2 == 0 {
			reader = &halfBody{text: strings.NewReader(body[:len(body)/2]), ctx: ctx}
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", reader)
		must.OK(t, err)
		time.AfterFunc(time.Duration(i%10)*300*time.Microsecond, cancel)
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
		}
		cancel()
	}
	if text, _ := streamOver(t, client, url); !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("after the resets: %q", text)
	}
}

// halfBody is a body that hangs after its text.
type halfBody struct {
	text *strings.Reader
	ctx  context.Context
}

func (h *halfBody) Read(p []byte) (int, error) {
	if h.text.Len() > 0 {
		return h.text.Read(p)
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

// TestSlowUpload checks that a client which sends its body slowly or incompletely takes no slot.
func TestSlowUpload(t *testing.T) {
	s := e2e.NewSite(t, "max_concurrent 1")
	conn, err := net.Dial("tcp", s.Addr)
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n{", s.Addr)
	for range 3 {
		s.Served("say:ok")
		e2e.WaitFor(t, "the place to be free", func() bool {
			response, _ := s.Post(e2e.ChatBody("say:ok", nil), nil)
			return response.StatusCode == 200
		})
	}
}
