package failures

import (
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// pictureClasses maps HTTP statuses to classes of errors, for a provider that refuses a picture.
// The key 0 means that the provider did not answer. A status that is not in the map is a
// badGateway.
var pictureClasses = map[int]apierror.Class{
	0:                              badGateway,
	http.StatusBadRequest:          apierror.BadRequest,
	http.StatusUnauthorized:        unauthorized,
	http.StatusForbidden:           noPictures,
	http.StatusNotFound:            noPictures,
	http.StatusTooManyRequests:     apierror.RateLimited,
	http.StatusPaymentRequired:     quotaSpent,
	http.StatusRequestTimeout:      apierror.TimedOut,
	http.StatusGatewayTimeout:      apierror.TimedOut,
	http.StatusUnprocessableEntity: apierror.BadRequest,
}

// fromPicture returns the error for a picture that the provider did not make.
func fromPicture(e *turn.PictureError) *apierror.Error {
	c, known := pictureClasses[e.Status]
	switch {
	case e.Spent:
		c = quotaSpent
	case e.Status == http.StatusBadRequest && e.Code == string(moderated.Code):
		c = moderated
	case !known:
		c = badGateway
	}
	if c == apierror.RateLimited {
		c.RetryAfter = retryDelay(e.Message)
	}
	apiErr := c.New(e.Message)
	if !e.ResetsAt.IsZero() {
		apiErr.RetryAfter = max(apierror.Soon, time.Until(e.ResetsAt))
	}
	return apiErr
}
