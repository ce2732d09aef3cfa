package appserver

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeLogin writes a login whose access token ends at a time.
func writeLogin(t *testing.T, home string, end time.Time) {
	t.Helper()
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, end.Unix()))
	writeTestFile(t, filepath.Join(home, loginFiles[0]), fmt.Sprintf(`{"tokens":{"access_token":"e30.%s.c2ln","refresh_token":"r"}}`, claims))
}

func TestTokenEnd(t *testing.T) {
	home, end := t.TempDir(), time.Unix(1_900_000_000, 0)
	if _, renewable := tokenEnd(home); renewable {
		t.Error("there is no login")
	}
	writeLogin(t, home, end)
	if got, renewable := tokenEnd(home); !renewable || !got.Equal(end) {
		t.Errorf("it ends at %s (%t)", got, renewable)
	}
	for _, login := range []string{
		``, `[]`, `{"OPENAI_API_KEY":"sk-x"}`, `{"tokens":{"access_token":"a.b.c"}}`,
		`{"tokens":{"access_token":"","refresh_token":"r"}}`, `{"tokens":{"access_token":"a","refresh_token":"r"}}`,
		`{"tokens":{"access_token":"a.!!.c","refresh_token":"r"}}`, `{"tokens":{"access_token":"a.e30.c","refresh_token":"r"}}`,
	} {
		writeTestFile(t, filepath.Join(home, loginFiles[0]), login)
		if got, renewable := tokenEnd(home); renewable {
			t.Errorf("%s ends at %s", login, got)
		}
	}
}

// TestOneRenewsAtAStart checks that of two app-servers whose login is to be renewed the second
// starts once the first has answered, and that neither is stopped before it has.
func TestOneRenewsAtAStart(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	writeLogin(t, home, time.Now().Add(time.Minute))
	begun := filepath.Join(t.TempDir(), "begun")
	slow := func(cfg *Config) {
		cfg.Home = home
		cfg.Command = shell(`echo x >>"$BEGUN"; while [ ! -e "$BEGUN.go" ]; do sleep 0.01; done; exec "$0"`, cfg.Command[0])
		cfg.Env["BEGUN"] = begun
	}
	first := startProcess(t, "", slow)
	second := startProcess(t, "", slow)
	for deadline := time.Now().Add(patience); readTestFile(begun) != "x\n"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no app-server was started")
		}
	}
	if status := second.Status(); status.State != StateStarting || status.Reason != errRenewing.Error() || status.PID != 0 {
		t.Errorf("the second one is %+v", status)
	}
	stopped := make(chan struct{})
	go func() {
		first.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Error("the first one was stopped while it renewed its login")
	case <-time.After(100 * time.Millisecond):
	}
	writeTestFile(t, begun+".go", "")
	<-stopped
	if status := awaitState(t, second, StateReady); status.Restarts != 0 {
		t.Errorf("the second one was started again %d times", status.Restarts)
	}
	if got := readTestFile(begun); got != "x\nx\n" {
		t.Errorf("begun: %q", got)
	}
}

// readTestFile returns the content of a file, empty if there is none.
func readTestFile(path string) string {
	content, _ := os.ReadFile(path)
	return string(content)
}
