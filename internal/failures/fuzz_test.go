package failures

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// FuzzTurnError: whatever a provider says about a failed turn, the error of the API has a
// status for failures, a sentence, JSON, and delays that SDKs can read.
func FuzzTurnError(f *testing.F) {
	f.Add(`{"error":{"message":"no","code":"model_not_found","param":"model"}}`, "badRequest", 400, "")
	f.Add(`unexpected: {"detail":"Instructions are not valid"} {`, "badRequest", 0, "x")
	f.Add("Rate limit reached. Please try again in 1h2m3.5s.", "rateLimitExceeded", 0, "")
	f.Add("try again in 9999999999h or try again in 1s", "rateLimitExceeded", 0, "")
	f.Add("\xff", "httpConnectionFailed", 429, "http://10.0.0.1:80/")
	f.Fuzz(func(t *testing.T, message, code string, status int, details string) {
		failure := &codexrpc.TurnError{Message: message, Code: code, HTTPStatus: status, Details: details}
		e := APIError(failure)
		if e.Status < 400 || e.Status > 599 || e.Message == "" || e.RetryAfter < 0 {
			t.Fatalf("%+v became %+v", failure, e)
		}
		answer := httptest.NewRecorder()
		if err := e.Respond(answer, httptest.NewRequest(http.MethodPost, "/", nil)); err != nil || !json.Valid(answer.Body.Bytes()) {
			t.Fatalf("%+v was answered with %q, %v", failure, answer.Body, err)
		}
		header := answer.Header()
		seconds, errSeconds := strconv.ParseInt(header.Get("Retry-After"), 10, 64)
		delay, errDelay := time.ParseDuration(header.Get("Retry-After-Ms") + "ms")
		switch {
		case e.RetryAfter == 0 && header.Get("Retry-After")+header.Get("Retry-After-Ms") != "":
			t.Fatalf("no delay, but %v", header)
		case e.RetryAfter > 0 && (errSeconds != nil || errDelay != nil || seconds < 1 || float64(seconds) < delay.Seconds()):
			t.Fatalf("a delay of %v, but %v", e.RetryAfter, header)
		}
		if RefusesInstructions(failure) && e.Status != 400 {
			t.Fatalf("%+v refuses instructions with a %d", failure, e.Status)
		}
	})
}
