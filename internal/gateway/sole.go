package gateway

import (
	"context"
	"net/http"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/threads"
)

// Sole returns an upstream with one process, which keeps no conversations. Whoever has
// started the process stops it.
func Sole(process *appserver.Process) Upstream { return &sole{process: process} }

type sole struct {
	process *appserver.Process
	login   loginstate.Login
}

func (s *sole) Lease() (Lease, error) { return s, nil }

func (s *sole) Pick(...*appserver.Process) (*appserver.Process, func()) {
	return s.process, func() {}
}

func (*sole) Resume(func(*threads.Conversations) bool) (func(), bool) { return nil, false }

func (*sole) Conversations(*appserver.Process) *threads.Conversations { return nil }

func (s *sole) Login(*appserver.Process) *loginstate.Login { return &s.login }

func (s *sole) Logins() []*loginstate.Login { return []*loginstate.Login{&s.login} }

func (s *sole) Statuses() []appserver.Status { return []appserver.Status{s.process.Status()} }

func (*sole) Release() {}

// unobserved is an observer that records nothing.
type unobserved struct{}

func (unobserved) AnswerBegan(bool) (ended func())              { return func() {} }
func (unobserved) TurnsEnded(context.Context, []Record)         {}
func (unobserved) RequestFailed(*http.Request, *apierror.Error) {}
