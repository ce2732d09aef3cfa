// Package redisserver runs a redis-server, or a valkey-server, of its own for a test.
package redisserver

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/needs"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
)

// Server is a server that stores every write before it answers.
type Server struct {
	Addr string // host and port

	t       testing.TB
	program string
	args    []string
	log     *bytes.Buffer
	process *exec.Cmd
}

// Start starts a server on a free port, with settings such as "--maxmemory", "10mb". It ends with
// the test, which is skipped if there is no such program.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	var program string
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		needs.Missing(t, "there is no redis-server: `make deps` installs it")
	}
	addr, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(addr)
	args := append([]string{"--bind", host, "--port", port, "--dir", t.TempDir(), "--save", "", "--appendonly", "yes", "--appendfsync", "always"}, settings...)
	s := &Server{Addr: addr, t: t, program: program, args: args, log: new(bytes.Buffer)}
	s.Restart()
	t.Cleanup(func() { s.Kill() })
	return s
}

// URL returns the URL of a database, which may be empty.
func (s *Server) URL(database string) string { return "redis://" + s.Addr + "/" + database }

// Restart starts the server that was killed, with what it had stored.
func (s *Server) Restart() {
	s.t.Helper()
	s.process = exec.Command(s.program, s.args...)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if answer := s.Do("PING"); strings.HasPrefix(answer, "+PONG") {
			return
		}
		if time.Now().After(deadline) {
			s.Kill()
			s.t.Fatalf("%s does not start: %s", s.program, s.log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Do sends a command of words to the server and returns the beginning of the answer.
func (s *Server) Do(command string) string {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return ""
	}
	answer := make([]byte, 64<<10)
	n, _ := conn.Read(answer)
	return string(answer[:n])
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
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}
