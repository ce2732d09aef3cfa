package appserver

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestThroughTheProxy renews a login at the address that users have, through the proxy and with the
// certificates of the environment, in each way in which that may say them.
func TestThroughTheProxy(t *testing.T) {
	plan, err := planbackend.Listen(planbackend.Options{Model: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	certificate := ""
	for _, variable := range plan.Env() {
		if value, ok := strings.CutPrefix(variable, certFileVariable+"="); ok {
			certificate = value
		}
	}
	proxy := plan.Proxy()
	for _, env := range [][]string{
		plan.Env(),
		{"HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=" + proxy, certFileVariable + "=" + certificate},
		{"ALL_PROXY=" + proxy, certFileVariable + "=" + certificate, "NO_PROXY=localhost,127.0.0.1"},
		{"ALL_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=" + proxy, caVariable + "=" + certificate},
	} {
		login := plan.AddLogin(planbackend.LoginOptions{})
		i := tokenIssuer{Env: env}
		body := `{"grant_type":"refresh_token","refresh_token":"` + login.Tokens().Refresh + `"}`
		got, err := i.post(t.Context(), nil, []byte(body))
		if err != nil || got.status != http.StatusOK || got.refreshToken() != login.Tokens().Refresh {
			t.Errorf("%q: %d %s, %v", env, got.status, got.body, err)
		}
	}
	i := tokenIssuer{Env: []string{"HTTPS_PROXY=" + proxy, certFileVariable + "=" + filepath.Join(t.TempDir(), "none")}}
	if got, err := i.post(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the certificate: %+v, %v", got, err)
	}
}
