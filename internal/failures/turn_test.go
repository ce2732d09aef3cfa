package failures

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// TestPictures checks what clients are told of a picture that was not made.
func TestPictures(t *testing.T) {
	const said = "The picture could not be made: no"
	for _, c := range []struct {
		err  error
		want want
	}{
		{&turn.PictureError{Status: 400, Code: "moderation_blocked", Message: said}, want{status: 400, kind: "invalid_request_error", code: "moderation_blocked"}},
		{&turn.PictureError{Status: 400, Code: "other", Message: said}, want{status: 400, kind: "invalid_request_error"}},
		{&turn.PictureError{Status: 429, Message: said, Spent: true}, want{status: 429, kind: "insufficient_quota", code: "insufficient_quota", retry: noUse}},
		{&turn.PictureError{Status: 429, Message: said}, want{status: 429, kind: "rate_limit_error", code: "rate_limit_exceeded", retry: time.Second}},
		{&turn.PictureError{Status: 401, Message: said}, want{status: 503, kind: "server_error", code: "codex_unauthorized", retry: noUse, message: signInAgain}},
		{&turn.PictureError{Status: 403, Message: said}, want{status: 403, kind: "permission_error", code: "images_unavailable", retry: noUse}},
		{&turn.PictureError{Status: 404, Message: said}, want{status: 403, kind: "permission_error", code: "images_unavailable", retry: noUse}},
		{&turn.PictureError{Status: 500, Message: said}, want{status: 502, kind: "server_error", code: "upstream_error"}},
		{&turn.PictureError{Message: said}, want{status: 502, kind: "server_error", code: "upstream_error"}},
		{&turn.NoPictureError{Said: "No."}, want{status: 400, kind: "invalid_request_error", code: "image_not_generated"}},
		{turn.ErrNoPictures, want{status: 403, kind: "permission_error", code: "images_unavailable", retry: noUse}},
	} {
		checkFailure(t, c.err, c.want)
	}
	resets := APIError(&turn.PictureError{Status: http.StatusTooManyRequests, Spent: true, ResetsAt: time.Now().Add(time.Hour)})
	if resets.ShouldRetry == nil || !strings.HasSuffix(resets.Message, " (This limit resets in 1h0m0s.)") {
		t.Errorf("a spent plan that resets in an hour: %+v", resets)
	}
	soon := APIError(&turn.PictureError{Status: http.StatusTooManyRequests, Spent: true, ResetsAt: time.Now().Add(20 * time.Second)})
	if soon.ShouldRetry != nil || soon.RetryAfter > 20*time.Second || soon.RetryAfter < 15*time.Second || strings.Contains(soon.Message, "resets") {
		t.Errorf("a spent plan that resets soon: %+v", soon)
	}
}
