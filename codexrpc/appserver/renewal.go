package appserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver/issuer"
)

const (
	// renewEarly is how long before the end of an access token a serving app-server is told to renew
	// its login, so that no request has to wait for that, and a failure can be repeated. Codex does it
	// by itself five minutes before, within a request.
	renewEarly = 10 * time.Minute
	// renewTime bounds a renewal. Codex gives up after 15 seconds.
	renewTime = 20 * time.Second
	// The pauses between two looks at the end of a token.
	minTokenWait, maxTokenWait = time.Minute, 10 * time.Minute
)

// withRelay returns the environment of a home's app-server with the address at which it gets new
// tokens. Without one it asks the issuer itself: if it has no login here, or reaches the network by
// settings of the system that are not known here.
func (p *Process) withRelay(home *privateHome, env []string) ([]string, error) {
	if home.operator == "" || home.config.Features.RespectSystemProxy {
		return env, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.relay == nil {
		relay, err := issuer.Listen(p.log)
		if err != nil {
			return nil, fmt.Errorf("listening for renewals of the login: %w", err)
		}
		p.relay = relay
	}
	p.relay.SetIssuer(issuer.Issuer{
		File: filepath.Join(home.operator, loginFiles[0]),
		Env:  slices.Concat(env, home.variables), // Codex adds these itself
	})
	return append(env, issuer.Variable+"="+p.relay.URL()), nil
}

// loginTokens are the tokens of a login with a plan.
type loginTokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Account string `json:"account_id"`
}

// readLogin returns the tokens of the login in a CODEX_HOME. They are empty for another one, such as
// an API key.
func readLogin(home string) (loginTokens, error) {
	var login struct {
		Tokens loginTokens `json:"tokens"`
	}
	content, err := readBounded(filepath.Join(home, loginFiles[0]))
	if err == nil {
		err = json.Unmarshal(content, &login)
	}
	return login.Tokens, err
}

// tokenEnd returns when the access token of the login in a CODEX_HOME ends. It reports false
// for a login that is not renewed, such as an API key, and if there is none.
func tokenEnd(home string) (end time.Time, renewable bool) {
	login, err := readLogin(home)
	if home == "" || err != nil || login.Refresh == "" {
		return time.Time{}, false // Codex reports what is wrong with it
	}
	// The token is a JWT: three parts in base64, the second with the claims.
	_, rest, _ := strings.Cut(login.Access, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	var claims struct {
		End int64 `json:"exp"` // Unix seconds
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.End == 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.End, 0), true
}

// keepLogin has a serving instance renew its login in time, until its connection ends.
func (p *Process) keepLogin(in *instance) {
	for {
		wait := maxTokenWait
		if end, renewable := tokenEnd(in.home.operator); renewable {
			left := time.Until(end) - renewEarly
			if left <= 0 {
				ctx, cancel := context.WithTimeout(context.Background(), renewTime)
				_ = in.conn.RenewLogin(ctx) // the relay logs a failure
				cancel()
			}
			wait = min(max(left, minTokenWait), maxTokenWait)
		}
		select {
		case <-time.After(wait):
		case <-in.conn.Done():
			return
		}
	}
}
