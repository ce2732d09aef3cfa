package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// kill kills the descendants whose name has this prefix, and returns their pids.
func kill(t *testing.T, name string) (pids []int) {
	t.Helper()
	for _, child := range children() {
		pid, called, _ := strings.Cut(child, " ")
		n, err := strconv.Atoi(pid)
		if err != nil || !strings.HasPrefix(called, name) {
			continue
		}
		if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		pids = append(pids, n)
	}
	if len(pids) == 0 {
		t.Fatalf("no %s is running: %q", name, children())
	}
	return pids
}

// TestCodexKilled checks that the turns of a killed codex end with an error that can be
// retried, and that another codex serves the next requests. A command may be a launcher
// whose child outlives it. Killing either must leave nothing behind.
func TestCodexKilled(t *testing.T) {
	s := newSite(t, "")
	for _, name := range []string{"codex", "launcher"} {
		t.Run(name, func(t *testing.T) {
			s := s.at(t)
			if name == "launcher" {
				name = "sh"
				s.load(s.caddyfile(fmt.Sprintf("app_server sh -c \"exec 3<&0; %s app-server <&3 & wait\" {\nhome %s\n}", codexBinary, s.home)))
				s.waitReady()
			}
			s.waitOpen(0) // earlier streams have ended
			var wg sync.WaitGroup
			wg.Go(func() {
				response, text := s.post(chatBody("hang", nil), nil)
				if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "codex_exited") || response.Header.Get("Retry-After") == "" {
					t.Errorf("a whole answer: %s %s", response.Status, text)
				}
			})
			stream := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody("say:Half of it; hang", map[string]any{"stream": true})), nil)
			begun := readUntil(t, stream.Body, "Half")
			s.waitOpen(2)
			all := codexes(0)
			kill(t, name)
			wg.Wait()
			if text := begun + s.read(stream); !strings.Contains(text, "codex_exited") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
				t.Errorf("a stream: %q", text)
			}
			waitFor(t, "all of the old codex to be gone", allGone(all))
			waitFor(t, "another codex", func() bool {
				response, text := s.post(chatBody("say:back again", nil), nil)
				return response.StatusCode == 200 && strings.Contains(text, "back again")
			})
		})
	}
}

// TestKilledInALoop checks /readyz while codex is killed repeatedly, and the recovery.
func TestKilledInALoop(t *testing.T) {
	s := newSite(t, "")
	for range 4 {
		kill(t, "codex")
		waitFor(t, "readiness to be lost", func() bool {
			status, _ := s.get("/readyz")
			return status == http.StatusServiceUnavailable
		})
		s.waitReady()
	}
	if response, text := s.post(chatBody("say:ok", nil), nil); response.StatusCode != 200 {
		t.Errorf("%s %s", response.Status, text)
	}
}

// readUntil reads until a text was read.
func readUntil(t testing.TB, r io.Reader, text string) string {
	t.Helper()
	var got strings.Builder
	for buf := make([]byte, 256); !strings.Contains(got.String(), text); {
		n, err := r.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("%q, %v", got.String(), err)
		}
	}
	return got.String()
}
