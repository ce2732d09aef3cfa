package codexrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// DeviceCode is what a person needs to sign in with a browser on any device.
type DeviceCode struct {
	URL  string `json:"verificationUrl"`
	Code string `json:"userCode"` // to be entered at URL
}

const (
	// methodLogin begins a sign-in. The notification [methodLoginCompleted] reports the result.
	methodLogin = "account/login/start"
	// maxDeviceCode bounds URL and Code together, in bytes. In practice they have some fifty.
	maxDeviceCode = 2 << 10
	// maxSignInError bounds the reason why a sign-in has failed, in bytes. A longer reason is cut.
	maxSignInError = 300
)

// StartSignIn begins to sign the app-server in: the login's issuer gives a code, which a person
// enters in a browser. If the issuer refuses, the error is a *CallError.
func (c *Conn) StartSignIn(ctx context.Context) (DeviceCode, error) {
	code, err := Call[DeviceCode](ctx, c, methodLogin, struct {
		Type string `json:"type"`
	}{"chatgptDeviceCode"})
	if err == nil && (!strings.HasPrefix(code.URL, "https://") || code.Code == "" || len(code.URL)+len(code.Code) > maxDeviceCode) {
		return DeviceCode{}, errors.New("codex answers without a code, or without an address at which it can be entered")
	}
	return code, err
}

// AwaitSignIn waits for the result of this connection's sign-in. After nil, the app-server has
// stored the login in its CODEX_HOME. An error may quote the issuer.
func (c *Conn) AwaitSignIn(ctx context.Context) error {
	select {
	case err := <-c.server.signInResult:
		return err
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// storeSignInResult is called once: there is only one sign-in on a connection.
func (c *Conn) storeSignInResult(params string) {
	var err error
	if s := newScanner(wirejson.View(params)); !s.Find("success") || s.Value() != "true" {
		err = fmt.Errorf("codex says: %s", cmp.Or(truncate(textAt(params, "error"), maxSignInError), "no reason"))
	}
	select {
	case c.server.signInResult <- err:
	default: // there is a result already
	}
}
