package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProcessLife(t *testing.T) {
	t.Parallel()
	p := newTestProcess(t, "litters", nil)
	if s := p.Status(); s.State != StateNew || s.Reason != "" || p.Dir() != "" {
		t.Errorf("it begins as %+v in %q", s, p.Dir())
	}
	p.Start()
	dir := p.Dir()
	ready := awaitState(t, p, StateReady)
	if ready.PID == 0 || ready.Version != "0.171.0" || ready.Restarts != 0 || ready.Reason != "" || ready.Since.IsZero() {
		t.Errorf("ready is %+v", ready)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the working directory is %v (%v)", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "left-behind")); err != nil {
		t.Errorf("the program runs elsewhere: %v", err)
	}
	if _, err := conn(t, p).Models(t.Context()); err != nil {
		t.Error(err)
	}
	p.Start() // again
	if s := p.Status(); s.PID != ready.PID {
		t.Errorf("a second start made %+v", s)
	}
	p.Stop()
	p.Stop()
	awaitGone(t, ready.PID)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the working directory is left: %v", err)
	}
	var notReady *NotReadyError
	if _, err := p.Instance(t.Context()); !errors.As(err, &notReady) || notReady.State != StateStopped {
		t.Errorf("a stopped process gave %v", err)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	p := newTestProcess(t, "", func(cfg *Config) { cfg.Command = []string{"codex-of-no-such-name", appServerCommand} })
	p.backoff.first, p.backoff.longest = time.Hour, time.Hour
	p.Start()
	s := awaitState(t, p, StateBackoff)
	if !strings.Contains(s.Reason, "codex-of-no-such-name") || !strings.Contains(s.Reason, "npm install") || s.PID != 0 {
		t.Errorf("the status is %+v", s)
	}
	checkRemedy(t, p, "Codex is not installed")
	var notReady *NotReadyError
	if _, err := p.Instance(t.Context()); !errors.As(err, &notReady) {
		t.Fatalf("got %v", err)
	}
	if notReady.State != StateBackoff || notReady.Reason != s.Reason || notReady.Remedy != s.Remedy || notReady.RetryAfter < 40*time.Minute || notReady.RetryAfter > time.Hour {
		t.Errorf("got %+v", notReady)
	}
	if !strings.Contains(notReady.Error(), "backoff") {
		t.Errorf("it reads %q", notReady)
	}
	begin := time.Now()
	p.Stop() // in the pause
	if took := time.Since(begin); took > patience {
		t.Errorf("stopping took %s", took)
	}
}

// checkRemedy checks a process's remedy, which must contain nothing private.
func checkRemedy(t *testing.T, p *Process, want string) {
	t.Helper()
	s := p.Status()
	if !strings.Contains(s.Remedy, want) || strings.Contains(s.Remedy, "codex/home") || strings.Contains(s.Remedy, "line 7") {
		t.Errorf("the remedy is %q, without %q", s.Remedy, want)
	}
}

// Each failure of a start has a reason for the operator.
func TestFailuresAtTheStart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, mode string
		timeout    time.Duration
		want       []string // for the operator
		remedy     string   // for everybody
	}{
		{"exits", "fails", patience, []string{".test` ended before it answered", "(exit status 3); stderr: Error: config.toml is broken | at line 7"}, "the command ends at once"},
		{"has_no_argument", "bare", patience, []string{"`codex` has no argument app-server, as in `codex app-server`"}, "as in `codex app-server`"},
		{"has_no_catalogue", "models-fail", patience, []string{"does not print its catalogue of models: running", "debug models", "exit status 6; it said: Error: no models today"}, "would offer its own tools"},
		{"uses_its_defaults", "misconfigured complains", patience, []string{"codex cannot use its configuration: no provider x; mend /the/codex/home/config.toml"}, "mend what the server's log names"},
		{"is_mute", "mute:initialize", time.Second, []string{"start timeout of 1s"}, "not answered in time"},
		{"does_not_tell_its_login", "mute:getAuthStatus", 3 * time.Second, []string{"start timeout of 3s"}, "not answered in time"},
		{"is_too_old", "old complains", patience, []string{"0.120.0 is too old", "0.169.0 or newer", "npm install"}, "install a newer one"},
		{"is_logged_out", "logged-out complains", patience, []string{"not logged in", "/the/codex/home", "codex login"}, "run `codex login`"},
		{"dies", "dies:initialize", patience, []string{"ended before it answered", "signal: killed"}, "the command ends at once"},
		{"dies_later", "dies:getAuthStatus", patience, []string{"ended before it answered", "signal: killed"}, "the command ends at once"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newTestProcess(t, test.mode, func(cfg *Config) {
				cfg.startTimeout, cfg.stopTimeout = test.timeout, 2*patience // the exit may be noticed late
				cfg.Home = "/the/codex/home"
				cfg.Command = append(cfg.Command[:1], "-c", "token=s3cret", appServerCommand)
				if test.mode == "bare" {
					cfg.Command = []string{"codex", "-c", "token=s3cret"}
				}
			})
			p.backoff.first, p.backoff.longest = time.Hour, time.Hour
			p.Start()
			s := awaitState(t, p, StateBackoff)
			for _, part := range test.want {
				if !strings.Contains(s.Reason, part) {
					t.Errorf("the reason is %q, without %q", s.Reason, part)
				}
			}
			if s.SignedOut != strings.HasPrefix(test.mode, "logged-out") {
				t.Errorf("signed out: %t", s.SignedOut)
			}
			checkRemedy(t, p, test.remedy)
			if strings.Contains(test.mode, "complains") && strings.Contains(s.Reason, "stderr") || strings.Contains(s.Reason, succeeded) || strings.Contains(s.Reason, "s3cret") {
				t.Errorf("the reason has details that explain nothing: %q", s.Reason)
			}
		})
	}
}

func TestStartIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "fails", nil)
	await(t, p, "restarted three times", func(s Status) bool { return s.Restarts >= 3 })
}

// Conn waits for a start that is under way, or for its context.
func TestConnWaitsForAStart(t *testing.T) {
	t.Parallel()
	p := newTestProcess(t, "", nil)
	got := make(chan error, 1)
	go func() {
		_, err := p.Instance(context.Background())
		got <- err
	}()
	p.Start()
	if err := <-got; err != nil {
		t.Error(err)
	}

	mute := startProcess(t, "mute:initialize", nil)
	reason := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if _, err := mute.Instance(ctx); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
}

// TestConnWithoutLogin checks that Conn does not wait for the next start while nobody is signed in.
func TestConnWithoutLogin(t *testing.T) {
	p := newTestProcess(t, "", nil)
	p.setStatus(Status{State: StateBackoff, SignedOut: true, RetryAt: time.Now().Add(maxRetryWait / 2)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Instance(ctx); !errors.As(err, new(*NotReadyError)) {
		t.Errorf("got %v", err)
	}
}

func TestStopWithoutStart(t *testing.T) {
	p := newTestProcess(t, "", nil)
	p.Stop()
	p.Start()
	if s := p.Status(); s.State != StateStopped || s.PID != 0 {
		t.Errorf("it was started: %+v", s)
	}
}

func TestStateNames(t *testing.T) {
	if text, err := json.Marshal([]State{StateNew, StateReady}); err != nil || string(text) != `["new","ready"]` {
		t.Errorf("%s, %v", text, err)
	}
	if got := (&NotReadyError{State: StateStarting}).Error(); got != "the codex app-server is not ready (starting)" {
		t.Errorf("it reads %q", got)
	}
}
