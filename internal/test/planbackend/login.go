package planbackend

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
)

// LoginOptions describe a login. The zero value has the defaults.
type LoginOptions struct {
	// Plan is that of the account. The default is pro.
	Plan string
	// Lifetime is that of an access token. The default is ten days.
	Lifetime time.Duration
	// Model answers instead of that of the back end.
	Model http.Handler
}

// Login is a user with an account.
type Login struct {
	Account, User, Email string

	backend *Backend
	opts    LoginOptions

	mu      sync.Mutex
	access  map[string]time.Time // the tokens that are taken, and their ends
	refresh string               // the one that is taken; empty: none
	newest  codexhome.Login
	meters  []Meter // the plan's first
	metered bool    // see SetMeters
	balance string  // see Use
	told    []Told
	left    bool // see LeaveWorkspace
	resets  []resetCredit
	// redeemed are the identities of the requests that have spent one.
	redeemed []string
}

// maxAccess bounds the access tokens of a login that are taken.
const maxAccess = 256

// accounts counts the logins of all back ends: the usage that a process counts keeps their accounts apart.
var accounts atomic.Int64

// AddLogin adds a login with its first tokens.
func (b *Backend) AddLogin(opts LoginOptions) *Login {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := accounts.Add(1)
	opts.Plan = cmp.Or(opts.Plan, "pro")
	opts.Lifetime = cmp.Or(opts.Lifetime, 10*24*time.Hour)
	l := &Login{
		Account: fmt.Sprintf("account-%d-%s", n, rand.Text()), User: fmt.Sprintf("user-%d", n), Email: fmt.Sprintf("user-%d@example.com", n),
		backend: b, opts: opts, access: make(map[string]time.Time), meters: []Meter{defaultMeter(Use{Primary: 5, Secondary: 1})},
	}
	l.issue(opts.Lifetime)
	b.logins = append(b.logins, l)
	return l
}

// issue makes new tokens. The access tokens before stay valid until their end, the refresh
// token does not.
func (l *Login) issue(lifetime time.Duration) codexhome.Login {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for token, end := range l.access {
		if now.After(end) || len(l.access) >= maxAccess {
			delete(l.access, token)
		}
	}
	l.refresh = "made-up-" + rand.Text()
	l.newest = codexhome.Login{
		Account: l.Account, ID: l.token(now, lifetime), Access: l.token(now, lifetime), Refresh: l.refresh, Renewed: now,
	}
	l.access[l.newest.Access] = now.Add(lifetime)
	return l.newest
}

// token returns a token with the claims that Codex reads, and a signature that nobody checks.
func (l *Login) token(now time.Time, lifetime time.Duration) string {
	part := func(claims object) string {
		text, _ := json.Marshal(claims) // texts and numbers alone
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(object{"alg": "none", "typ": "JWT"}) + "." + part(object{
		"iat": now.Unix(), "exp": now.Add(lifetime).Unix(), "jti": rand.Text(), "email": l.Email,
		"https://api.openai.com/auth": object{
			"chatgpt_plan_type": l.opts.Plan, "chatgpt_account_id": l.Account, "chatgpt_user_id": l.User, "user_id": l.User,
		},
	}) + ".c2ln"
}

// Tokens returns the newest tokens.
func (l *Login) Tokens() codexhome.Login {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// Write writes a CODEX_HOME with the newest tokens, an empty config.toml unless there is one,
// and the variables of [Backend.Env] in .env, which Codex reads.
func (l *Login) Write(dir string) error {
	return codexhome.WriteLogin(dir, l.Tokens(), l.backend.Env()...)
}

// Expire is [Login.Write] with tokens that can be renewed: the access token has ended.
func (l *Login) Expire(dir string) error {
	l.issue(-time.Minute)
	return l.Write(dir)
}

// Refuse makes the back end take no access token that was issued so far. They can be renewed.
func (l *Login) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.access)
}

// Revoke makes the back end take no token that was issued so far: the user has to log in again.
func (l *Login) Revoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.access)
	l.refresh = ""
}

// renew spends a refresh token. It returns false if that is not the login's.
func (l *Login) renew(refresh string) (codexhome.Login, bool) {
	l.mu.Lock()
	taken := refresh != "" && l.refresh == refresh
	if taken {
		l.refresh = ""
	}
	l.mu.Unlock()
	if !taken {
		return codexhome.Login{}, false
	}
	return l.issue(l.opts.Lifetime), true
}

// owns reports whether an access token is the login's, by its claims.
func (l *Login) owns(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Email string `json:"email"`
	}
	return err == nil && json.Unmarshal(text, &claims) == nil && claims.Email == l.Email
}

// takes reports whether an access token is valid.
func (l *Login) takes(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, ok := l.access[token]
	return ok && time.Now().Before(end)
}

func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

// loginOf returns the login of a call's token, valid or not; nil: none.
func (b *Backend) loginOf(r *http.Request) *Login {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.logins {
		if l.owns(bearer(r)) {
			return l
		}
	}
	return nil
}

// needsLogin refuses a call without a valid token.
func needsLogin(answer answerer) answerer {
	return func(w http.ResponseWriter, r *http.Request, login *Login) {
		switch {
		case login == nil:
			refuseToken(w, "token_invalidated")
		case !login.takes(bearer(r)):
			refuseToken(w, "token_expired")
		default:
			answer(w, r, login)
		}
	}
}

func refuseToken(w http.ResponseWriter, code string) {
	writeJSON(w, http.StatusUnauthorized, object{
		"error":  object{"message": "The token is not taken. Sign in again.", "type": nil, "code": code, "param": nil},
		"status": http.StatusUnauthorized,
	})
}
