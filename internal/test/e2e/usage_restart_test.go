package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// usageBody is the body of /v1/usage with the members that tests read.
type usageBody struct {
	Since    int64
	Started  int64
	Requests int
	Usage    struct {
		Prompt int `json:"prompt_tokens"`
	}
	ByModel []struct {
		Model    string
		Requests int
	} `json:"by_model"`
}

func (r *running) usage() (u usageBody) {
	r.t.Helper()
	response := r.do(http.MethodGet, "/v1/usage", nil, bearer(secretKey))
	text := r.read(response)
	if err := json.Unmarshal([]byte(text), &u); err != nil || response.StatusCode != http.StatusOK {
		r.t.Fatal(response.Status, text, err)
	}
	return u
}

// end ends the process with SIGTERM.
func (r *running) end() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatal("Caddy's exit:", err)
	}
}

// TestExitKeepsTheLastTurns checks that a turn which ends with the server is in the log
// and in the usage.
func TestExitKeepsTheLastTurns(t *testing.T) {
	r := runWith(t, "drain_timeout 300ms")
	ctx, leave := contextFor(t)
	defer leave()
	response := r.hanging(ctx)
	defer response.Body.Close()
	r.end()
	if log := r.log.String(); strings.Count(log, `"msg":"turn"`) != 1 || !strings.Contains(log, `"code":"server_shutting_down"`) {
		t.Errorf("the turn is not in the log: %s", log)
	}
	r.start()
	var got usageBody
	waitFor(t, "the usage of before", func() bool { got = r.usage(); return got.Requests > 0 })
	if got.Requests != 1 {
		t.Errorf("%+v", got)
	}
}

// TestUsageOverRestarts checks that the counts survive reloads and restarts and are not
// counted twice, and that the log has neither keys nor content.
func TestUsageOverRestarts(t *testing.T) {
	r := run(t)
	var first usageBody
	for round := 1; round <= 3; round++ {
		waitFor(t, "what was stored", func() bool { return r.usage().Requests == 2*(round-1) })
		for range 2 {
			if response, text := r.post(chatBody("say:PRIVATE-ANSWER", nil), bearer(secretKey)); response.StatusCode != http.StatusOK {
				t.Fatal(response.Status, text)
			}
		}
		r.post("{PRIVATE-BAD", bearer(secretKey))
		got := r.usage()
		if round == 1 {
			first = got
		}
		if got.Requests != 2*round || got.Usage.Prompt != round*first.Usage.Prompt || got.Usage.Prompt == 0 || got.Since != first.Since ||
			len(got.ByModel) != 1 || got.ByModel[0].Requests != 2*round {
			t.Errorf("round %d: %+v, at first %+v", round, got, first)
		}
		r.end()
		r.start()
	}
	r.end()
	files, err := filepath.Glob(filepath.Join(r.dir, "caddy", "codex", "usage", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	stored, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"log": r.log.String(), "storage": string(stored)} {
		for _, secret := range []string{secretKey, "PRIVATE"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the %s", secret, name)
			}
		}
	}
	// A document that cannot be read is set aside.
	if err := os.WriteFile(files[0], []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	waitFor(t, "the warning", func() bool { return strings.Contains(r.log.String(), "it is kept aside") })
	if got := r.usage(); got.Requests != 0 {
		t.Errorf("%+v", got)
	}
	if kept, err := os.ReadFile(files[0] + ".broken"); err != nil || string(kept) != "{broken" {
		t.Errorf("%q, %v", kept, err)
	}
}
