package planbackend

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
)

// DeviceURL is where a person enters the code of a sign-in.
const DeviceURL = "https://" + auth + "/codex/device"

// maxDevices bounds the sign-ins that are kept.
const maxDevices = 64

// device is a sign-in by a code.
type device struct {
	id, code string
	login    *Login // who has entered the code; nil: nobody
	expired  bool
	grant    string // is exchanged for tokens once, with the proof; empty: there is none
	proof    string
}

func (b *Backend) deviceCode(w http.ResponseWriter, r *http.Request, _ *Login) {
	var asked struct {
		Client string `json:"client_id"`
	}
	if json.NewDecoder(io.LimitReader(r.Body, maxRenewal)).Decode(&asked) != nil || asked.Client == "" {
		writeJSON(w, http.StatusBadRequest, object{"error": object{"message": "This is no client.", "code": "invalid_request"}})
		return
	}
	text := rand.Text()
	d := &device{id: rand.Text(), code: text[:4] + "-" + text[4:9]}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.devices = append(b.devices, d); len(b.devices) > maxDevices {
		b.devices = b.devices[1:]
	}
	writeJSON(w, http.StatusOK, object{"device_auth_id": d.id, "user_code": d.code, "interval": "1"})
}

// deviceToken tells whether somebody has entered the code: 403 as long as nobody has.
func (b *Backend) deviceToken(w http.ResponseWriter, r *http.Request, _ *Login) {
	var asked struct {
		ID   string `json:"device_auth_id"`
		Code string `json:"user_code"`
	}
	_ = json.NewDecoder(io.LimitReader(r.Body, maxRenewal)).Decode(&asked) // empty: not found
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.devices {
		switch {
		case d.id != asked.ID || d.code != asked.Code:
			continue
		case d.expired:
			writeJSON(w, http.StatusBadRequest, object{"error": object{"message": "The code has expired.", "code": "deviceauth_expired"}})
		case d.login == nil:
			writeJSON(w, http.StatusForbidden, object{"error": object{"message": "Nobody has entered the code yet.", "code": "deviceauth_authorization_pending"}})
		default:
			d.grant, d.proof = rand.Text(), rand.Text()
			writeJSON(w, http.StatusOK, object{"authorization_code": d.grant, "code_challenge": "unused", "code_verifier": d.proof})
		}
		return
	}
	writeJSON(w, http.StatusBadRequest, object{"error": object{"message": "There is no such code.", "code": "invalid_request"}})
}

// exchange gives the tokens for what deviceToken has given.
func (b *Backend) exchange(w http.ResponseWriter, form url.Values) {
	b.mu.Lock()
	var login *Login
	for _, d := range b.devices {
		if d.grant != "" && d.grant == form.Get("code") && d.proof == form.Get("code_verifier") && form.Get("grant_type") == "authorization_code" {
			login, d.grant = d.login, ""
		}
	}
	b.mu.Unlock()
	if login == nil {
		writeJSON(w, http.StatusBadRequest, object{"error": "invalid_grant"})
		return
	}
	writeTokens(w, login.issue(login.opts.Lifetime))
}

// Authorize does what a person does who enters a code as a login. It reports whether that waited.
func (b *Backend) Authorize(code string, login *Login) bool {
	return b.change(code, func(d *device) { d.login = login })
}

// Expire ends a code before somebody has entered it. It reports whether that waits for one.
func (b *Backend) Expire(code string) bool {
	return b.change(code, func(d *device) { d.expired = true })
}

func (b *Backend) change(code string, to func(*device)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.devices {
		if d.code == code && d.login == nil && !d.expired {
			to(d)
			return true
		}
	}
	return false
}
