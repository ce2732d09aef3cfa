package faults

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestInventedTool checks what a client gets if the model calls one of Codex's tools that it was not
// offered: an error that clients do not answer with the same request, and words that help.
func TestInventedTool(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		var asked atomic.Int32
		s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			if r.Input[len(r.Input)-1].Type == "message" { // Codex answers the call itself before the turn ends, if it is fast enough
				asked.Add(1)
			}
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Call{Name: "exec", Arguments: "ls", Custom: true}}}, true
		})
		for _, stream := range []bool{false, true} {
			asked.Store(0)
			begin := time.Now()
			response, text := s.Post(e2e.ChatBody("list the files", e2e.Fields{"stream": stream, "tools": []any{e2e.Tool("localSearch")}}), nil)
			for _, want := range []string{`"unknown_tool_called"`, "exec", "which tools it may call"} {
				if response.StatusCode != http.StatusBadRequest && !e2e.IsLate(response, begin) || !strings.Contains(text, want) {
					t.Errorf("%s %s; want %q", response.Status, text, want)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the model was asked %d times", n)
			}
		}
	})
}

// TestSpentInMidStream checks what a client gets if the plan is spent while the model answers,
// before and after the first text.
func TestSpentInMidStream(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		var output []scriptedmodel.Output
		s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
			return scriptedmodel.Script{Output: output, End: scriptedmodel.Failed{Code: "usage_limit_reached", Message: "The usage limit has been reached"}}, true
		})
		check := func(status int, stream bool) {
			t.Helper()
			begin := time.Now()
			response, text := s.Post(e2e.ChatBody("hello", e2e.Fields{"stream": stream}), nil)
			if response.StatusCode != status && !e2e.IsLate(response, begin) || !strings.Contains(text, `"code":"insufficient_quota"`) || !strings.Contains(text, "The usage limit has been reached") || strings.Contains(text, "disconnected") {
				t.Errorf("%s %s", response.Status, text)
			}
		}
		check(http.StatusTooManyRequests, false)
		check(http.StatusTooManyRequests, true)
		output = []scriptedmodel.Output{scriptedmodel.Say("It begins")}
		check(http.StatusTooManyRequests, false)
		check(http.StatusOK, true)
	})
}
