package simulation

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// workEnv is the environment variable with the seeds of a process.
	workEnv = "SIMULATION_SEEDS"
	// progress begins a line with the next seed, which tells a run that ends its process.
	progress = "simulation: seed "
	// share is the number of seeds of one process.
	share = 50
	// stuckAfter bounds the time of one run.
	stuckAfter = 3 * time.Minute
	// maxReports is the number of failures after which no more seeds are run.
	maxReports = 5
	// maxOutput bounds the kept output of one process, in bytes.
	maxOutput = 1 << 20
)

type work struct {
	mu        sync.Mutex
	next, end uint64
	reports   int
	dir       string // temporary directory of the processes
}

// spread runs seeds in as many concurrent processes as there are processors.
func spread(t *testing.T, first, n uint64) {
	w := &work{next: first, end: first + n, dir: t.TempDir()}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				from, to := w.take()
				for from < to {
					from = w.run(t, from, to) + 1
				}
				if to == 0 {
					return
				}
			}
		})
	}
	all.Wait()
}

// take returns the next share, or zeros if there is none.
func (w *work) take() (from, to uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next >= w.end || w.reports >= maxReports {
		return 0, 0
	}
	from, w.next = w.next, min(w.next+share, w.end)
	return from, w.next
}

// run runs seeds in a process until one fails, and returns the last one that it ran.
func (w *work) run(t *testing.T, from, to uint64) (last uint64) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSimulation$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", workEnv, from, to), "TMPDIR="+w.dir, "GOMAXPROCS=1", "GOGC=400", "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return to
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return to
	}
	// A run whose goroutines wait outside of virtual time never ends.
	stuck := time.AfterFunc(stuckAfter, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	last, output := from, bytes.Buffer{}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if seed, found := strings.CutPrefix(line, progress); found {
			last, _ = strconv.ParseUint(strings.TrimSpace(seed), 10, 64)
			stuck.Reset(stuckAfter)
			output.Reset()
		} else if output.Len() < maxOutput {
			output.WriteString(line)
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	stuck.Stop()
	if err == nil {
		return to
	}
	t.Errorf("seed %d fails (%v); make simulate SEED=%d repeats it:\n%s", last, err, last, output.String())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reports++; w.reports >= maxReports {
		return to
	}
	return last
}
