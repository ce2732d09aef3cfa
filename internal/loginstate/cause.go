package loginstate

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
)

// Cause is why a login cannot be used, as a word for the status, metrics and events.
type Cause string

// The causes. The empty cause means that nothing is wrong with the login.
const (
	PlanSpent     Cause = "plan_spent"
	NotSignedIn   Cause = "not_signed_in"
	Refused       Cause = "refused"        // the provider refuses the login
	WorkspaceGone Cause = "workspace_gone" // the account has left the workspace of the login
	Forbidden     Cause = "forbidden"
	RateLimited   Cause = "rate_limited"
	TLSRefused    Cause = "tls_refused" // the certificate of the provider, or of a proxy before it, is not trusted
	ProviderDown  Cause = "provider_down"
)

// causes has what is known of each cause.
var causes = map[Cause]struct {
	state  State
	reason string // what is wrong, for everybody
	advice string // what the operator can do
}{
	PlanSpent:     {Spent, "the plan is spent", "wait for its reset, buy credits, or add another login"},
	NotSignedIn:   {SignedOut, "nobody is signed in", "run `caddy codex login`"},
	Refused:       {SignedOut, "the provider refuses the login", "sign in again with `caddy codex login`, or renew the provider's key"},
	WorkspaceGone: {Failing, "the login's account has left its workspace", "sign in again with `caddy codex login`, and choose a workspace"},
	Forbidden:     {Failing, "the provider forbids the use of this login or from this network", "try the account in a browser on this network; leave a VPN, or set HTTPS_PROXY"},
	RateLimited:   {Failing, "the provider limits the requests of this login for a moment", "wait, send fewer requests at once, or add another login"},
	TLSRefused:    {Failing, "the certificate of the provider, or of a proxy before it, is not trusted", "set SSL_CERT_FILE to the certificates of your company's proxy"},
	ProviderDown:  {Failing, "the provider fails or cannot be reached", "check the network, its name servers, HTTPS_PROXY and the provider in config.toml"},
}

// State returns the state of a login with this cause. The empty cause has none.
func (c Cause) State() State { return causes[c].state }

// Reason says what is wrong, in words that clients may read.
func (c Cause) Reason() string { return causes[c].reason }

// Advice says what is wrong and what the operator can do. It is empty for the empty cause.
func (c Cause) Advice() string {
	if known, ok := causes[c]; ok {
		return known.reason + "; " + known.advice
	}
	return ""
}

// OfLogin reports whether only the login is the cause, so that other turns with this login would fail, too.
func (c Cause) OfLogin() bool {
	return c == PlanSpent || c == NotSignedIn || c == Refused || c == WorkspaceGone
}

// causesByCode maps codes of API errors to causes. Other codes say nothing about a login.
var causesByCode = map[apierror.Code]Cause{
	apierror.CodeUnauthorized:         Refused,
	apierror.CodeForbidden:            Forbidden,
	apierror.RateLimited.Code:         RateLimited,
	apierror.CodeServerOverloaded:     ProviderDown,
	apierror.CodeUpstreamError:        ProviderDown,
	apierror.CodeUpstreamDisconnected: ProviderDown,
	apierror.TimedOut.Code:            ProviderDown,
}

// CauseOf returns what a failure of a turn, or of a request for the account, says about the login, or "".
func CauseOf(failure error) Cause {
	if errors.Is(failure, codexrpc.ErrNotLoggedIn) {
		return NotSignedIn
	}
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	switch {
	case !ok:
		return ""
	case e.Code == codexrpc.CodeUsageLimit:
		return PlanSpent
	case e.HTTPStatus == http.StatusPaymentRequired:
		return Forbidden
	case failures.LeftWorkspace(e):
		return WorkspaceGone
	case strings.Contains(e.Message, codexrpc.UntrustedCertificate):
		return TLSRefused
	case e.Code == "inferenceHookDenied", e.Code == "tooManyDenials": // these refusals are not the provider's
		return ""
	}
	return causesByCode[failures.APIError(e).Code]
}
