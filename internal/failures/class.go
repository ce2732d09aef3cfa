// Package failures classifies the failures of Codex and of turns. [APIError] converts a failure to
// an error for the client. The other functions help to decide whether and how to try a turn again.
package failures

import (
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

var (
	contentRefused = apierror.NewClass("content_policy_violation", http.StatusBadRequest, 0)
	promptRefused  = apierror.NewClass("invalid_prompt", http.StatusBadRequest, 0)
	refused        = apierror.NewClass(apierror.CodeRefused, http.StatusBadRequest, 0)
	forbidden      = apierror.NewClass(apierror.CodeForbidden, http.StatusForbidden, apierror.Never)
	quotaSpent     = apierror.NewClass(apierror.CodeInsufficientQuota, http.StatusTooManyRequests, apierror.Never)
	upstreamError  = apierror.NewClass(apierror.CodeUpstreamError, http.StatusInternalServerError, 0)
	badGateway     = apierror.NewClass(apierror.CodeUpstreamError, http.StatusBadGateway, 0)
	disconnected   = apierror.NewClass(apierror.CodeUpstreamDisconnected, http.StatusBadGateway, 0)
	codexError     = apierror.NewClass("codex_error", http.StatusBadGateway, 0)
	unauthorized   = apierror.NewClass(apierror.CodeUnauthorized, http.StatusServiceUnavailable, apierror.Never) // this server is unauthorized, not the client
	misconfigured  = apierror.NewClass("codex_misconfigured", http.StatusServiceUnavailable, apierror.Never)
	notReady       = apierror.NewClass("codex_not_ready", http.StatusServiceUnavailable, apierror.Soon)
	overloaded     = apierror.NewClass(apierror.CodeServerOverloaded, http.StatusServiceUnavailable, apierror.Soon)
	exited         = apierror.NewClass(apierror.CodeExited, http.StatusServiceUnavailable, apierror.Soon)
	noPictures     = apierror.NewClass("images_unavailable", http.StatusForbidden, apierror.Never)
	noPicture      = apierror.NewClass("image_not_generated", http.StatusBadRequest, 0)
	moderated      = apierror.NewClass("moderation_blocked", http.StatusBadRequest, 0)
	internal       = apierror.NewClass("internal_error", http.StatusInternalServerError, 0)
)
