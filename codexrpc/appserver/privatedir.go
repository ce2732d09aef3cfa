package appserver

import (
	"context"
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
	lock *os.File    // nil where there are no locks
	made os.FileInfo // of path
}

func (d *privateDir) work() string { return filepath.Join(d.path, "work") }
func (d *privateDir) temp() string { return filepath.Join(d.path, "tmp") }

// newPrivateDir makes a private directory in the system's temporary directory. It gets the
// name by which a sweep finds it once it is locked.
func newPrivateDir() (*privateDir, error) {
	unnamed, err := os.MkdirTemp("", "new-"+privatePrefix) // 0700
	if err != nil {
		return nil, fmt.Errorf("%w: %w; check TMPDIR", errNoDir, err)
	}
	d := &privateDir{path: unnamed}
	if d.lock, err = lockPrivate(unnamed); err == nil {
		named := filepath.Join(filepath.Dir(unnamed), strings.TrimPrefix(filepath.Base(unnamed), "new-"))
		if err = os.Rename(unnamed, named); err == nil {
			d.path = named
		}
	}
	if err == nil {
		d.made, err = os.Lstat(d.path)
	}
	if err == nil {
		err = d.fill()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoDir, err), d.remove())
	}
	return d, nil
}

// fill makes the directories that are missing.
func (d *privateDir) fill() error {
	for _, dir := range []string{d.work(), d.temp()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// lost reports whether the directory was removed. Another one may have its name.
func (d *privateDir) lost() bool {
	now, err := os.Lstat(d.path)
	return err != nil || !os.SameFile(d.made, now)
}

// remove removes the directory, and then its lock.
func (d *privateDir) remove() error { return errors.Join(os.RemoveAll(d.path), d.unlock()) }

func (d *privateDir) unlock() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// sweepPrivateDirs removes the private directories of killed programs of this user,
// until ctx ends.
func sweepPrivateDirs(ctx context.Context, log *slog.Logger) {
	temp, err := os.Open(os.TempDir())
	if err != nil {
		return // newPrivateDir reports it
	}
	defer temp.Close()
	names, _ := temp.Readdirnames(sweepNames) // with an error come the names before it
	removed := 0
	for _, name := range names {
		if ctx.Err() != nil || removed == sweepDirs {
			break
		}
		if strings.HasPrefix(name, privatePrefix) && removeAbandoned(filepath.Join(temp.Name(), name)) {
			removed++
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
	if _, err := p.cfg.argsOf(); err != nil {
		return nil, err
	}
	in.login = p.noteLogin()
	if in.home, err = p.cfg.newPrivateHome(private.path, p.withLog.Load()); err != nil {
		return nil, err
	}
	return p.withRelay(in.home, p.cfg.environ(in.home, private.temp()))
}

// privateDir returns the private directory of the process, and makes it if there is
// none. What somebody has removed, such as a cleaner of temporary files, is made again.
func (p *Process) privateDir() (*privateDir, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.private; old != nil {
		if !old.lost() {
			if err := old.fill(); err != nil {
				return nil, fmt.Errorf("%w: %w", errNoDir, err)
			}
			return old, nil
		}
		_ = old.unlock()
		if p.private = nil; p.dir == old.work() {
			p.dir = ""
		}
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
