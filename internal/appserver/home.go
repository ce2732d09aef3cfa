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

	"github.com/google/uuid"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	configFile         = "config.toml"
	variablesFile      = ".env"
	installationIDFile = "installation_id"
	picturesDir        = "generated_images"
)

// loginFiles are the file with the login, and the lock that Codex holds while it renews the login. Each
// private home (the CODEX_HOME of one app-server) has links to these files in the operator's CODEX_HOME, so
// that all app-servers share one login: Codex follows the links when it locks and replaces the file.
var loginFiles = []string{"auth.json", "auth.lock"}

// agentsDir is the directory with a user's skills and plugins for agents of any kind. Codex looks
// for it in the home directory, and no setting prevents that.
const agentsDir = ".agents"

// logVersions is how many versions of Codex's log a private home prevents. The log is a database file with
// the version in its name, and the home has directories with such names, where Codex cannot make the file.
// Otherwise the log would grow by some 60 KB with each turn, perhaps in a file system in memory.
const logVersions = 9

// maxLinks bounds the number of links to the entries of a user's home directory.
const maxLinks = 4096

// privateHome is the directory of one instance:
//
//	codex/         its CODEX_HOME, with the operator's login and the settings of the
//	               model provider, and nothing else of the operator's CODEX_HOME
//	user/          its home directory, with links to the entries of the user's home
//	               directory (except agentsDir), so that programs find their files
//	model-….json, fallback.json   see [catalogue]
//	certificate…   see trustStore
type privateHome struct {
	path         string
	operatorHome string // the operator's CODEX_HOME; empty: there is none
	config       operatorConfig
	// variables are those variables of the operator's .env file that an app-server may have, as
	// NAME=VALUE. Escapes in a value stay as they are.
	variables []string
}

func (h *privateHome) codexDir() string { return filepath.Join(h.path, "codex") }
func (h *privateHome) userDir() string  { return filepath.Join(h.path, "user") }

func userHome() string {
	if home, err := os.UserHomeDir(); err == nil {
		return home
	}
	if account, err := user.Current(); err == nil {
		return account.HomeDir
	}
	return ""
}

// OperatorHome returns the CODEX_HOME with the login and the provider's settings: Config.Home, or else the
// directory that Codex would use. It returns "" if the user's home directory is needed and not known.
func (cfg *Config) OperatorHome() (string, error) {
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

// newPrivateHome makes a home within dir. The error says what an operator can do.
func (cfg *Config) newPrivateHome(dir string) (*privateHome, error) {
	operatorHome, err := cfg.OperatorHome()
	if err != nil {
		return nil, err
	}
	h := &privateHome{operatorHome: operatorHome}
	if operatorHome != "" {
		if h.config, err = readOperatorConfig(operatorHome); err != nil {
			return nil, err
		}
		if err = checkLoginFiles(operatorHome); err != nil {
			return nil, err
		}
	}
	if h.path, err = os.MkdirTemp(dir, "home-"); err == nil {
		err = h.createFiles()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoDir, err), h.remove())
	}
	return h, nil
}

// createFiles makes the files of a new home, and directories in place of Codex's log (see logVersions).
func (h *privateHome) createFiles() error {
	dirs := []string{h.codexDir(), h.userDir()}
	for version := 1; version <= logVersions; version++ {
		dirs = append(dirs, h.codexFile(fmt.Sprintf("logs_%d.sqlite", version)))
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	config, err := h.config.encodePrivate()
	if err != nil {
		return err
	}
	if err := os.WriteFile(h.codexFile(configFile), config, 0o600); err != nil {
		return err
	}
	// Codex would make a directory of this name, and keep each picture in it for ever. This empty
	// file prevents that.
	if err := os.WriteFile(h.codexFile(picturesDir), nil, 0o600); err != nil {
		return err
	}
	if err := h.linkUser(userHome()); err != nil {
		return err
	}
	if h.operatorHome == "" {
		return nil
	}
	for _, name := range loginFiles {
		// The file need not exist yet: the operator may log in later.
		if err := os.Symlink(filepath.Join(h.operatorHome, name), h.codexFile(name)); err != nil {
			return err
		}
	}
	return errors.Join(h.copyVariables(), h.copyInstallationID())
}

func (h *privateHome) codexFile(name string) string { return filepath.Join(h.codexDir(), name) }

// linkUser makes links to the entries of home, the user's home directory, if it can be read, but not to
// agentsDir.
func (h *privateHome) linkUser(home string) error {
	dir, err := os.Open(home)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxLinks) // also returns the names before an error
	for _, name := range names {
		if strings.EqualFold(name, agentsDir) {
			continue
		}
		if err := os.Symlink(filepath.Join(home, name), filepath.Join(h.userDir(), name)); err != nil {
			return err
		}
	}
	return nil
}

func (h *privateHome) wasRemoved() bool {
	if h == nil {
		return false
	}
	_, err := os.Lstat(h.codexDir())
	return errors.Is(err, os.ErrNotExist)
}

func (h *privateHome) remove() error {
	if h == nil || h.path == "" {
		return nil
	}
	return os.RemoveAll(h.path)
}

// assignment matches the beginning of a line of an .env file, up to the variable's value.
var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=`)

func unquoted(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}

// copyVariables copies the lines of the operator's .env file that set variables which an app-server may
// have. Codex adds the variables of the copy to its environment. copyVariables also adds them to
// h.variables. NO_PROXY is only added there: Codex prefers its .env file, so a copy would replace what
// noProxyVariables sets.
func (h *privateHome) copyVariables() error {
	content, err := readBounded(filepath.Join(h.operatorHome, variablesFile), maxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errConfig, err)
	}
	var copied []byte
	providerVariables := h.config.variableNames()
	for line := range bytes.Lines(content) {
		if match := assignment.FindSubmatch(line); match != nil && isAllowedVariable(string(match[1]), providerVariables) {
			h.variables = append(h.variables, string(match[1])+"="+unquoted(string(bytes.TrimSpace(line[len(match[0]):]))))
			if !strings.EqualFold(string(match[1]), noProxy) {
				copied = append(copied, line...)
			}
		}
	}
	if len(copied) == 0 {
		return nil
	}
	return os.WriteFile(h.codexFile(variablesFile), copied, 0o600)
}

var installationID = regexp.MustCompile(`^[0-9a-fA-F-]{36}$`)

// copyInstallationID copies the id that Codex sends with each request. Without a copy, the provider
// would see a new installation with each private home. If the operator's home has no id (`codex
// login` makes none), copyInstallationID makes one there, as Codex would.
func (h *privateHome) copyInstallationID() error {
	path := filepath.Join(h.operatorHome, installationIDFile)
	id, err := readBounded(path, maxConfig)
	if errors.Is(err, os.ErrNotExist) {
		id, err = makeInstallationID(path)
	}
	if id = bytes.TrimSpace(id); err != nil || !installationID.Match(id) {
		return nil // Codex makes a new id
	}
	return os.WriteFile(h.codexFile(installationIDFile), id, 0o600)
}

// makeInstallationID writes a new id to a file, unless another process does so first, and returns the id there.
func makeInstallationID(path string) ([]byte, error) {
	tempFile, err := os.CreateTemp(filepath.Dir(path), installationIDFile+"-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tempFile.Name())
	_, err = tempFile.WriteString(uuid.NewString())
	if err = errors.Join(err, tempFile.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(tempFile.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return readBounded(path, maxConfig)
}

// misconfigured returns the error for settings that Codex refuses. It leaves out the file and the
// line that Codex names, since they are those of the private file, not of the operator's file.
func (h *privateHome) misconfigured(err error) error {
	text := strings.TrimPrefix(err.Error(), codexrpc.ErrMisconfigured.Error()+": ")
	text = regexp.MustCompile(regexp.QuoteMeta(h.codexFile(configFile))+`(:\d+)*: `).ReplaceAllLiteralString(text, "")
	return fmt.Errorf("%w: %s; mend %s", codexrpc.ErrMisconfigured, text, filepath.Join(h.operatorHome, configFile))
}

func (h *privateHome) notLoggedIn() error {
	login := "run `codex login` for the user of this server"
	if h.operatorHome != "" {
		login += " and CODEX_HOME=" + h.operatorHome
	}
	if !h.config.mayUseKeyring() {
		return fmt.Errorf("%w: %s", codexrpc.ErrNotLoggedIn, login)
	}
	return fmt.Errorf("%w: the login in the system's keyring (cli_auth_credentials_store = %q) is for codex in %s alone; set cli_auth_credentials_store = \"file\" in its config.toml, then %s",
		codexrpc.ErrNotLoggedIn, h.config.CredentialsStore, h.operatorHome, login)
}
