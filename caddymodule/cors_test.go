package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestOrigins(t *testing.T) {
	for given, want := range map[string]string{
		"https://app.example":      "https://app.example",
		"HTTPS://App.Example/":     "https://app.example",
		"https://app.example:443":  "https://app.example",
		"http://app.example:80":    "http://app.example",
		"https://app.example:8443": "https://app.example:8443",
		"http://localhost":         "http://localhost",
		"http://[::1]:3000":        "http://[::1]:3000",
		"app://obsidian.md":        "app://obsidian.md",
		"capacitor://localhost":    "capacitor://localhost",
	} {
		if got, err := canonicalOrigin(given); err != nil || got != want {
			t.Errorf("%s becomes %q, %v; want %q", given, got, err, want)
		}
	}
	for _, given := range []string{
		"", "null", "app.example", "//app.example", "https://", "https:app.example", "https://app.example/path", "https://user@app.example",
		"https://app.example?", "https://app.example?a=b", "https://app.example#", "https://*.example", "https://a b", "https://b\u00fccher.example",
	} {
		if got, err := canonicalOrigin(given); err == nil || !strings.Contains(err.Error(), "is not an origin") {
			t.Errorf("%q becomes %q, %v", given, got, err)
		}
	}
}

func asks(method, origin string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "/v1/chat/completions", nil)
	r.Host = "localhost"
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestCORS(t *testing.T) {
	const obsidian = "app://obsidian.md"
	preflight := []string{"Access-Control-Request-Method", "POST"}
	for name, test := range map[string]struct {
		origins  []string
		request  *http.Request
		answered int // 0: it goes on
		want     map[string]string
	}{
		"off":                            {nil, asks("OPTIONS", obsidian, preflight...), 0, map[string]string{"Vary": "", "Access-Control-Allow-Origin": ""}},
		"no page":                        {[]string{obsidian}, asks("POST", ""), 0, map[string]string{"Vary": "Origin", "Access-Control-Allow-Origin": ""}},
		"no page, wildcard":              {[]string{"*"}, asks("POST", ""), 0, map[string]string{"Vary": "Origin", "Access-Control-Allow-Origin": ""}},
		"listed":                         {[]string{"http://localhost", obsidian}, asks("POST", obsidian), 0, map[string]string{"Vary": "Origin", "Access-Control-Allow-Origin": obsidian, "Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": exposedHeaders}},
		"not listed":                     {[]string{obsidian}, asks("POST", "https://evil.example"), 0, map[string]string{"Vary": "Origin", "Access-Control-Allow-Origin": "", "Access-Control-Allow-Credentials": "", "Access-Control-Expose-Headers": ""}},
		"wildcard":                       {[]string{"*"}, asks("POST", "https://any.example"), 0, map[string]string{"Vary": "Origin", "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "", "Access-Control-Expose-Headers": exposedHeaders}},
		"no origin of its own":           {[]string{obsidian}, asks("OPTIONS", "null", preflight...), 403, map[string]string{"Access-Control-Allow-Origin": ""}},
		"wildcard, no origin of its own": {[]string{"*"}, asks("POST", "null"), 0, map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": ""}},
		"another port":                   {[]string{"http://localhost:3000"}, asks("POST", "http://localhost"), 0, map[string]string{"Access-Control-Allow-Origin": ""}},
		"plain OPTIONS":                  {[]string{"*"}, asks("OPTIONS", obsidian), 0, map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": ""}},
		"refused preflight":              {[]string{obsidian}, asks("OPTIONS", "https://evil.example", preflight...), 403, map[string]string{"Vary": "Origin", "Access-Control-Allow-Origin": "", "Access-Control-Allow-Headers": ""}},
		"part of an origin":              {[]string{"https://app.example"}, asks("OPTIONS", "https://app.example.evil", preflight...), 403, nil},
		"wildcard preflight":             {[]string{"*"}, asks("OPTIONS", obsidian, preflight...), 204, map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "", "Access-Control-Max-Age": "7200"}},
		"preflight": {[]string{obsidian},
			asks("OPTIONS", obsidian, append(preflight, "Access-Control-Request-Headers", "authorization, content-type,x-stainless-os", "Access-Control-Request-Private-Network", "true")...), 204,
			map[string]string{
				"Access-Control-Allow-Origin": obsidian, "Access-Control-Allow-Credentials": "true", "Access-Control-Allow-Methods": "GET, HEAD, POST, DELETE, OPTIONS",
				"Access-Control-Allow-Headers": "authorization, content-type,x-stainless-os", "Access-Control-Allow-Private-Network": "true",
				"Vary": "Origin, Access-Control-Request-Headers, Access-Control-Request-Private-Network",
			}},
		"no private network": {[]string{obsidian}, asks("OPTIONS", obsidian, preflight...), 204, map[string]string{"Access-Control-Allow-Private-Network": "", "Access-Control-Allow-Headers": ""}},
		"odd headers":        {[]string{obsidian}, asks("OPTIONS", obsidian, append(preflight, "Access-Control-Request-Headers", "a: b")...), 204, map[string]string{"Access-Control-Allow-Headers": ""}},
		"too many headers":   {[]string{obsidian}, asks("OPTIONS", obsidian, append(preflight, "Access-Control-Request-Headers", strings.Repeat("x", maxRequestedHeaders+1))...), 204, map[string]string{"Access-Control-Allow-Headers": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newCORS(test.origins, caddy.NewReplacer())
			must.OK(t, err)
			w := httptest.NewRecorder()
			if answered := c.serve(w, test.request); answered != (test.answered != 0) || (answered && w.Code != test.answered) {
				t.Errorf("answered: %t, %d %s", answered, w.Code, w.Body)
			}
			for key, want := range test.want {
				if got := strings.Join(w.Header().Values(key), ", "); got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

// Pages can read every header of this module, on every answer.
func TestPagesReadErrors(t *testing.T) {
	h := fakeHandler(t, t.Name())
	h.CORS = []string{"app://obsidian.md"}
	h.APIKeys = []APIKey{{Key: "k"}}
	h = provision(t, h).handlers[0]
	for _, target := range []string{"/v1/chat/completions", "/v1/no-such", "/v1/models", "/readyz"} {
		r, _ := prepared(http.MethodPost, target)
		r.Header.Set("Origin", "app://obsidian.md")
		w := httptest.NewRecorder()
		if err := h.ServeHTTP(w, r, nil); err != nil || w.Code < 400 || w.Header().Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("%s: %v, %d %v", target, err, w.Code, w.Header())
		}
		exposed := strings.Split(w.Header().Get("Access-Control-Expose-Headers"), ", ")
		for name := range w.Header() {
			if strings.HasPrefix(name, "X-") && !slices.Contains(exposed, name) {
				t.Errorf("%s: pages cannot read %s", target, name)
			}
		}
	}
}

// TestForged: a page that may not use the API cannot start a turn by a request for which
// browsers send no preflight.
func TestForged(t *testing.T) {
	listed, anyone := cors{"https://app.example"}, cors{anyOrigin}
	for name, c := range map[string]struct {
		cors   cors
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
