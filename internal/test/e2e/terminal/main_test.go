package terminal

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// reply is the model's answer to a message of the user's, or a result of a call, that contains a text.
type reply struct {
	to     string
	script scriptedmodel.Script
}

// answer makes the model answer with the first reply to the latest message or result that has one.
func answer(t *testing.T, s *e2e.Site, replies ...reply) {
	t.Helper()
	t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		for _, item := range slices.Backward(r.Input) {
			text := item.Content.String() + item.Output.String()
			for _, reply := range replies {
				if item.Role != "assistant" && strings.Contains(text, reply.to) {
					return reply.script, true
				}
			}
		}
		return scriptedmodel.Script{}, false
	}))
}

func saying(to, text string) reply { return doing(to, scriptedmodel.Say(text)) }

func doing(to string, all ...scriptedmodel.Output) reply {
	return reply{to, scriptedmodel.Script{Output: all}}
}
