package loginstate

import (
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// maxModels bounds the models of each kind (worked, refused) that are remembered for a login.
const maxModels = 64

// models remembers which models have worked with a login, and which ones the provider refuses.
type models struct {
	worked  map[string]time.Time // when each model has last worked
	refused map[string]modelRefusal
}

type modelRefusal struct {
	failure error
	until   time.Time // until then, no turn tries the model with this login
}

func (m *models) work(model string) {
	if m.worked == nil {
		m.worked = make(map[string]time.Time)
	}
	if _, known := m.worked[model]; known || len(m.worked) < maxModels {
		m.worked[model] = time.Now()
	}
	delete(m.refused, model)
}

// proofTime is how long the success of a model proves that the login works while another model is refused.
const proofTime = time.Hour

func (m *models) anyWorks() bool {
	for model, at := range m.worked {
		if _, refused := m.refused[model]; !refused && time.Since(at) < proofTime {
			return true
		}
	}
	return false
}

// IsPlainRefusal reports whether the provider has answered a turn with a 401, while Codex does not
// say that the login has ended. The provider may refuse only the model of the turn.
func IsPlainRefusal(failure *codexrpc.TurnError) bool {
	return failure.HTTPStatus == http.StatusUnauthorized && failure.Code != codexrpc.CodeUnauthorized
}

// RefuseModel records that the provider has refused a turn with this model, see [IsPlainRefusal] and
// [failures.ForbidsModel]. For a minute, no turn tries the model with this login. After a plain refusal,
// the login counts as signed out if no model works with it; even then, turns with other models try it.
func (l *Login) RefuseModel(model string, failure error) {
	l.update(func() {
		m, now := &l.models, time.Now()
		if m.refused == nil || len(m.refused) >= maxModels {
			m.refused = make(map[string]modelRefusal) // a turn tries a forgotten model again
		}
		until := now.Add(signedOutRest)
		m.refused[model] = modelRefusal{failure, until}
		if CauseOf(failure) != "" && !m.anyWorks() && !l.status().Cause.OfLogin() { // a forbidden model has no cause
			l.setState(SignedOut, Refused, nil, until) // no failure: turns with other models go on
		}
	})
}

// ModelRefusal returns why no turn with this model is to use the login now, or nil.
func (l *Login) ModelRefusal(model string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refusal, ok := l.models.refused[model]; ok && time.Now().Before(refusal.until) {
		return refusal.failure
	}
	return nil
}
