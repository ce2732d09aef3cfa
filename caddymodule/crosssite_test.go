package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestForged: a page that may not use the API cannot start a turn by a request for which
// browsers send no preflight.
func TestForged(t *testing.T) {
	listed, err := newCORS([]string{"https://app.example"}, caddy.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	anyone, err := newCORS([]string{"*"}, caddy.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cors   *cors
		method string
		header map[string]string
		want   bool
	}{
		"a program":                {nil, "POST", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, false},
		"a page's form":            {nil, "POST", map[string]string{"Content-Type": "text/plain;charset=UTF-8", "Origin": "https://evil.example"}, true},
		"a page's form, newer":     {nil, "POST", map[string]string{"Content-Type": "text/plain", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, true},
		"no media type":            {nil, "POST", map[string]string{"Origin": "https://evil.example"}, true},
		"one that makes no sense":  {nil, "POST", map[string]string{"Origin": "https://evil.example", "Content-Type": ";"}, true},
		"a sandboxed page":         {nil, "POST", map[string]string{"Origin": "null"}, true},
		"JSON, which is asked for": {nil, "POST", map[string]string{"Content-Type": "application/json", "Origin": "app://obsidian.md", "Sec-Fetch-Site": "cross-site"}, false},
		"reading":                  {nil, "GET", map[string]string{"Origin": "https://evil.example"}, false},
		"a page of this site":      {nil, "POST", map[string]string{"Content-Type": "text/plain", "Origin": "http://example.com"}, false},
		"an origin that is listed": {listed, "POST", map[string]string{"Content-Type": "text/plain", "Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}, false},
		"one that is not":          {listed, "POST", map[string]string{"Content-Type": "text/plain", "Origin": "https://evil.example"}, true},
		"every origin":             {anyone, "POST", map[string]string{"Content-Type": "text/plain", "Origin": "https://evil.example"}, false},
	} {
		r := httptest.NewRequest(c.method, "/v1/chat/completions", nil)
		for key, value := range c.header {
			r.Header.Set(key, value)
		}
		if got := c.cors.isForged(r); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if !c.want {
			continue
		}
		w := httptest.NewRecorder()
		(&Handler{cors: c.cors}).serve(routes["/v1/chat/completions"], w, r, new(requestContext))
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
