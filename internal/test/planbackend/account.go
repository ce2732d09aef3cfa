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

// SetUse sets what is used of the login's plan. Half of each window is over.
func (l *Login) SetUse(use Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := defaultMeter(use)
	m.Primary.Capacity, m.Secondary.Capacity = l.meters[0].Primary.Capacity, l.meters[0].Secondary.Capacity
	l.meters[0], l.balance = m, use.Balance
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
