package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"time"
)

// The headers with what is left of the plan, see [Gateway.showLimits].
const (
	limitHeader     = "X-Ratelimit-Limit-Requests"
	remainingHeader = "X-Ratelimit-Remaining-Requests"
	resetHeader     = "X-Ratelimit-Reset-Requests"
)

// showLimits sets the headers of OpenAI for rate limits from the plan's limits as far as
// Codex has reported them. Codex reports windows of time with the percentage that is
// used. The headers are about the window with the highest use, as if it had a hundred
// requests. Those about tokens are left out: a client would wait as soon as it wants
// more tokens than there are percent. If the key of the request has limits, they are shown
// instead.
func (g *Gateway) showLimits(x *exchange) {
	if g.showKeyLimits(x) || len(x.choices) == 0 || x.choices[0].place.Conn == nil {
		return
	}
	now := time.Now()
	limits, _ := x.choices[0].place.Conn.LastRateLimits()
	window := limits.Tightest(now)
	if window == nil {
		return
	}
	const all = 100
	header := x.w.Header()
	header.Set(limitHeader, strconv.Itoa(all))
	header.Set(remainingHeader, strconv.Itoa(int(math.Floor(max(0, all-window.UsedPercent)))))
	header.Del(resetHeader)
	if !window.ResetsAt.IsZero() {
		header.Set(resetHeader, window.ResetsAt.Sub(now).Truncate(time.Second).String())
	}
}

// fingerprint identifies what answers a request, in the form of OpenAI's
// system_fingerprint: it changes with Codex's model and with the release of Codex.
func (x *exchange) fingerprint() string {
	model, version := "", ""
	if len(x.choices) > 0 && x.choices[0].place.Process != nil {
		model, version = x.choices[0].place.Model, x.choices[0].place.Process.Status().Version
	}
	hash := sha256.Sum256([]byte(model + "\x00" + version))
	return "fp_" + hex.EncodeToString(hash[:5])
}
