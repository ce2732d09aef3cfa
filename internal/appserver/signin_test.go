package appserver

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestSignIn checks the code and each end of a sign-in, of which nothing is left but the
// operator's home. None needs an app-server that runs.
func TestSignIn(t *testing.T) {
	left := errors.New("left")
	for mode, want := range map[string]string{
		"":                            "",
		"logged-out":                  "",
		"sign-in-fails":               "no such code",
		"nobody-signs-in":             left.Error(),
		"refuses:account/login/start": "unknown variant",
		"fails":                       "connection has ended",
	} {
		t.Run(mode, func(t *testing.T) {
			home, temp := filepath.Join(t.TempDir(), "codex"), t.TempDir()
			t.Setenv("TMPDIR", temp)
			p := newTestProcess(t, mode, func(cfg *Config) { cfg.Home = home })
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			var code codexrpc.DeviceCode
			err := p.SignIn(ctx, func(shown codexrpc.DeviceCode, expires time.Time) {
				if code = shown; time.Until(expires) > signInTimeout {
					t.Errorf("it expires at %s", expires)
				}
				if mode == "nobody-signs-in" {
					leave(left)
				}
			})
			if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
				t.Errorf("it ends with %v, want %q", err, want)
			}
			begun := mode != "fails" && !strings.HasPrefix(mode, "refuses")
			if begun != (code == codexrpc.DeviceCode{URL: "https://issuer.example/device", Code: "AB-CD"}) {
				t.Errorf("the code is %+v", code)
			}
			if _, err := os.Stat(home); err != nil {
				t.Error(err)
			}
			if left := entries(t, temp); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// TestNoSignIn checks where there can be none: for an app-server of no command, and for a login in
// the keyring, which the app-servers here cannot read.
func TestNoSignIn(t *testing.T) {
	home := t.TempDir()
	writeTestFile(t, filepath.Join(home, "config.toml"), `cli_auth_credentials_store = "keyring"`)
	for want, cfg := range map[string]Config{
		"not started by a command": {Start: func() (*Program, error) { return nil, io.EOF }},
		"keyring":                  {Home: home, Command: []string{"true"}},
	} {
		err := New(cfg, nil).SignIn(t.Context(), func(codexrpc.DeviceCode, time.Time) { t.Error("there is a code") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
