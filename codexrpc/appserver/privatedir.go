package appserver

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

const (
	// privatePrefix begins the name of every private directory.
	privatePrefix = "caddy-codex-run-"
	// privateTries bounds how often a new private directory is made, when a sweep
	// of another process takes one away before its lock is held.
	privateTries = 10
	// sweepNames and sweepDirs bound a sweep: how many names of the temporary
	// directory are looked at, and how many directories are removed.
	sweepNames = 100_000
	sweepDirs  = 256
)

// privateDir is a directory in which no other program keeps anything. It has a
// lock for as long as its process lives, so that a later process can tell and
// sweep what a killed one has left behind:
//
//	work/         the working directory of the app-server, empty
//	tmp/          its temporary files
//	home-…/       the CODEX_HOME of one instance, see [privateHome]
type privateDir struct {
	path string
	lock *os.File // nil where there are no locks
}

func (d *privateDir) work() string { return filepath.Join(d.path, "work") }
func (d *privateDir) temp() string { return filepath.Join(d.path, "tmp") }

// newPrivateDir makes a private directory in the system's temporary directory.
func newPrivateDir() (*privateDir, error) {
	for range privateTries {
		path, err := os.MkdirTemp("", privatePrefix) // 0700
		if err != nil {
			return nil, fmt.Errorf("making a private directory: %w", err)
		}
		lock, err := lockPrivate(path)
		if errors.Is(err, errTaken) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking a private directory: %w", err), os.RemoveAll(path))
		}
		d := &privateDir{path: path, lock: lock}
		for _, dir := range []string{d.work(), d.temp()} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, errors.Join(fmt.Errorf("making a private directory: %w", err), d.remove())
			}
		}
		return d, nil
	}
	return nil, errors.New("making a private directory: another process keeps removing it")
}

// errTaken says that another process has locked or removed a directory.
var errTaken = errors.New("it is locked by another process")

// remove removes the directory and gives up its lock.
func (d *privateDir) remove() error {
	if d.lock == nil {
		return os.RemoveAll(d.path)
	}
	if removeBeforeUnlock {
		return errors.Join(os.RemoveAll(d.path), d.lock.Close())
	}
	return errors.Join(d.lock.Close(), os.RemoveAll(d.path))
}

// sweepPrivateDirs removes the private directories that processes of this user
// have left behind when they were killed. It ends early when stop is closed.
func sweepPrivateDirs(stop <-chan struct{}, log *slog.Logger) {
	temp, err := os.Open(os.TempDir())
	if err != nil {
		return // whoever needs the directory says so
	}
	defer temp.Close()
	removed := 0
	for seen := 0; seen < sweepNames && removed < sweepDirs; {
		names, err := temp.Readdirnames(256)
		seen += len(names)
		for _, name := range names {
			select {
			case <-stop:
				return
			default:
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

// prepare makes what an instance of our own needs: the private directory, which
// it shares with those before it, and a home. It returns the environment of the
// programs that are to be run.
func (p *Process) prepare(in *instance) (env []string, err error) {
	private, err := p.privateDir()
	if err != nil || p.cfg.Start != nil {
		return nil, err
	}
	if in.home, err = p.cfg.newPrivateHome(private.path); err != nil {
		return nil, err
	}
	return p.cfg.environ(in.home, private.temp()), nil
}

// privateDir returns the process's private directory, which is made for its first
// instance.
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

// removePrivateDir removes the private directory, if there is one.
func (p *Process) removePrivateDir() {
	if p.private == nil {
		return
	}
	if err := p.private.remove(); err != nil {
		p.log().Warn("removing the private directory of codex", "error", err)
	}
}
