package conversation

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

func TestRemedies(t *testing.T) {
	refused := &codexrpc.TurnError{Message: "unexpected status 400 Bad Request: no", Code: "badRequest", HTTPStatus: 400}
	unreadable := &codexrpc.TurnError{Message: `unexpected status 400 Bad Request: {"error":{"code":"invalid_encrypted_content","message":"no"}}`, Code: "badRequest", HTTPStatus: 400}
	flagged := &codexrpc.TurnError{Message: "Your prompt was flagged.", Code: "other"}
	gone := codexrpc.ErrClosed
	process := appserver.New(appserver.Config{}, slog.New(slog.DiscardHandler))
	for name, c := range map[string]struct {
		now     attempt
		moves   int
		history bool // has reasoning
		f       turnFailure
		want    []string
	}{
		"opening, no pictures":    {f: turnFailure{opening: new(opening), err: turn.ErrNoPictures}, want: []string{"a login that can make pictures"}},
		"opening, gone":           {f: turnFailure{opening: new(opening), err: gone}, want: []string{"another process for one that is gone"}},
		"opening, gone again":     {f: turnFailure{opening: &opening{moved: true}, err: gone}},
		"opening, refused":        {f: turnFailure{opening: new(opening), err: refused}},
		"opening, new one ends":   {now: attempt{origin: New, thread: new(codexrpc.Thread)}, f: turnFailure{opening: new(opening), err: gone}},
		"opening, spare ends":     {now: attempt{origin: Prepared, thread: new(codexrpc.Thread)}, f: turnFailure{opening: new(opening), err: gone}, want: []string{"a new thread instead of a spare one"}},
		"of an old app-server":    {now: attempt{origin: Continued}, f: turnFailure{processReplaced: true, err: gone}, want: []string{"the app-server that serves now", "a new thread instead of a kept one"}},
		"provider":                {now: attempt{hasOtherLogins: true}, f: turnFailure{providerFailed: true, err: gone}, want: []string{"another login for a failing provider"}},
		"provider, moved":         {now: attempt{hasOtherLogins: true}, f: turnFailure{providerFailed: true, err: gone}, moves: 1},
		"provider, one login":     {f: turnFailure{providerFailed: true, err: gone}},
		"account":                 {f: turnFailure{loginUnusable: true, err: gone}, want: []string{"another login for one that is spent or signed out"}},
		"account, continued":      {now: attempt{origin: Continued}, f: turnFailure{loginUnusable: true, err: gone}, want: []string{"another login for one that is spent or signed out", "a new thread instead of a kept one"}},
		"continued":               {now: attempt{origin: Continued}, f: turnFailure{err: refused}, want: []string{"a new thread instead of a kept one"}},
		"resumed":                 {now: attempt{origin: Resumed}, f: turnFailure{err: gone}, want: []string{"a new thread instead of a kept one"}},
		"continued, at exit":      {now: attempt{origin: Continued}, f: turnFailure{err: turn.ErrShutdown}},
		"other login's reasoning": {now: attempt{origin: New}, history: true, f: turnFailure{err: unreadable}, want: []string{"no reasoning of another login"}},
		"history, refused":        {now: attempt{origin: New}, history: true, f: turnFailure{err: refused}},
		"instructions":            {now: attempt{origin: New}, f: turnFailure{err: refused, instructionsRefused: true}, want: []string{"the instructions behind Codex's own prompt"}},
		"parallel":                {now: attempt{origin: New, triesParallelCalls: true}, f: turnFailure{err: refused}, want: []string{"one call at a time"}},
		"parallel, flagged":       {now: attempt{origin: New, triesParallelCalls: true}, f: turnFailure{err: flagged}},
		"prepared":                {now: attempt{origin: Prepared}, f: turnFailure{err: gone}, want: []string{"a new thread instead of a prepared one"}},
		"prepared, at exit":       {now: attempt{origin: Prepared}, f: turnFailure{err: turn.ErrShutdown}},
		"prepared, silent":        {now: attempt{origin: Prepared}, f: turnFailure{err: turn.ErrIdle}},
		"prepared, turn fails":    {now: attempt{origin: Prepared}, f: turnFailure{err: refused}},
		"socket limited":          {f: turnFailure{err: appserver.ErrSocketLimited}, want: []string{"HTTP instead of a WebSocket"}},
		"socket overloaded":       {f: turnFailure{err: appserver.ErrSocketOverloaded}, want: []string{"HTTP instead of a WebSocket"}},
		"nothing":                 {now: attempt{origin: New}, f: turnFailure{err: errors.New("else")}},
	} {
		c.now.place.Process, c.now.place.Instance, c.now.member = process, new(appserver.Instance), Member{Process: process, Login: new(loginstate.Login)}
		s := &Turn{opener: new(Opener), current: c.now, loginSwitches: c.moves, chain: &Chain{HasReasoning: c.history}, request: Request{Plan: new(prompt.Plan)}}
		var got []string
		for i := range remedies {
			if remedies[i].opening == (c.f.opening != nil) && remedies[i].fits(s, &c.f) {
				got = append(got, remedies[i].name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
