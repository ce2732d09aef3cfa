package planbackend

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
)

// maxRenewal bounds the body of a renewal, in bytes.
const maxRenewal = 1 << 20

// issue renews tokens, or gives the first ones of a sign-in, for which it is asked with a form. A
// refresh token is spent by its first use.
func (b *Backend) issue(w http.ResponseWriter, r *http.Request, _ *Login) {
	if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		r.Body = http.MaxBytesReader(w, r.Body, maxRenewal)
		_ = r.ParseForm() // one that cannot be read has no code
		b.exchange(w, r.PostForm)
		return
	}
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
			writeTokens(w, renewed)
			return
		}
	}
	code := "refresh_token_reused"
	if !strings.HasPrefix(asked.Refresh, "made-up-") {
		code = "refresh_token_invalidated"
	}
	writeJSON(w, http.StatusUnauthorized, object{"error": object{"message": "The refresh token is not taken.", "type": "invalid_request_error", "code": code}})
}

func writeTokens(w http.ResponseWriter, tokens codexhome.Login) {
	writeJSON(w, http.StatusOK, object{"id_token": tokens.ID, "access_token": tokens.Access, "refresh_token": tokens.Refresh})
}
