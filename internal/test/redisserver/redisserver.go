// Package redisserver runs a redis-server, or a valkey-server, of its own for a test.
package redisserver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
)

// Server is a server that stores every write before it answers.
type Server struct {
	Addr string // host and port

	t       testing.TB
	program string
	args    []string
	env     []string
	log     *bytes.Buffer
	process *exec.Cmd
}

// Start starts a server on a free port, with settings such as "--maxmemory", "10mb". It ends with
// the test, which is skipped if there is no such program.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return start(t, nil, settings)
}

// start starts a server with further environment variables.
func start(t testing.TB, env, settings []string) *Server {
	t.Helper()
	s, err := prepare(memoryDir(t), settings)
	if errors.Is(err, errNoProgram) {
		needs.Missing(t, err.Error())
	}
	must.OK(t, err)
	s.t, s.env = t, env
	s.Restart()
	s.killAfter(t)
	return s
}

// Open starts a server with its files in a directory, for no test: the caller kills it.
func Open(dir string, settings ...string) (*Server, error) {
	s, err := prepare(dir, settings)
	if err == nil {
		err = s.launch()
	}
	return s, err
}

// memoryDir returns a directory that is in memory where the system has one: a busy disk can keep a
// server waiting for seconds, since it stores every write.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "redis-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

var errNoProgram = errors.New("there is no redis-server: `make deps` installs it")

// prepare returns a server that is still to be started.
func prepare(dir string, settings []string) (*Server, error) {
	var program string
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return nil, errNoProgram
	}
	addr, err := ports.Free()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	args := append([]string{"--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}, settings...)
	return &Server{Addr: addr, program: program, args: args, log: new(bytes.Buffer)}, nil
}

// URL returns the URL of a database, which may be empty.
func (s *Server) URL(database string) string { return "redis://" + s.Addr + "/" + database }

// Restart starts the server that was killed, with what it had stored.
func (s *Server) Restart() {
	s.t.Helper()
	must.OK(s.t, s.launch())
}

func (s *Server) launch() error {
	s.process = exec.Command(s.program, s.args...)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	s.process.Env = append(os.Environ(), s.env...)
	if err := s.process.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if answer := s.Do("PING"); strings.HasPrefix(answer, "+PONG") {
			return nil
		}
		if time.Now().After(deadline) {
			s.Kill()
			return fmt.Errorf("%s does not start: %s", s.program, s.log)
		}
	}
}

// Do sends a command of words and returns the answer's beginning, or "" if none comes in a minute.
func (s *Server) Do(command string) string {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Minute)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return ""
	}
	answer := make([]byte, 64<<10)
	n, _ := conn.Read(answer)
	return string(answer[:n])
}

// killAfter kills the server after the test, and logs what it has logged if the test fails.
func (s *Server) killAfter(t testing.TB) {
	t.Cleanup(func() {
		if s.Kill(); t.Failed() {
			t.Logf("%s at %s logged: %s", s.program, s.Addr, s.log)
		}
	})
}

// Kill kills the server.
func (s *Server) Kill() {
	_ = s.process.Process.Signal(os.Kill)
	_ = s.process.Wait()
}

// Pause stops the server, which neither answers nor closes connections, until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a server go on that was paused.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal os.Signal) {
	s.t.Helper()
	must.OK(s.t, s.process.Process.Signal(signal))
}
