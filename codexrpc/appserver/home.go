package appserver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// The files of a CODEX_HOME that this client knows.
const (
	configFile         = "config.toml"
	variablesFile      = ".env"
	installationIDFile = "installation_id"
)

// loginFiles are the login and the lock under which Codex renews it. The
// private homes have links to those of the operator's home, so that there is one
// login: Codex follows the links when it locks and replaces the file.
var loginFiles = []string{"auth.json", "auth.lock"}

// agentsDir is where a user has skills and plugins for agents of any kind. Codex
// looks for it in the home directory and cannot be told not to.
const agentsDir = ".agents"

// logVersions is how many releases of Codex's log are kept from being written. It
// is a database with a version in its name that grows by some 60 KB with each turn,
// in a directory that may be in memory. Codex goes on without it where a directory
// is in its place.
const logVersions = 9

// maxLinks bounds the links to what is in a home directory.
const maxLinks = 4096

// privateHome is what one instance has in the places of the CODEX_HOME and of the
// home directory of its user:
//
//	models.json, fallback.json   see [catalogue]
//	codex/   the operator's login and the settings that choose the model
//	         provider, and nothing else of the operator's CODEX_HOME
//	user/    links to all that is in the home directory but agentsDir, so that
//	         programs that are run for a login or from there find their files
type privateHome struct {
	path     string
	operator string // the CODEX_HOME it is made of; empty: there is none
	config   operatorConfig
}

func (h *privateHome) codex() string { return filepath.Join(h.path, "codex") }
func (h *privateHome) user() string  { return filepath.Join(h.path, "user") }

// userHome is the home directory of this process's user, or empty.
func userHome() string {
	if home, err := os.UserHomeDir(); err == nil {
		return home
	}
	if account, err := user.Current(); err == nil {
		return account.HomeDir
	}
	return ""
}

// operatorHome is the home that the login and the provider are taken from: that
// of the configuration, else Codex's own choice. It is empty where there is none.
func (cfg *Config) operatorHome() (string, error) {
	home := cmp.Or(cfg.Home, cfg.Env[homeVariable], os.Getenv(homeVariable))
	if home == "" {
		account := userHome()
		if account == "" {
			return "", nil
		}
		home = filepath.Join(account, ".codex")
	}
	return filepath.Abs(home)
}

// newPrivateHome makes a home within dir. Its error says what an operator can do
// about it.
func (cfg *Config) newPrivateHome(dir string) (*privateHome, error) {
	operator, err := cfg.operatorHome()
	if err != nil {
		return nil, err
	}
	h := &privateHome{operator: operator}
	if operator != "" {
		if h.config, err = readOperatorConfig(operator); err != nil {
			return nil, err
		}
	}
	if h.path, err = os.MkdirTemp(dir, "home-"); err == nil {
		err = h.fill()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a home for codex: %w", err), h.remove())
	}
	return h, nil
}

// fill puts the files into a new home.
func (h *privateHome) fill() error {
	for _, dir := range []string{h.codex(), h.user()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	config, err := h.config.private()
	if err != nil {
		return err
	}
	if err := os.WriteFile(h.file(configFile), config, 0o600); err != nil {
		return err
	}
	if err := h.linkUser(userHome()); err != nil {
		return err
	}
	for version := 1; version <= logVersions; version++ {
		if err := os.Mkdir(h.file(fmt.Sprintf("logs_%d.sqlite", version)), 0o700); err != nil {
			return err
		}
	}
	if h.operator == "" {
		return nil
	}
	for _, name := range loginFiles {
		// Also to a file that does not exist yet: the operator may log in later.
		if err := os.Symlink(filepath.Join(h.operator, name), h.file(name)); err != nil {
			return err
		}
	}
	return errors.Join(h.copyVariables(), h.copyInstallationID())
}

// file is the path of a file in the CODEX_HOME.
func (h *privateHome) file(name string) string { return filepath.Join(h.codex(), name) }

// linkUser links what is in the home directory of the user. One that cannot be
// read has nothing for a program either.
func (h *privateHome) linkUser(home string) error {
	dir, err := os.Open(home)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxLinks) // an error leaves what has been read
	for _, name := range names {
		if strings.EqualFold(name, agentsDir) {
			continue
		}
		if err := os.Symlink(filepath.Join(home, name), filepath.Join(h.user(), name)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the home.
func (h *privateHome) remove() error {
	if h == nil || h.path == "" {
		return nil
	}
	return os.RemoveAll(h.path)
}

// assignment is a line of a .env file.
var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=`)

// copyVariables copies the lines of the operator's .env file, which Codex adds to
// its environment, that set what an app-server may have.
func (h *privateHome) copyVariables() error {
	content, err := readBounded(filepath.Join(h.operator, variablesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading codex's variables: %w", err)
	}
	var kept []byte
	named := h.config.variables()
	for line := range bytes.Lines(content) {
		if set := assignment.FindSubmatch(line); set != nil && mayHave(string(set[1]), named) {
			kept = append(kept, line...)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return os.WriteFile(h.file(variablesFile), kept, 0o600)
}

var installationID = regexp.MustCompile(`^[0-9a-fA-F-]{36}$`)

// copyInstallationID lets the provider see one installation where there is one:
// Codex sends this id with each request, and makes a new one for a home that has
// none.
func (h *privateHome) copyInstallationID() error {
	id, err := readBounded(filepath.Join(h.operator, installationIDFile))
	if id = bytes.TrimSpace(id); err != nil || !installationID.Match(id) {
		return nil // Codex makes another one
	}
	return os.WriteFile(h.file(installationIDFile), id, 0o600)
}

// notLoggedIn says what to do where the login is missing.
func (h *privateHome) notLoggedIn() error {
	login := "run `codex login` for the user of this server"
	if h.operator != "" {
		login += " and CODEX_HOME=" + h.operator
	}
	if !h.config.inKeyring() {
		return fmt.Errorf("%w: %s", codexrpc.ErrNotLoggedIn, login)
	}
	return fmt.Errorf("%w: the login in the system's keyring (cli_auth_credentials_store = %q) is for codex in %s alone; set cli_auth_credentials_store = \"file\" in its config.toml, then %s",
		codexrpc.ErrNotLoggedIn, h.config.CredentialsStore, h.operator, login)
}
