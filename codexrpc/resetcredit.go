package codexrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	methodSpendReset = "account/rateLimitResetCredit/consume"
	// maxSpendError bounds the reason why a reset has failed, in bytes. A longer reason is cut.
	maxSpendError = 300
)

// ResetCredits are an account's saved credits. Each can be spent once to reset the plan's windows.
type ResetCredits struct {
	Available int `json:"available"`
	// ExpiresAt is when the next credit expires; zero: no credit expires, or it is not known.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// readResetCredits reads a RateLimitResetCreditsSummary, or returns nil.
func readResetCredits(summary json.RawMessage) *ResetCredits {
	var v *struct {
		AvailableCount int
		Credits        []struct{ ExpiresAt int64 }
	}
	if err := json.Unmarshal(summary, &v); err != nil || v == nil {
		return nil
	}
	credits := &ResetCredits{Available: v.AvailableCount}
	for _, c := range v.Credits {
		if at := unixTime(c.ExpiresAt); !at.IsZero() && (credits.ExpiresAt.IsZero() || at.Before(credits.ExpiresAt)) {
			credits.ExpiresAt = at.UTC()
		}
	}
	return credits
}

// ResetOutcome is the result of an attempt to reset the windows of a plan.
type ResetOutcome string

// The values of ResetOutcome.
const (
	ResetDone      ResetOutcome = "reset"           // a credit was spent
	ResetUseless   ResetOutcome = "nothingToReset"  // no window needs a reset; no credit was spent
	ResetNoCredit  ResetOutcome = "noCredit"        // the account has no credit
	ResetDoneSince ResetOutcome = "alreadyRedeemed" // an earlier attempt with the same key has spent a credit; this one spent none
)

// SpendResetCredit spends one of the account's credits, which resets the windows of the plan. The
// provider chooses the credit. key must not be empty; a second call with the same key spends no
// second credit. If Codex does not know the method, the error matches [ErrTooOld].
func (c *Conn) SpendResetCredit(ctx context.Context, key string) (ResetOutcome, error) {
	type params struct {
		Key string `json:"idempotencyKey"`
	}
	answer, err := Call[struct{ Outcome ResetOutcome }](ctx, c, methodSpendReset, params{key})
	refused, ok := errors.AsType[*CallError](err)
	switch {
	case ok && (refused.Code == codeMethodNotFound || strings.Contains(refused.Message, "unknown variant")):
		return "", fmt.Errorf("this codex %w to spend reset credits; update it", ErrTooOld)
	case ok: // the returned error omits the body of the provider's answer
		message, _, _ := strings.Cut(refused.Message, "; content-type=")
		return "", fmt.Errorf("codex says: %s", truncate(message, maxSpendError))
	}
	return answer.Outcome, err
}
