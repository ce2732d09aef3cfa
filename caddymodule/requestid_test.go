package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSetRequestID(t *testing.T) {
	const own = "Az09._:/+=-"
	for name, test := range map[string]struct {
		sent string
		kept bool
	}{
		"every character allowed": {own, true},
		"one character":           {"x", true},
		"as long as allowed":      {strings.Repeat("x", 128), true},
		"too long":                {strings.Repeat("x", 129), false},
		"none":                    {"", false},
		"space":                   {"a b", false},
		"line break":              {"a\n", false},
		"header injection":        {"a\r\nX-Evil: 1", false},
		"quote":                   {`a"b`, false},
		"markup":                  {"<b>", false},
		"not ASCII":               {"ä", false},
		"placeholder":             {"{env.HOME}", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r, repl := prepared(http.MethodGet, "/healthz")
			r.Header.Set(requestIDHeader, test.sent)
			setRequestID(w, r)
			uuid, _ := repl.GetString("http.request.uuid")
			want := map[bool]string{true: test.sent, false: uuid}[test.kept]
			if got := w.Header().Values(requestIDHeader); len(got) != 1 || got[0] != want || want == "" {
				t.Errorf("the answer has %q, want %q", got, want)
			}
			// What logs of the request say is the same id.
			if got := r.Header.Values(requestIDHeader); len(got) != 1 || got[0] != want {
				t.Errorf("the request has %q, want %q", got, want)
			}
		})
	}
}

func TestRequestIDsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for range 10 {
		w := httptest.NewRecorder()
		r, _ := prepared(http.MethodGet, "/healthz")
		setRequestID(w, r)
		seen[w.Header().Get(requestIDHeader)] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d ids for ten requests", len(seen))
	}
}
