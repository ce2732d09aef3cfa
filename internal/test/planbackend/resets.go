package planbackend

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// resetCredit is a credit with which the windows of a plan can be reset once.
type resetCredit struct {
	id      string
	expires time.Time // zero: it does not
}

// maxResets bounds the identities of spent credits that a login remembers.
const maxResets = 64

// GrantReset gives the login a credit to reset its windows, which expires, or never at a zero time.
func (l *Login) GrantReset(id string, expires time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resets = append(l.resets, resetCredit{id, expires})
}

// Resets returns the identities of the credits that the login has.
func (l *Login) Resets() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.resets {
		ids = append(ids, c.id)
	}
	return ids
}

// credits lists the credits with which the windows can be reset.
func (b *Backend) credits(w http.ResponseWriter, _ *http.Request, login *Login) {
	login.mu.Lock()
	defer login.mu.Unlock()
	list := []object{}
	for _, c := range login.resets {
		credit := object{
			"id": c.id, "reset_type": "codex_rate_limits", "status": "available", "granted_at": time.Now().UTC().Format(time.RFC3339),
			"title": "A reset", "description": nil, "expires_at": nil,
		}
		if !c.expires.IsZero() {
			credit["expires_at"] = c.expires.UTC().Format(time.RFC3339)
		}
		list = append(list, credit)
	}
	writeJSON(w, http.StatusOK, object{"credits": list, "available_count": len(list)})
}

// spendCredit resets the windows for a credit, once for an identity of the request.
func (b *Backend) spendCredit(w http.ResponseWriter, r *http.Request, login *Login) {
	var asked struct {
		Request string `json:"redeem_request_id"`
		Credit  string `json:"credit_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Request == "" {
		writeJSON(w, http.StatusUnprocessableEntity, object{"detail": "redeem_request_id is missing"})
		return
	}
	outcome, windows := login.reset(asked.Request, asked.Credit)
	writeJSON(w, http.StatusOK, object{"code": outcome, "windows_reset": windows})
}

// reset spends a credit, or the first one if the id is empty.
func (l *Login) reset(request, id string) (outcome string, windows int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.resets, func(c resetCredit) bool { return id == "" || c.id == id })
	switch {
	case slices.Contains(l.redeemed, request):
		return "already_redeemed", 0
	case at < 0:
		return "no_credit", 0
	case l.now()[0].Primary.Used < 100 && l.meters[0].Secondary.Used < 100:
		return "nothing_to_reset", 0
	}
	l.resets = slices.Delete(l.resets, at, at+1)
	l.redeemed = append(l.redeemed, request)
	if len(l.redeemed) > maxResets {
		l.redeemed = slices.Delete(l.redeemed, 0, 1)
	}
	l.meters[0].Reset()
	return "reset", 2
}
