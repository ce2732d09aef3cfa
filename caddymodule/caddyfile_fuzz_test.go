package caddymodule

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// FuzzDirective parses any text as the rest of a directive. What is accepted survives the
// way through JSON, and what is not is refused with its place.
func FuzzDirective(f *testing.F) {
	f.Fuzz(func(t *testing.T, rest string) {
		tokens, err := caddyfile.Tokenize([]byte("codex "+rest), "Fuzzfile")
		if err != nil {
			return // no directive sees it
		}
		h := new(Handler)
		if err := h.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)); err != nil {
			if !strings.Contains(err.Error(), "at Fuzzfile:") {
				t.Errorf("no place: %v", err)
			}
			return
		}
		encoded := encode(t, h)
		back := new(Handler)
		if err := caddy.StrictUnmarshalJSON(encoded, back); err != nil {
			t.Fatalf("%v in %s", err, encoded)
		}
		if !reflect.DeepEqual(h, back) || !bytes.Equal(encoded, encode(t, back)) {
			t.Errorf("%+v becomes %+v by way of %s", h, back, encoded)
		}
		_ = h.complete() // may refuse, but not panic
	})
}
