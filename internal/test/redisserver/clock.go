package redisserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// clockText replaces the clocks that a server reads, in C. They are so many seconds ahead.
const clockText = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
	int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
	int failed = real(id, now);
	if (!failed && id == CLOCK_REALTIME) now->tv_sec += AHEAD;
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	now->tv_sec = t.tv_sec;
	now->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *result) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (result) *result = t.tv_sec;
	return t.tv_sec;
}
`

// StartAhead is [Start] with a clock ahead of that of the clients. It needs a C compiler.
func StartAhead(t testing.TB, by time.Duration, settings ...string) *Server {
	t.Helper()
	source := filepath.Join(t.TempDir(), "clock.c")
	must.OK(t, os.WriteFile(source, []byte(clockText), 0o600))
	compiler, err := exec.LookPath("cc")
	if err != nil {
		needs.Missing(t, "there is no C compiler: install gcc")
	}
	library := source + ".so"
	if said, err := exec.Command(compiler, "-shared", "-fPIC", "-o", library, fmt.Sprintf("-DAHEAD=%d", int(by.Seconds())), source, "-ldl").CombinedOutput(); err != nil {
		t.Fatal(err, string(said))
	}
	return start(t, []string{"LD_PRELOAD=" + library}, settings)
}
