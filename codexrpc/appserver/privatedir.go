package appserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// privatePrefix begins the name of every private directory.
	privatePrefix = "caddy-codex-run-"
	// privateTries bounds the attempts to make a private directory.
	privateTries = 10
	// sweepNames and sweepDirs bound a sweep: the names in the temporary directory
	// that are checked, and the directories that are removed.
	sweepNames = 100_000
	sweepDirs  = 256
)

// privateDir is a directory for the files of one [Process]:
//
//	work/     the working directory of the app-server, empty
//	tmp/      its temporary files
//	home-…/   the home of one instance, see [privateHome]
//
// It is locked while this program lives, so that the next one recognizes and removes
// the directory of one that was killed.
type privateDir struct {
	path string
	lock *os.File // nil where there are no locks
}

func (d *privateDir) work() string { return filepath.Join(d.path, "work") }
func (d *privateDir) temp() string { return filepath.Join(d.path, "tmp") }

// newPrivateDir makes a private directory in the system's temporary directory. It
// tries again if a sweep removes the directory before it is locked.
func newPrivateDir() (*privateDir, error) {
	d := new(privateDir)
	for tries := 1; ; tries++ {
		var err error
		if d.path, err = os.MkdirTemp("", privatePrefix); err != nil { // 0700
			return nil, fmt.Errorf("%w: %w; check TMPDIR", errNoDir, err)
		}
		if d.lock, err = lockPrivate(d.path); err == nil {
			break
		}
		if !errors.Is(err, errTaken) || tries == privateTries {
			return nil, fmt.Errorf("locking a private directory: %w", err)
		}
	}
	for _, dir := range []string{d.work(), d.temp()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("making a private directory: %w", err), d.remove())
		}
	}
	return d, nil
}

// errTaken is the error for a directory that another process has locked or removed.
var errTaken = errors.New("it is locked by another process")

// remove removes the directory, and then its lock.
func (d *privateDir) remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// sweepPrivateDirs removes the private directories of killed programs of this user,
// until ctx ends.
func sweepPrivateDirs(ctx context.Context, log *slog.Logger) {
	temp, err := os.Open(os.TempDir())
	if err != nil {
		return // newPrivateDir reports it
	}
	defer temp.Close()
	removed := 0
	for seen := 0; seen < sweepNames && removed < sweepDirs; {
		names, err := temp.Readdirnames(256)
		seen += len(names)
		for _, name := range names {
			if ctx.Err() != nil {
				return
			}
			if strings.HasPrefix(name, privatePrefix) && removeAbandoned(filepath.Join(temp.Name(), name)) {
				removed++
			}
		}
		if err != nil {
			break // the end
		}
	}
	if removed > 0 {
		log.Info("removed the private directories of processes that were killed", "directories", removed)
	}
}

// prepare makes the private directory, if there is none, and the home of a child. It
// returns the environment for the programs of the instance.
func (p *Process) prepare(in *instance) (env []string, err error) {
	private, err := p.privateDir()
	if err != nil || p.cfg.Start != nil {
		return nil, err
	}
	p.noteLogin()
	if in.home, err = p.cfg.newPrivateHome(private.path, p.withLog.Load()); err != nil {
		return nil, err
	}
	return p.cfg.environ(in.home, private.temp()), nil
}

// privateDir returns the private directory of the process, and makes it if there is
// none.
func (p *Process) privateDir() (*privateDir, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.private != nil {
		return p.private, nil
	}
	private, err := newPrivateDir()
	if err != nil {
		return nil, err
	}
	p.private = private
	if p.dir == "" {
		p.dir = private.work()
	}
	return private, nil
}

// Forks reports whether [Process.WriteSession] can be used.
func (p *Process) Forks() bool {
	private, _ := p.forks()
	return private != nil
}

// forks returns the private directory and the version of an app-server that can fork
// threads; nil for another one.
func (p *Process) forks() (private *privateDir, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !codexrpc.Forks(p.status.Version) {
		return nil, ""
	}
	return p.private, p.status.Version
}

var errNoSession = errors.New("the app-server cannot fork threads here")

// WriteSession writes a file with an empty session, which threads with its id as their
// cache key can be forked from ([codexrpc.Conn.ForkThread]). The caller removes the file.
// It fails for a remote app-server, and for a release that is not known to fork so.
func (p *Process) WriteSession(id string) (path string, err error) {
	private, version := p.forks()
	if private == nil {
		return "", errNoSession
	}
	content, err := codexrpc.SessionFile(id, p.cfg.Client.Name, version)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(private.temp(), "session-*.jsonl")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}
