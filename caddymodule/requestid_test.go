package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/google/uuid"
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
			setRequestID(w, r, new([2]string))
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
		setRequestID(w, r, new([2]string))
		seen[w.Header().Get(requestIDHeader)] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d ids for ten requests", len(seen))
	}
}

// TestRequestIDOfLog: a request has one uuid, that of its id: also in the access log if
// there is one, and if another handler has asked for it before.
func TestRequestIDOfLog(t *testing.T) {
	for name, test := range map[string]struct {
		logs  *caddyhttp.ServerLogConfig
		asked bool // before
	}{
		"no log":       {nil, false},
		"access log":   {new(caddyhttp.ServerLogConfig), false},
		"asked before": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			repl := caddy.NewReplacer()
			r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
			r = caddyhttp.PrepareRequest(r, repl, nil, &caddyhttp.Server{Logs: test.logs})
			before := ""
			if test.asked {
				before, _ = repl.GetString(requestUUID)
			}
			w := httptest.NewRecorder()
			setRequestID(w, r, new([2]string))
			id := w.Header().Get(requestIDHeader)
			after, _ := repl.GetString(requestUUID)
			if _, err := uuid.Parse(id); err != nil || after != id || test.asked && before != id {
				t.Errorf("the id is %q, the uuid %q, and before %q: %v", id, after, before, err)
			}
			logged := caddyhttp.GetVar(r.Context(), "uuid") != nil
			if want := test.logs != nil || test.asked; logged != want {
				t.Errorf("Caddy knows the uuid for its log: %t, want %t", logged, want)
			}
		})
	}
}
