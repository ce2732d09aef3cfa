package chat

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"image"
	"image/png"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/imagefetch"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func askAbout(url string) string {
	return e2e.ChatBody("", map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "text", "text": "say:I see it."},
		map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}},
	}}}})
}

// TestRemoteImageRefused: image_fetch off refuses URLs; with on only public addresses are dialled.
func TestRemoteImageRefused(t *testing.T) {
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	s := e2e.NewSite(t, "")
	for options, code := range map[string]string{"": "invalid_value", "image_fetch off": "invalid_value", "image_fetch on": "invalid_image_url"} {
		s.Load(s.Caddyfile(options))
		s.WaitReady()
		for _, url := range []string{server.URL + "/a.png", "https://localhost/a.png", "https://[::1]/a.png", "http://example.com/a.png"} {
			response, body := s.Post(askAbout(url), nil)
			want := code
			if strings.HasPrefix(url, "http:") {
				want = "invalid_value" // in any case
			}
			if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"code":"`+want+`"`) {
				t.Errorf("%q, %s: %d %s", options, url, response.StatusCode, body)
			}
		}
	}
	if asked {
		t.Error("a server on this machine was asked")
	}
	if n := s.Model.Stats().Requests; n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

// TestRemoteImageFetched: the model gets the image, here of this machine, which no option allows.
func TestRemoteImageFetched(t *testing.T) {
	var encoded bytes.Buffer
	must.OK(t, png.Encode(&encoded, image.NewGray(image.Rect(0, 0, 8, 8))))
	images := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old.png" {
			http.Redirect(w, r, "/new.png", http.StatusFound)
			return
		}
		_, _ = w.Write(encoded.Bytes())
	}))
	defer images.Close()
	roots := x509.NewCertPool()
	roots.AddCert(images.Certificate())
	fetcher := imagefetch.New(imagefetch.Options{Allow: func(netip.AddrPort) bool { return true }, RootCAs: roots})
	defer fetcher.Close()

	model := scriptedmodel.New(scriptedmodel.Options{})
	defer model.Close()
	modelServer := httptest.NewServer(model)
	defer modelServer.Close()
	home := t.TempDir()
	e2e.WriteHome(t, home, modelServer.URL+"/v1", codexhome.Options{})
	process := appserver.New(appserver.Config{Command: []string{e2e.CodexBinary, "app-server"}, Home: home,
		Client: codexrpc.ClientInfo{Name: "test", Title: "test", Version: "0"}}, nil)
	process.Start()
	defer process.Stop()
	if _, err := process.Instance(e2e.Context(t)); err != nil {
		t.Fatal(err)
	}
	g := gateway.New(conversation.Sole(process), gateway.Options{MaxBody: 1 << 20, MaxBodyMemory: 4 << 20, MaxConcurrent: 4, IdleTimeout: time.Minute, Images: fetcher,
		Logger: slog.New(slog.DiscardHandler),
		User:   func(*http.Request) string { return "" }})
	w := httptest.NewRecorder()
	g.Serve(gateway.Find("/v1/chat/completions"), w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(askAbout(images.URL+"/old.png"))))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "I see it.") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	last, _ := model.Last()
	if want := "data:image/png;base64," + base64.StdEncoding.EncodeToString(encoded.Bytes()); !bytes.Contains(last.Body, []byte(want)) {
		t.Errorf("the model did not get the image: %s", last.Body)
	}
}
