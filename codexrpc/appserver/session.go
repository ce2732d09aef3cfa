package appserver

import (
	"errors"
	"os"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

var errNoSession = errors.New("the app-server cannot fork threads here")

// WriteSession writes a file with an empty session, which threads with its id as their
// cache key can be forked from ([codexrpc.Conn.ForkThread]). The caller removes the file.
// It fails for a remote app-server, and for a release that is not known to fork so.
func (p *Process) WriteSession(id string) (path string, err error) {
	p.mu.Lock()
	private, version := p.private, p.status.Version
	p.mu.Unlock()
	if private == nil || !codexrpc.Forks(version) {
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
