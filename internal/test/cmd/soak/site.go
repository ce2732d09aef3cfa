package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

type site struct {
	*rig.Site
	model *rig.Model
	// second is the CODEX_HOME of secondLogin, the plan's other login; both empty without logins.
	second      string
	secondLogin *planbackend.Login
	meters      *meters // nil without -meters
	codex       string
	temp        string // Caddy's TMPDIR
	log         *os.File

	mu         sync.Mutex
	generation int          // counts changes of the app-servers
	other      int          // counts changes of other options
	seen       map[int]bool // every codex process so far
}

// processes is the number of app-servers. With logins, the last one has the second login.
const processes = 2

// maxBody is the option max_body, in bytes.
const maxBody = 1 << 20

// users have a key each.
var users = []string{"ann", "bob", "cid"}

func keyOf(user string) string { return "sk-soak-" + user }

// newSite starts a site in dir and waits until it is ready.
func newSite(ctx context.Context, o options, dir string) (s *site, err error) {
	s = &site{codex: o.Codex, temp: filepath.Join(dir, "tmp"), seen: make(map[int]bool)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.model, err = rig.NewModelFor(o.Codex, o.login); err != nil {
		return nil, err
	}
	if s.model.Plan != nil {
		s.second, s.secondLogin = filepath.Join(dir, "second"), s.model.Plan.AddLogin(planbackend.LoginOptions{})
		if err := errors.Join(os.Mkdir(s.second, 0o700), s.secondLogin.Write(s.second)); err != nil {
			return nil, err
		}
	}
	if o.meters {
		if s.meters, err = newMeters(s); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(s.temp, 0o700); err != nil {
		return nil, err
	}
	if s.log, err = os.OpenFile(cmp.Or(o.log, os.DevNull), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	opts := s.options()
	data := filepath.Join(dir, "data")
	opts.Log, opts.Env = s.log, []string{"TMPDIR=" + s.temp, "HOME=" + data, "XDG_DATA_HOME=" + data, "XDG_CONFIG_HOME=" + data}
	s.Site, err = rig.StartSite(ctx, o.Caddy, opts)
	return s, err
}

// close stops whatever is running.
func (s *site) close() {
	if s.Site != nil {
		_ = s.Caddy.Stop(exitWait) // fails if it has exited
	}
	if s.model != nil {
		s.model.Close()
	}
	if s.log != nil {
		_ = s.log.Close()
	}
}

// options returns the configuration, with generation and other in it.
func (s *site) options() rig.SiteOptions {
	handler := fmt.Sprintf("ollama on\nmax_body %d\nstore memory {\nsize 4MiB\nage 10m\n}\nidle_timeout %ds\n", maxBody, 60+s.other%2)
	for _, user := range users {
		handler += fmt.Sprintf("api_key %s %s\n", keyOf(user), user)
	}
	first, reserve := processes, ""
	if s.meters != nil {
		reserve = "luna_reserve on\n"
	}
	if s.second != "" {
		first--
		handler += fmt.Sprintf("app_server %q app-server {\nhome %q\nenv GENERATION %d\n%s}\n", s.codex, s.second, s.generation, reserve)
	}
	return rig.SiteOptions{
		Command: s.codex, Home: s.model.Home, Global: "metrics\nservers {\nprotocols h1 h2c\n}",
		AppServer: fmt.Sprintf("processes %d\nenv GENERATION %d\n%s", first, s.generation, reserve), Handler: handler,
	}
}

// reload reloads the configuration, with changed app-servers, another changed option, or neither.
func (s *site) reload(ctx context.Context, appServers, other bool) error {
	s.mu.Lock()
	if appServers {
		s.generation++
	}
	if other {
		s.other++
	}
	opts := s.options()
	s.mu.Unlock()
	return s.Reload(ctx, opts)
}

// adminLine returns the rest of the first line with this beginning on an admin page.
func (s *site) adminLine(path, begins string) (string, error) {
	response, err := rig.AdminClient.Get(s.Admin + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), begins); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", errors.Join(lines.Err(), fmt.Errorf("%s has no %q", path, begins))
}

// number is adminLine for a number. It returns -1 after an error.
func (s *site) number(path, begins string) float64 {
	line, err := s.adminLine(path, begins)
	var n float64
	if err == nil {
		_, err = fmt.Sscan(line, &n)
	}
	if err != nil {
		return -1
	}
	return n
}

// appServers returns the codex processes that serve, without their launchers.
func (s *site) appServers() []int {
	return slices.DeleteFunc(s.codexes(), func(pid int) bool {
		command := rig.Command(pid)
		return rig.Name(pid) != "codex" || !slices.Contains(command, "app-server")
	})
}

// codexes returns all processes below Caddy, and adds them to seen.
func (s *site) codexes() []int {
	below := rig.Below(s.PID)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range below {
		s.seen[pid] = true
	}
	return below
}

// quiet is the state of a Caddy without traffic.
type quiet struct {
	goroutines int
	codexes    int
}

func (s *site) quiet() quiet {
	return quiet{
		goroutines: int(s.number("/debug/pprof/goroutine?debug=1", "goroutine profile: total ")),
		codexes:    len(s.appServers()),
	}
}

// quietGoroutines are tolerated: those of codex's connections to its model and of the reading.
const quietGoroutines = 8

// settle waits until Caddy is as it was before the traffic. After limit it returns what is left.
func (s *site) settle(limit time.Duration, first quiet) (left string) {
	for end := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		now := s.quiet()
		turns, waiting := s.number("/metrics", "codex_turns_running "), s.number("/metrics", "codex_queue_waiting ")
		open := s.model.Stats().Open
		ok := now.goroutines >= 0 && now.goroutines <= first.goroutines+quietGoroutines && now.codexes == processes
		if ok && turns == 0 && waiting == 0 && open == 0 {
			return ""
		}
		if time.Now().After(end) {
			return fmt.Sprintf("%d goroutines (%d before), %d app-servers, %v turns run, %v wait, %d streams of the model are open",
				now.goroutines, first.goroutines, now.codexes, turns, waiting, open)
		}
	}
}

// left returns the commands of the codex processes that run: a process id may be another's now.
func (s *site) left() (commands [][]string) {
	for pid := range s.seen {
		command := rig.Command(pid)
		if slices.Contains(command, s.codex) || len(command) > 0 && rig.Name(pid) == "codex" {
			commands = append(commands, command)
		}
	}
	return commands
}

// goneWait bounds the exit of codex after that of Caddy.
const goneWait = 10 * time.Second

// checkGone checks that Caddy has left no processes and no temporary files.
func (s *site) checkGone() (errs []error) {
	for end := time.Now().Add(goneWait); ; time.Sleep(100 * time.Millisecond) {
		left := s.left()
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			errs = append(errs, fmt.Errorf("processes are left: %q", left))
			break
		}
	}
	entries, err := os.ReadDir(s.temp)
	if err != nil {
		return append(errs, err)
	}
	for _, e := range entries {
		errs = append(errs, fmt.Errorf("%s is left in the directory for temporary files", e.Name()))
	}
	return errs
}
