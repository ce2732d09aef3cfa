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
	// methodLogin begins a sign-in. The notification [methodLoginCompleted] reports its end.
	methodLogin = "account/login/start"
	// maxDeviceCode bounds the address and the code together, in bytes. Together, Codex's address
	// and code have some fifty bytes.
	maxDeviceCode = 2 << 10
	// maxSignInError bounds the kept text of the reason why a sign-in has failed, in bytes.
	maxSignInError = 300
)

// StartSignIn begins to sign the app-server in with a code, which the app-server requests from
// the issuer of the login. A refusal by the issuer is a *CallError.
func (c *Conn) StartSignIn(ctx context.Context) (DeviceCode, error) {
	code, err := Call[DeviceCode](ctx, c, methodLogin, struct {
		Type string `json:"type"`
	}{"chatgptDeviceCode"})
	if err == nil && (!strings.HasPrefix(code.URL, "https://") || code.Code == "" || len(code.URL)+len(code.Code) > maxDeviceCode) {
		return DeviceCode{}, errors.New("codex answers without a code, or without an address at which it can be entered")
	}
	return code, err
}

// AwaitSignIn waits for the end of the sign-in that was begun on this connection. If it returns
// nil, the login is in the app-server's CODEX_HOME. The error may quote the issuer.
func (c *Conn) AwaitSignIn(ctx context.Context) error {
	select {
	case err := <-c.session.signedIn:
		return err
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// noteSignIn stores the result of the sign-in. A connection has one sign-in.
func (c *Conn) noteSignIn(params string) {
	var err error
	if s := newScanner(wirejson.View(params)); !s.Find("success") || s.Value() != "true" {
		err = fmt.Errorf("codex says: %s", cmp.Or(cut(textAt(params, "error"), maxSignInError), "no reason"))
	}
	select {
	case c.session.signedIn <- err:
	default: // there is a result already
	}
}
