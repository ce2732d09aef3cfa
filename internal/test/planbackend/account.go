package planbackend

import (
	"net/http"
	"time"
)

// Use is what is used of a plan.
type Use struct {
	// Primary and Secondary are percentages used of the windows of five hours and of a week.
	Primary, Secondary int
	// Spent says that the plan must not be used until the end of the window.
	Spent bool
	// Balance are the credits, in the plan's own unit; empty for none.
	Balance string
}

// SetUse sets what is used of the login's plan.
func (l *Login) SetUse(use Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use = use
}

// LeaveWorkspace removes the login's account from the accounts that the back end lists, as if the user
// had left the workspace, until rejoin is called.
func (l *Login) LeaveWorkspace() (rejoin func()) {
	set := func(left bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.left = left
	}
	set(true)
	return func() { set(false) }
}

// accounts answers with the account of the login, or with another one after LeaveWorkspace.
func (b *Backend) accounts(w http.ResponseWriter, _ *http.Request, login *Login) {
	login.mu.Lock()
	account := login.Account
	if login.left {
		account = "another-" + account
	}
	login.mu.Unlock()
	writeJSON(w, http.StatusOK, object{
		"accounts": []object{{
			"id": account, "structure": "personal", "plan_type": login.opts.Plan,
			"workspace_backend_origin": "https://" + chatgpt, "account_routing_override": "NO_CONSTRAINT",
		}},
		"account_ordering": []string{account}, "default_account_id": account,
	})
}

func (b *Backend) settings(w http.ResponseWriter, _ *http.Request, _ *Login) {
	writeJSON(w, http.StatusOK, object{"settings": object{}})
}

const (
	primaryWindow   = 5 * time.Hour
	secondaryWindow = 7 * 24 * time.Hour
)

// usage answers with what is used of the plan.
func (b *Backend) usage(w http.ResponseWriter, _ *http.Request, login *Login) {
	login.mu.Lock()
	use, resets := login.use, len(login.resets)
	login.mu.Unlock()
	window := func(percent int, length time.Duration) object {
		left := length / 2
		return object{
			"used_percent": percent, "limit_window_seconds": int(length / time.Second),
			"reset_after_seconds": int(left / time.Second), "reset_at": time.Now().Add(left).Unix(),
		}
	}
	answer := object{
		"plan_type": login.opts.Plan, "account_id": login.Account, "user_id": login.User, "email": login.Email,
		"rate_limit": object{
			"allowed": !use.Spent, "limit_reached": use.Spent,
			"primary_window": window(use.Primary, primaryWindow), "secondary_window": window(use.Secondary, secondaryWindow),
		},
		"credits":                  object{"has_credits": use.Balance != "", "unlimited": false, "balance": use.Balance},
		"rate_limit_reset_credits": object{"available_count": resets},
	}
	writeJSON(w, http.StatusOK, answer)
}
