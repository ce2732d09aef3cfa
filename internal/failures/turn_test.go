package failures

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestRejectsRequest checks that a 400 is about the form of the request, unless it is about what the
// request contains.
func TestRejectsRequest(t *testing.T) {
	for name, c := range map[string]struct {
		failure error
		want    bool
	}{
		"form":         {turnErr("badRequest", 400, "no parallel calls"), true},
		"parameter":    {turnErr("badRequest", 400, `{"error":{"code":"unsupported_parameter","message":"no"}}`), true},
		"instructions": {turnErr("badRequest", 400, `{"detail":"Instructions are not valid"}`), false},
		"model":        {turnErr("badRequest", 400, `{"error":{"code":"model_not_found","message":"no"}}`), false},
		"length":       {turnErr("contextWindowExceeded", 0, "too long"), false},
		"policy":       {turnErr("cyberPolicy", 0, "no"), false},
		"prompt":       {turnErr(codeOther, 0, "Your prompt was flagged."), false},
		"prompt, code": {turnErr("badRequest", 400, `{"error":{"code":"invalid_prompt","message":"flagged"}}`), false},
		"500":          {turnErr("internalServerError", 0, "no"), false},
		"connection":   {codexrpc.ErrClosed, false},
	} {
		if got := RejectsRequest(c.failure); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
