package appserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// privatePrefix begins the name of every private directory.
	privatePrefix = "caddy-codex-run-"
	// maxSweepNames and maxSweepDirs bound sweepPrivateDirs: how many names in the temporary
	// directory it checks, and how many directories it removes.
	maxSweepNames = 100_000
	maxSweepDirs  = 256
)

// privateDir is a directory for the files of one [Process]:
//
//	work/     the working directory of the app-server, empty
//	tmp/      its temporary files
//	home-…/   the home of one instance, see [privateHome]
//
// While this program runs, it holds a lock on the directory. If this program is killed, another program can
// get the lock, and removes the directory, see sweepPrivateDirs.
type privateDir struct {
	path     string
	lock     *os.File    // nil where there are no locks
	identity os.FileInfo // identifies the directory at path
}

func (d *privateDir) workDir() string { return filepath.Join(d.path, "work") }
func (d *privateDir) temp() string    { return filepath.Join(d.path, "tmp") }

// newPrivateDir makes a directory in the system's temporary directory and locks it. Only the locked
// directory gets the name that sweepPrivateDirs looks for, so that no other process removes it.
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
		d.identity, err = os.Lstat(d.path)
	}
	if err == nil {
		err = d.createDirs()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoDir, err), d.remove())
	}
	return d, nil
}

func (d *privateDir) createDirs() error {
	for _, dir := range []string{d.workDir(), d.temp()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// remove removes the directory, and then releases the lock.
func (d *privateDir) remove() error { return errors.Join(os.RemoveAll(d.path), d.unlock()) }

func (d *privateDir) unlock() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// sweepPrivateDirs removes the private directories of killed programs of this user, until ctx ends.
func sweepPrivateDirs(ctx context.Context, log *slog.Logger) {
	temp, err := os.Open(os.TempDir())
	if err != nil {
		return // newPrivateDir reports the same problem
	}
	defer temp.Close()
	names, _ := temp.Readdirnames(maxSweepNames) // also returns the names before an error
	removed := 0
	for _, name := range names {
		if ctx.Err() != nil || removed == maxSweepDirs {
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

// removeFiles removes what the children of a process share. It is called when no child runs any more.
func (p *Process) removeFiles() error {
	if relay := p.relay.Load(); relay != nil {
		relay.close()
	}
	if private := p.private.Load(); private != nil {
		return private.remove()
	}
	return nil
}

// prepareChild makes a private directory, if there is none, and a child's home, and returns the
// environment of its programs. With Config.Start, it makes no home and returns no environment.
func (p *Process) prepareChild(in *instance) (env []string, err error) {
	private, err := p.privateDir()
	if err != nil || p.cfg.Start != nil {
		return nil, err
	}
	if _, err := p.cfg.argsFor(); err != nil { // startCatalogue would fail, too, but only after the app-server's start
		return nil, err
	}
	if operatorHome, err := p.cfg.OperatorHome(); err == nil { // otherwise newPrivateHome returns the error
		in.login = loginFileOf(operatorHome)
		p.published.setTriedLogin(operatorHome, in.login)
	}
	if in.home, err = p.cfg.newPrivateHome(private.path); err != nil {
		return nil, err
	}
	return p.withRelay(in.home, p.cfg.environ(in.home, private.temp()))
}

// privateDir returns the private directory. It makes it if there is none, or if it was removed, for example by
// a cleaner of temporary files.
func (p *Process) privateDir() (*privateDir, error) {
	if old := p.private.Load(); old != nil {
		if now, err := os.Lstat(old.path); err == nil && os.SameFile(old.identity, now) {
			if err := old.createDirs(); err != nil {
				return nil, fmt.Errorf("%w: %w", errNoDir, err)
			}
			return old, nil
		}
		_ = old.unlock()
		p.private.Store(nil)
	}
	private, err := newPrivateDir()
	if err == nil {
		p.private.Store(private)
	}
	return private, err
}

// withRelay makes an app-server get new tokens from the relay, by an address in its environment. Without an
// operator's CODEX_HOME, or if the app-server uses the system's proxy settings, which this program does not
// know, the app-server asks the issuer itself, and withRelay changes nothing.
func (p *Process) withRelay(home *privateHome, env []string) ([]string, error) {
	if home.operatorHome == "" || home.config.Features.RespectSystemProxy {
		return env, nil
	}
	relay := p.relay.Load()
	if relay == nil {
		var err error
		if relay, err = listenRelay(p.Log); err != nil {
			return nil, fmt.Errorf("listening for renewals of the login: %w", err)
		}
		p.relay.Store(relay)
	}
	relay.issuer.Store(&tokenIssuer{
		File: filepath.Join(home.operatorHome, loginFiles[0]),
		Env:  slices.Concat(env, home.variables), // as Codex sees it: Codex adds home.variables itself
	})
	return append(env, issuerVariable+"="+relay.url), nil
}
