package planbackend

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// maxRenewal bounds the body of a renewal, in bytes.
const maxRenewal = 1 << 20

// issue renews tokens. A refresh token is spent by its first use.
func (b *Backend) issue(w http.ResponseWriter, r *http.Request, _ *Login) {
	var asked struct {
		GrantType string `json:"grant_type"`
		Refresh   string `json:"refresh_token"`
	}
	err := json.NewDecoder(io.LimitReader(r.Body, maxRenewal)).Decode(&asked)
	if err != nil || asked.GrantType != "refresh_token" {
		writeJSON(w, http.StatusBadRequest, object{"error": object{"message": "This is no renewal.", "code": "invalid_request"}})
		return
	}
	b.mu.Lock()
	logins := b.logins
	b.mu.Unlock()
	for _, l := range logins {
		if renewed, ok := l.renew(asked.Refresh); ok {
			writeJSON(w, http.StatusOK, object{"id_token": renewed.ID, "access_token": renewed.Access, "refresh_token": renewed.Refresh})
			return
		}
	}
	code := "refresh_token_reused"
	if !strings.HasPrefix(asked.Refresh, "made-up-") {
		code = "refresh_token_invalidated"
	}
	writeJSON(w, http.StatusUnauthorized, object{"error": object{"message": "The refresh token is not taken.", "type": "invalid_request_error", "code": code}})
}
