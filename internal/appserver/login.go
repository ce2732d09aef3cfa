package appserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// LoginCommand returns a command of codex with args, such as login or logout, for the login that the
// app-server uses. The command has the environment of this process, with cfg.Env and the CODEX_HOME of that
// login. LoginCommand fails for a Command without the argument app-server.
func (cfg *Config) LoginCommand(ctx context.Context, command string, args ...string) (*exec.Cmd, error) {
	args, err := cfg.argsFor(append([]string{command}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("%w; run `codex %s` for it by hand", err, command)
	}
	home, err := cfg.OperatorHome()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, cfg.Command[0], args...)
	cmd.Env = os.Environ()
	for name, value := range cfg.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if home != "" {
		cmd.Env = append(cmd.Env, homeVariable+"="+home)
	}
	killGroupOnCancel(cmd)
	return cmd, nil
}

// LoginFile identifies a version of the file that has a login. The zero value means that there is
// no such file, as with Config.Start.
type LoginFile struct {
	modified int64 // Unix nanoseconds
	size     int64
	owner    string // identifies the account and the user, or the API key; empty: not known
}

func loginFileOf(home string) LoginFile {
	info, err := os.Stat(filepath.Join(home, loginFiles[0]))
	if home == "" || err != nil {
		return LoginFile{}
	}
	file := LoginFile{modified: info.ModTime().UnixNano(), size: info.Size()}
	if login, err := readLogin(home); err == nil {
		claims := login.claims()
		file.owner = strings.TrimSpace(login.Account + " " + claims.Auth.User + " " + login.key)
	}
	return file
}

// Replaced reports whether somebody has removed the login that the serving app-server was started with, or
// has put the login of another account, user or API key in its place. Replaced returns false if an
// app-server was started after that, or if none takes turns. New tokens of the same login do not count, nor
// does a login whose owner is not known.
func (f *LoginFiles) Replaced() bool {
	isGone := f.Now == LoginFile{}
	return f.Ready && f.Now != f.Tried && f.Now.owner != f.Serving.owner && (isGone || f.Now.owner != "")
}

// checkLoginFiles returns an error if Codex could not store a renewed login in a CODEX_HOME: a
// renewal makes the old tokens invalid, so the login would be lost. A login without tokens to
// renew, such as an API key, may be read-only.
func checkLoginFiles(home string) error {
	if login, err := readLogin(home); err != nil || login.Refresh == "" {
		return nil // there is nothing to renew, or Codex reports what is wrong with the login
	}
	// A missing lock file is made here, as Codex would make it. Both files are opened for reading
	// and writing, since opening a pipe only for writing would wait for a reader.
	for i, flags := range []int{os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		file, err := os.OpenFile(filepath.Join(home, loginFiles[i]), flags, 0o600)
		if err != nil {
			return fmt.Errorf("%w: make CODEX_HOME=%s and the files in it writable for the user of this server: %w", errLoginFiles, home, err)
		}
		_ = file.Close() // nothing was written
	}
	return nil
}

// LoginFiles are versions of the file that has the login of a process. Codex reads the file when
// Codex starts. After that, Codex reads it only to renew the tokens of the same account.
type LoginFiles struct {
	Now     LoginFile // the version in the file system now
	Tried   LoginFile // the version when the last app-server was started
	Serving LoginFile // the version when the serving app-server was started
	Ready   bool      // an app-server takes turns
}

// loginRetry is how long a login does not count as new after an app-server could not be started with it.
const loginRetry = 30 * time.Second

// LoginFiles returns the versions of the file that has the login.
func (p *Process) LoginFiles() LoginFiles {
	s := &p.published
	s.mu.Lock()
	files, home := LoginFiles{Tried: s.triedLogin, Ready: s.servingLocked() != nil}, s.operatorHome
	if s.latest != nil {
		files.Serving = s.latest.login
	}
	if !s.loginFailed.IsZero() && time.Since(s.loginFailed) >= loginRetry {
		files.Tried = files.Serving // the login counts as new again
	}
	s.mu.Unlock()
	files.Now = loginFileOf(home)
	return files
}

const (
	// renewEarly is the time before the expiry of the access token at which renewLoginEarly renews the
	// login. So no request has to wait, and a failed renewal can be tried again. Codex by itself would
	// renew the login within a request, five minutes before the expiry.
	renewEarly   = 10 * time.Minute
	renewTimeout = 20 * time.Second // Codex gives up after 15 seconds
	// The shortest and the longest pause between two checks whether the token expires soon.
	minTokenWait, maxTokenWait = time.Minute, 10 * time.Minute
)

type loginTokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Account string `json:"account_id"`
	key     string // a hash of the API key of a login without tokens
}

type loginClaims struct {
	End  int64 `json:"exp"` // Unix seconds
	Auth struct {
		User string `json:"chatgpt_user_id"`
	} `json:"https://api.openai.com/auth"`
}

// claims returns the claims of the access token. They are empty if they cannot be read.
func (l *loginTokens) claims() (claims loginClaims) {
	// The token is a JWT: three parts in base64, the second with the claims.
	_, rest, _ := strings.Cut(l.Access, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	if text, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
		_ = json.Unmarshal(text, &claims) // what cannot be read stays empty
	}
	return claims
}

func readLogin(home string) (loginTokens, error) {
	var login struct {
		Tokens loginTokens `json:"tokens"`
		Key    string      `json:"OPENAI_API_KEY"`
	}
	content, err := readBounded(filepath.Join(home, loginFiles[0]), maxConfig)
	if err == nil {
		err = json.Unmarshal(content, &login)
	}
	if login.Key != "" {
		login.Tokens.key = fmt.Sprintf("%x", sha256.Sum256([]byte(login.Key)))
	}
	return login.Tokens, err
}

// tokenExpiry returns when the access token in a CODEX_HOME expires. renewable is false if that is not known, or
// nothing can be renewed, as with an API key.
func tokenExpiry(home string) (expiry time.Time, renewable bool) {
	login, err := readLogin(home)
	if home == "" || err != nil || login.Refresh == "" {
		return time.Time{}, false // there is nothing to renew, or Codex reports what is wrong with the login
	}
	claims := login.claims()
	return time.Unix(claims.End, 0), claims.End != 0
}

// storeLogin puts the tokens of an answer into the file of a login, as Codex itself does.
// spentToken is the refresh token that the issuer has just exchanged for the new tokens. If the
// file has another refresh token, its tokens are newer, and storeLogin does not change the file.
func storeLogin(path, spentToken string, answer []byte, now time.Time) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	renewed, err := renewedLogin(content, spentToken, answer, now)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if renewed == nil {
		return nil
	}
	return replaceFile(path, renewed)
}

// renewedLogin returns an auth.json with an answer's tokens and a new last_refresh, all else
// unchanged, or nil if the refresh token in content is not spentToken.
func renewedLogin(content []byte, spentToken string, answer []byte, now time.Time) ([]byte, error) {
	var login, tokens, issued map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(content, &login), json.Unmarshal(login["tokens"], &tokens)); err != nil {
		return nil, fmt.Errorf("it has no tokens: %w", err)
	}
	if err := json.Unmarshal(answer, &issued); err != nil {
		return nil, fmt.Errorf("the issuer's answer has no tokens: %w", err)
	}
	var currentToken string
	if json.Unmarshal(tokens["refresh_token"], &currentToken) != nil || currentToken != spentToken {
		return nil, nil
	}
	for _, name := range []string{"id_token", "access_token", "refresh_token"} {
		var token string
		if json.Unmarshal(issued[name], &token) == nil && token != "" {
			tokens[name] = issued[name]
		}
	}
	var err error
	if login["tokens"], err = json.Marshal(tokens); err != nil {
		return nil, err
	}
	if login["last_refresh"], err = json.Marshal(now.UTC()); err != nil {
		return nil, err
	}
	return json.MarshalIndent(login, "", "  ")
}

// replaceFile replaces a file by one that only its user can read. Even after a crash, the file has
// either the old or the new content.
func replaceFile(path string, content []byte) error {
	tempFile, err := os.CreateTemp(filepath.Dir(path), ".auth-*.json") // 0600
	if err != nil {
		return err
	}
	_, err = tempFile.Write(content)
	err = errors.Join(err, tempFile.Sync(), tempFile.Close())
	if err == nil {
		err = os.Rename(tempFile.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tempFile.Name()) // only the first error is reported
	}
	return err
}

// renewLoginEarly makes a serving instance renew its login whenever the access token expires within
// renewEarly. It ends with the instance's connection.
func (p *Process) renewLoginEarly(in *instance) {
	for {
		wait := maxTokenWait
		if expiry, renewable := tokenExpiry(in.home.operatorHome); renewable {
			left := time.Until(expiry) - renewEarly
			if left <= 0 {
				ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
				_ = in.conn.RenewLogin(ctx) // the relay logs a failure
				cancel()
			}
			wait = min(max(left, minTokenWait), maxTokenWait)
		}
		select {
		case <-time.After(wait):
		case <-in.conn.Done():
			return
		}
	}
}

const (
	// signInTimeout bounds a sign-in, from its start until a person has entered the code. For at
	// most 15 minutes, Codex itself asks the issuer whether the code was entered.
	signInTimeout = 15 * time.Minute
	// codeTime bounds the wait for the code from the issuer. Codex itself has no bound for that.
	codeTime = 20 * time.Second
)

var (
	errCodeExpired = errors.New("nobody has entered the code in time; begin again")
	errNoCode      = errors.New("the issuer of the login does not answer; check the network and HTTPS_PROXY, and begin again")
)

// SignIn makes a new login. A person has to enter a code in a browser: SignIn calls show with the
// code, and with the end of the time to enter it. It returns nil when the login is in the
// operator's home. The error is for the operator: it may contain paths, and quote the issuer.
//
// A process without a login has no app-server. So SignIn starts an app-server only for the sign-in, and
// does not log its stderr.
func (p *Process) SignIn(ctx context.Context, show func(code codexrpc.DeviceCode, expires time.Time)) (err error) {
	if p.cfg.Start != nil {
		return errors.New("the app-server is not started by a command, so nobody can sign in here")
	}
	expires := time.Now().Add(signInTimeout)
	ctx, cancel := context.WithDeadlineCause(ctx, expires, errCodeExpired)
	defer cancel()
	private, err := newPrivateDir()
	if err != nil {
		return err
	}
	in, err := p.startSigningIn(private)
	if err != nil {
		return errors.Join(err, private.remove())
	}
	defer func() {
		err = errors.Join(err, in.endChild(p.cfg.stopTimeout/2, p.cfg.stopTimeout/2), private.remove())
	}()
	starting, endStart := context.WithTimeoutCause(ctx, p.cfg.startTimeout+codeTime, errNoCode)
	defer endStart()
	if _, err := in.conn.Initialize(starting, p.cfg.Client); err != nil {
		return err
	}
	if err := in.conn.CheckLogin(starting); err != nil && !errors.Is(err, codexrpc.ErrNotLoggedIn) {
		return err
	}
	code, err := in.conn.StartSignIn(starting)
	if err != nil {
		return err
	}
	show(code, expires)
	return in.conn.AwaitSignIn(ctx)
}

func (p *Process) startSigningIn(private *privateDir) (*instance, error) {
	operatorHome, err := p.cfg.OperatorHome()
	if err != nil {
		return nil, err
	}
	if operatorHome == "" {
		return nil, errors.New("the user of this server has no home directory; set home")
	}
	if err := os.MkdirAll(operatorHome, 0o700); err != nil {
		return nil, fmt.Errorf("making the CODEX_HOME: %w", err)
	}
	in := &instance{exited: make(chan struct{})}
	if in.home, err = p.cfg.newPrivateHome(private.path); err != nil {
		return nil, err
	}
	if in.home.config.mayUseKeyring() {
		return nil, in.home.notLoggedIn()
	}
	program, err := p.cfg.startProgram(private.workDir(), p.cfg.environ(in.home, private.temp()))
	if err != nil {
		return nil, err
	}
	silent := slog.New(slog.DiscardHandler)
	in.attachProgram(program, func() *slog.Logger { return silent })
	return in, nil
}
