package appserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// codexRenews is how long before the end of an access token Codex renews a login, also
	// at its start, before it answers initialize.
	codexRenews = 5 * time.Minute
	// renewEarly is how long before that end one app-server of the login is told to renew
	// it, so that not all of them do so at the same time: the issuer takes a refresh token
	// once.
	renewEarly = 2 * codexRenews
	// renewTime bounds a renewal. Codex gives up after 15 seconds.
	renewTime = 20 * time.Second
	// renewPoll is the pause between two looks at a login that another app-server renews.
	renewPoll = 200 * time.Millisecond
	// The pauses between two renewals, of which the second may have to wait for the issuer.
	renewPause, maxRenewPause = time.Minute, 5 * time.Minute
	// maxTokenWait is the longest pause between two looks at the end of a token.
	maxTokenWait = 10 * time.Minute
)

// tokenEnd returns when the access token of the login in a CODEX_HOME ends. It reports false
// for a login that is not renewed, such as an API key, and if there is none.
func tokenEnd(home string) (end time.Time, renewable bool) {
	content, err := readBounded(filepath.Join(home, loginFiles[0]))
	if home == "" || err != nil {
		return time.Time{}, false
	}
	var login struct {
		Tokens struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		} `json:"tokens"`
	}
	if json.Unmarshal(content, &login) != nil || login.Tokens.Refresh == "" {
		return time.Time{}, false // Codex reports what is wrong with it
	}
	// The token is a JWT: three parts in base64, the second with the claims.
	_, rest, _ := strings.Cut(login.Tokens.Access, ".")
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

// endsWithin reports whether the access token of the login in a CODEX_HOME ends within a time,
// if that is renewed.
func endsWithin(home string, d time.Duration) bool {
	end, renewable := tokenEnd(home)
	return renewable && time.Until(end) < d
}

// renewals has the logins that an app-server of this program may be renewing, by their
// CODEX_HOME.
var renewals struct {
	sync.Mutex
	homes map[string]bool
}

// claimRenewal claims the login in a CODEX_HOME for a renewal, until release is called. It
// returns nil while another app-server renews it.
func claimRenewal(home string) (release func()) {
	renewals.Lock()
	defer renewals.Unlock()
	if renewals.homes[home] {
		return nil
	}
	if renewals.homes == nil {
		renewals.homes = make(map[string]bool)
	}
	renewals.homes[home] = true
	return func() {
		renewals.Lock()
		defer renewals.Unlock()
		delete(renewals.homes, home)
	}
}

// startClaim is what a start needs before the fork.
type startClaim struct {
	renews  bool   // Codex will renew its login, before it answers
	release func() // once it has answered
}

// claimStart claims the login for an app-server that is about to be started, if that will
// renew it. It fails with errRenewing while another one does: two cannot spend one refresh
// token.
func (p *Process) claimStart() (startClaim, error) {
	none := startClaim{release: func() {}}
	if p.cfg.Connect != "" || p.cfg.Start != nil {
		return none, nil // its login is elsewhere, or none
	}
	home, err := p.cfg.OperatorHome()
	if err != nil || !endsWithin(home, codexRenews+renewTime) {
		return none, nil
	}
	release := claimRenewal(home)
	if release == nil {
		return startClaim{}, errRenewing
	}
	return startClaim{renews: true, release: release}, nil
}

// keepLogin has a serving instance renew its login in time, unless another app-server of the
// login does, until its connection ends.
func (p *Process) keepLogin(in *instance) {
	for pause := renewPause; ; {
		if !endsWithin(in.home.operator, renewEarly) || p.renew(in) {
			pause = renewPause
		} else {
			pause = min(2*pause, maxRenewPause)
		}
		wait := pause
		if end, renewable := tokenEnd(in.home.operator); renewable {
			wait = max(wait, min(time.Until(end)-renewEarly, maxTokenWait))
		}
		if !p.heedRefusals(in, wait) {
			return
		}
	}
}

// heedRefusals has an instance renew a login that the back end refuses, for a time. It reports false
// if the connection has ended.
func (p *Process) heedRefusals(in *instance, wait time.Duration) bool {
	timer, tried := time.NewTimer(wait), time.Time{}
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-in.refused:
			// Once is enough: other requests with the old token may be refused meanwhile.
			if time.Since(tried) > renewPause {
				p.renewRefused(in)
				tried = time.Now()
			}
		case <-in.conn.Done():
			return false
		}
	}
}

// renewRefused has an instance renew a login that the back end refuses, before Codex does: it would
// do so within a question for the user's settings, which it gives up after five seconds, and spend
// the same token again with the next one, by which the login would be lost.
func (p *Process) renewRefused(in *instance) {
	home := in.home.operator
	release := claimRenewal(home)
	if release == nil {
		return
	}
	defer release()
	if loginFileOf(home) != in.login && writtenWithin(home, renewPause) {
		return // what Codex said was about the old one
	}
	p.renewHeld(in)
}

// writtenWithin reports whether the login in a CODEX_HOME was written so short a time ago.
func writtenWithin(home string, d time.Duration) bool {
	file, err := os.Stat(filepath.Join(home, loginFiles[0]))
	return err == nil && time.Since(file.ModTime()) < d
}

// LoginRenewed waits while another app-server renews the login of this one, and reports whether the
// login was renewed in these moments, so that a turn for which the old one was refused may succeed.
func (p *Process) LoginRenewed(ctx context.Context) bool {
	home, err := p.cfg.OperatorHome()
	if err != nil || home == "" || p.cfg.Connect != "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	for isRenewed(home) {
		select {
		case <-time.After(renewPoll):
		case <-ctx.Done():
			return false
		}
	}
	return writtenWithin(home, renewTime)
}

// isRenewed reports whether an app-server of this program may be renewing the login in a
// CODEX_HOME.
func isRenewed(home string) bool {
	renewals.Lock()
	defer renewals.Unlock()
	return renewals.homes[home]
}

// renew has an instance renew its login. It reports false if that has failed. The instance is
// not stopped meanwhile: the issuer may have spent the old tokens already.
func (p *Process) renew(in *instance) (renewed bool) {
	release := claimRenewal(in.home.operator)
	if release == nil {
		return true // by another one
	}
	defer release()
	if !endsWithin(in.home.operator, renewEarly) {
		return true
	}
	return p.renewHeld(in)
}

// renewHeld is renew for a login that is claimed.
func (p *Process) renewHeld(in *instance) (renewed bool) {
	in.renewing.Lock()
	defer in.renewing.Unlock()
	before := loginFileOf(in.home.operator)
	ctx, cancel := context.WithTimeout(context.Background(), renewTime)
	defer cancel()
	err := in.conn.RenewLogin(ctx)
	// Codex does not say whether it has succeeded.
	if renewed = loginFileOf(in.home.operator) != before; !renewed && in.conn.Err() == nil {
		p.log().Warn("codex could not renew its login, and tries it again; if the provider refuses it, run `codex login`", "error", err)
	}
	return renewed
}
