package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// spentOncePicked is an upstream with two members. Each that is picked is spent a moment later.
type spentOncePicked struct{ *fakeUpstream }

func (u spentOncePicked) Lease() (conversation.Lease, error) {
	u.leases.Add(1)
	return spentLease{&fakeLease{u: u.fakeUpstream}}, nil
}

type spentLease struct{ *fakeLease }

func (l spentLease) Pick(...*appserver.Process) (conversation.Member, func()) {
	picked, done := l.fakeLease.Pick()
	picked.Login.Fail(&codexrpc.TurnError{Code: codexrpc.CodeUsageLimit}, 0)
	return picked, done
}

func (spentLease) Len() int { return 2 }

// TestSpentOncePicked checks that a request is not refused because the login of the member that
// was picked for it has begun to rest meanwhile: the other one may be fine.
func TestSpentOncePicked(t *testing.T) {
	g := newGateway(spentOncePicked{newFakeUpstream(t, fakecodex.Options{Transcripts: transcripts(t), Default: "text"})}, Options{MaxConcurrent: 1})
	answer := httptest.NewRecorder()
	g.Chat(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)))
	if answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
