package redisserver

import (
	"os"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// AddNode adds the user "node", whose password is "secret", with the rights that a page describes.
func (s *Server) AddNode(t testing.TB, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must.OK(t, err)
	_, rules, found := strings.Cut(string(text), "ACL SETUSER node on >{password} ")
	rules, _, ended := strings.Cut(rules, "\n\n")
	if !found || !ended {
		t.Fatal("there are no rules in ", page)
	}
	if answer := s.Do("ACL SETUSER node on >secret " + strings.Join(strings.Fields(rules), " ")); !strings.HasPrefix(answer, "+OK") {
		t.Fatal(answer)
	}
}

// CheckNothingRefused checks that the server has refused no command to a user.
func (s *Server) CheckNothingRefused(t testing.TB) {
	t.Helper()
	if log := s.Do("ACL LOG"); !strings.HasPrefix(log, "*0") {
		t.Errorf("the server has refused: %s", log)
	}
}
