package failures

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// TestCodesAreListed: errors of this server have labels of their own.
func TestCodesAreListed(t *testing.T) {
	listed := func(what any, code apierror.Code) {
		if code != "" && code.Label() != string(code) {
			t.Errorf("%v: the code %q is not listed", what, code)
		}
	}
	for _, s := range sentinels {
		listed(s.err, s.Code)
	}
	for variant, class := range turnClasses {
		listed(variant, class.Code)
	}
	for code, class := range providerClasses {
		listed(code, class.Code)
	}
	for status, class := range statusClasses {
		listed(status, class.Code)
	}
	for _, c := range messageClasses {
		listed(c.message, c.Code)
	}
}
