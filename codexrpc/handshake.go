package codexrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The oldest supported release. It accepts injected history and, after tool results, an empty
// input, and it sends a notification at the end of a model response.
const (
	oldestMajor = 0
	oldestMinor = 150
)

// Initialize performs the handshake, which must come before all other calls:
// initialize, the notification initialized, and getAuthStatus, which the app-server
// answers without the network. It returns the app-server's version, for example
// "0.169.0". It fails with [ErrTooOld], with [ErrMisconfigured], or with
// [ErrNotLoggedIn] when the model provider needs a login that is missing. [Conn.Account]
// finds out whether the provider accepts the login.
func (c *Conn) Initialize(ctx context.Context, info ClientInfo) (version string, err error) {
	params := initializeParams{ClientInfo: info}
	params.Capabilities.ExperimentalAPI = true // for dynamicTools, environments and raw events
	params.Capabilities.OptOutNotificationMethods = unused
	var result struct {
		UserAgent string `json:"userAgent"`
		CodexHome string `json:"codexHome"`
	}
	if err := c.call(ctx, call{method: methodInitialize, params: params, result: &result}); err != nil {
		return "", err
	}
	version, err = supportedVersion(result.UserAgent)
	if err != nil {
		return version, err
	}
	if err := c.Notify(ctx, methodInitialized, nil); err != nil {
		return version, err
	}
	loggedIn, err := c.hasLogin(ctx)
	if err != nil {
		return version, err
	}
	if err := c.configError(); err != nil {
		return version, err
	}
	if !loggedIn {
		return version, fmt.Errorf("%w (CODEX_HOME %s): run `codex login` for the user and CODEX_HOME of the app-server", ErrNotLoggedIn, result.CodexHome)
	}
	return version, nil
}

const (
	// defaultsUsed begins the summary of the warning that Codex ignores its configuration. This
	// warning comes before the answer to getAuthStatus. Other warnings concern single settings.
	defaultsUsed = "Invalid configuration"
	// maxConfigWarning bounds the kept text of that warning, in bytes.
	maxConfigWarning = 1 << 10
)

// noteConfigWarning stores why the app-server ignores its configuration. Other warnings are not
// stored.
func (c *Conn) noteConfigWarning(params string) {
	summary := textAt(params, "summary")
	if !strings.HasPrefix(summary, defaultsUsed) {
		return
	}
	text := cut(cmp.Or(textAt(params, "details"), summary), maxConfigWarning)
	c.session.badConfig.Store(&text)
}

// configError returns an error if the app-server ignores its configuration.
func (c *Conn) configError() error {
	text := c.session.badConfig.Load()
	if text == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrMisconfigured, *text)
}

// authStatusParams are the parameters of getAuthStatus.
type authStatusParams struct {
	IncludeToken bool `json:"includeToken"`
	RefreshToken bool `json:"refreshToken"`
}

// authStatus returns the method of the login (empty: there is none), and whether the model provider
// requires one. If renew is true, the app-server first renews the login.
func (c *Conn) authStatus(ctx context.Context, renew bool) (method string, required bool, err error) {
	var result struct {
		AuthMethod         string `json:"authMethod"` // null: there is no login
		RequiresOpenAIAuth bool   `json:"requiresOpenaiAuth"`
	}
	err = c.call(ctx, call{method: methodAuthStatus, params: authStatusParams{RefreshToken: renew}, result: &result})
	return result.AuthMethod, result.RequiresOpenAIAuth, err
}

// hasLogin reports whether there is a login, or the provider needs none.
func (c *Conn) hasLogin(ctx context.Context) (bool, error) {
	method, required, err := c.authStatus(ctx, false)
	c.session.plan.Store(required && method == "chatgpt")
	return method != "" || !required, err
}

// HasPlan reports whether the login at the handshake was a ChatGPT login, which has a plan. With
// such a login, Codex asks the back end for the account before it asks the model.
func (c *Conn) HasPlan() bool { return c.session.plan.Load() }

// RenewLogin makes the app-server renew the tokens of its login, which spends the old tokens. Other
// app-servers with the same CODEX_HOME read the new tokens when their own are about to expire. A
// renewal that the back end refuses is a *CallError, or [ErrNotLoggedIn]. If ctx ends the call, the
// issuer may have spent the old tokens all the same: the app-server must not be stopped before it
// has stored the new ones.
func (c *Conn) RenewLogin(ctx context.Context) error {
	method, required, err := c.authStatus(ctx, true)
	if err == nil && method == "" && required {
		return ErrNotLoggedIn
	}
	return err
}

// Account returns the account of the app-server's login. The app-server asks the provider's back
// end for it, so the call takes as long as the back end. If the app-server cannot find out, the
// error is a *CallError.
func (c *Conn) Account(ctx context.Context) (Account, error) {
	return Call[Account](ctx, c, methodAccountRead, struct{}{})
}

// Models returns the models that Codex offers, including hidden ones, without duplicates. It leaves
// out entries that cannot be read or have no id.
func (c *Conn) Models(ctx context.Context) ([]Model, error) {
	var models []Model
	listed := make(map[string]bool)
	params := struct {
		IncludeHidden bool   `json:"includeHidden"`
		Cursor        string `json:"cursor,omitempty"`
	}{IncludeHidden: true}
	for range maxModelPages {
		var page struct {
			Data       []json.RawMessage `json:"data"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := c.call(ctx, call{method: methodModelList, params: params, result: &page}); err != nil {
			return nil, err
		}
		for _, entry := range page.Data {
			var model Model
			if json.Unmarshal(entry, &model) == nil && model.ID != "" && !listed[model.ID] {
				listed[model.ID] = true
				models = append(models, model)
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			break
		}
	}
	return models, nil
}

// ConfiguredModel returns the model of the app-server's configuration, empty if it has none.
// The connection asks once, since the configuration does not change during a connection.
func (c *Conn) ConfiguredModel(ctx context.Context) (string, error) {
	if known := c.session.configuredModel.Load(); known != nil {
		return *known, nil
	}
	var result struct {
		Config struct {
			Model string `json:"model"` // may be null
		} `json:"config"`
	}
	err := c.call(ctx, call{method: methodConfigRead, params: struct{}{}, result: &result})
	if _, refused := errors.AsType[*CallError](err); refused {
		err = nil // the list of models has it, too
	}
	if err == nil {
		c.session.configuredModel.Store(&result.Config.Model)
	}
	return result.Config.Model, err
}

// DefaultModel returns the model that the app-server uses if none is named: the default, or else
// the first. Hidden models do not count. If there is none, it returns "", and Codex chooses.
func DefaultModel(models []Model) string {
	first := ""
	for _, m := range models {
		switch {
		case m.Hidden:
		case m.IsDefault:
			return m.Model
		case first == "":
			first = m.Model
		}
	}
	return first
}

// maxModelPages bounds the pages of a listing, in case every page names a next one.
const maxModelPages = 50

// AtLeast reports whether a version such as 0.169.0 is at least 0.minor. It is true
// for a version that cannot be parsed.
func AtLeast(version string, minor int) bool {
	var major, its int
	if _, err := fmt.Sscanf(version, "%d.%d.", &major, &its); err != nil {
		return true
	}
	return major > oldestMajor || its >= minor
}

// UnknownVersion is the version of an app-server whose version cannot be parsed.
const UnknownVersion = "unknown"

var versionPattern = regexp.MustCompile(`/(\d+)\.(\d+)\.(\d+)`)

// supportedVersion returns the version in a user agent of the form
// "name/0.169.0 (…)", with an error if it is too old. A version that cannot be parsed
// is [UnknownVersion] and accepted.
func supportedVersion(userAgent string) (string, error) {
	m := versionPattern.FindStringSubmatch(userAgent)
	if m == nil {
		return UnknownVersion, nil
	}
	version := m[0][1:]
	if !AtLeast(version, oldestMinor) {
		return version, fmt.Errorf("codex %s %w: %d.%d.0 or newer is needed (npm install -g @openai/codex)", version, ErrTooOld, oldestMajor, oldestMinor)
	}
	return version, nil
}
