package caddymodule

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/apikeys"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

// minAdminKey is the least length of an admin key, in bytes, so that nobody can guess one.
const minAdminKey = 16

func (h *Handler) parseAdminKey(d *caddyfile.Dispenser) error {
	if !d.AllArgs(&h.AdminKey) || h.AdminKey == "" {
		return d.Err("admin_key takes one key, which must not be empty") // not ArgErr, which may show the key
	}
	return nil
}

// resolveAdminKey replaces the placeholders of the admin key and checks it. The errors do not contain it.
func (h *Handler) resolveAdminKey(repl *caddy.Replacer) error {
	if h.AdminKey == "" {
		return nil
	}
	key, err := repl.ReplaceOrErr(h.AdminKey, true, true)
	if err != nil {
		return errors.New("admin_key has a placeholder that is empty or unknown: is its variable or file set?")
	}
	key = strings.TrimSpace(key)
	hash := apikeys.Hash(sha256.Sum256([]byte(key)))
	switch _, isAPIKey := h.keys[hash]; {
	case !h.Page:
		return errors.New("admin_key is for the page: it needs `page on`")
	case len(key) < minAdminKey:
		return fmt.Errorf("admin_key must have %d characters or more, as `openssl rand -hex 16` makes them", minAdminKey)
	case isAPIKey:
		return errors.New("admin_key is also an api_key, whose users must not administer")
	}
	h.adminKey = &hash
	return nil
}

// authenticateAdmin checks that a request has the admin key and comes from no page of another
// origin. No browser adds the key by itself, so a page without the key can do nothing.
func (h *Handler) authenticateAdmin(r *http.Request) *apierror.Error {
	if crossOrigin.Check(r) != nil {
		return apierror.OriginNotAllowed(r.Header.Get("Origin"))
	}
	key := ""
	if r.Header.Get("Authorization") != "" { // the key is accepted only in this header, which access logs do not show
		key = presentedKey(r)
	}
	hash := sha256.Sum256([]byte(key))
	// Users of the file of keys must not administer. The file may have got the admin key since Provision.
	if subtle.ConstantTimeCompare(hash[:], h.adminKey[:]) == 0 || h.keyFile.Set().Find(key) != nil {
		return apierror.AdminKeyWrong()
	}
	return nil
}

// adminAction is an action of an administrator on an app-server. It returns the body of the answer.
type adminAction func(r *http.Request, p *pool.Process) (any, *apierror.Error)

// runFor runs action for the process whose id the query names, which must be one of processes.
func (action adminAction) runFor(processes []*pool.Process, r *http.Request) (any, *apierror.Error) {
	wanted := r.URL.Query().Get("app_server")
	for _, p := range processes {
		if p.ID() == wanted {
			return action(r, p)
		}
	}
	return nil, apierror.NoSuchAppServer(wanted)
}

// serve runs action for an app-server of the handler, and answers on the page's route.
func (action adminAction) serve(h *Handler, w http.ResponseWriter, r *http.Request, _ []string) {
	h.gateway.Document(w, r, func() (any, *apierror.Error) { return action.runFor(h.pool.Processes(), r) })
}

// serveAdminAPI runs action for an app-server of any handler, and answers in the admin API.
func (action adminAction) serveAdminAPI(w http.ResponseWriter, r *http.Request) error {
	body, apiErr := action.runFor(supervisor.All(), r)
	if apiErr != nil {
		return caddy.APIError{HTTPStatus: apiErr.Status, Err: errors.New(apiErr.Message)}
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeAdmin(w, body)
}

// signIn begins an app-server's sign-in, and waits for the code that a person has to enter. For a DELETE
// request, it cancels the sign-in instead. The result is the state of the sign-in.
func signIn(r *http.Request, p *pool.Process) (any, *apierror.Error) {
	if r.Method == http.MethodDelete {
		return p.CancelSignIn(), nil
	}
	current, err := p.SignIn(r.Context())
	switch {
	case err != nil:
		return nil, apierror.SignInUnderWay()
	case current.State == status.SignInFailed:
		return nil, apierror.SignInFailed(current.Reason)
	}
	return current, nil
}

// maxAttemptName bounds the Idempotency-Key of an attempt to reset a plan's windows, in bytes.
const maxAttemptName = 128

// resetOutcomes are the outcomes of an attempt to reset the windows.
var resetOutcomes = map[codexrpc.ResetOutcome]status.Reset{
	codexrpc.ResetDone:      {Outcome: "reset", Message: "A reset credit was spent: the plan's windows are reset."},
	codexrpc.ResetUseless:   {Outcome: "nothing_to_reset", Message: "No credit was spent: no window of the plan can be reset now."},
	codexrpc.ResetNoCredit:  {Outcome: "no_credit", Message: "No credit was spent: the account has none."},
	codexrpc.ResetDoneSince: {Outcome: "already_redeemed", Message: "The windows were reset by this attempt before, for one credit."},
}

// spendResetCredit spends a credit to reset the windows of an app-server's plan. The header
// Idempotency-Key names the attempt: a repetition with the same name spends no second credit.
func spendResetCredit(r *http.Request, p *pool.Process) (any, *apierror.Error) {
	attempt := r.Header.Get("Idempotency-Key")
	if attempt == "" || len(attempt) > maxAttemptName {
		return nil, apierror.InvalidRequest("Idempotency-Key", fmt.Sprintf("The header Idempotency-Key must name this attempt, in %d bytes at most: repeated with the same name, it spends no second credit.", maxAttemptName))
	}
	outcome, err := p.SpendResetCredit(r.Context(), attempt)
	if err != nil {
		return nil, apierror.ResetFailed(err.Error())
	}
	reset, known := resetOutcomes[outcome]
	if !known {
		return nil, apierror.ResetFailed("codex answers with an unknown outcome")
	}
	return reset, nil
}
