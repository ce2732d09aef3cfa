package codexrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Initialize performs the handshake, which must come first. It returns the app-server's version,
// for example "0.171.0", or [UnknownVersion]. Its error may match [ErrTooOld].
func (c *Conn) Initialize(ctx context.Context, info ClientInfo) (version string, err error) {
	params := initializeParams{ClientInfo: info}
	params.Capabilities.ExperimentalAPI = true // for dynamicTools, environments and raw events
	if c.opts.Notified == nil {
		params.Capabilities.OptOutNotificationMethods = unwantedNotifications
	}
	var result struct {
		UserAgent string `json:"userAgent"`
		CodexHome string `json:"codexHome"`
	}
	if err := c.call(ctx, call{method: methodInitialize, params: params, result: &result}); err != nil {
		return "", err
	}
	c.server.home.Store(result.CodexHome)
	if version, err = supportedVersion(result.UserAgent); err != nil {
		return version, err
	}
	return version, c.Notify(ctx, methodInitialized, nil)
}

// CheckLogin checks, after the handshake, that Codex can use its configuration and has the login
// that its model provider needs; errors may match [ErrMisconfigured] or [ErrNotLoggedIn]. It also
// sets HasPlan. Only [Conn.Account] checks whether the provider accepts the login.
func (c *Conn) CheckLogin(ctx context.Context) error {
	method, required, err := c.authStatus(ctx, false)
	c.server.hasPlan.Store(required && method == "chatgpt")
	if err != nil {
		return err
	}
	if problem := c.server.configProblem.Load(); problem != nil {
		return fmt.Errorf("%w: %s", ErrMisconfigured, *problem)
	}
	if method == "" && required {
		return fmt.Errorf("%w (CODEX_HOME %v): run `codex login` for the user and CODEX_HOME of the app-server", ErrNotLoggedIn, c.server.home.Load())
	}
	return nil
}

const (
	// ignoredConfigPrefix begins the warning that Codex ignores its whole configuration, which
	// arrives before the answer to getAuthStatus. Other warnings concern single settings.
	ignoredConfigPrefix = "Invalid configuration"
	maxConfigWarning    = 1 << 10 // bytes
)

func (c *Conn) storeConfigWarning(params string) {
	summary := textAt(params, "summary")
	if !strings.HasPrefix(summary, ignoredConfigPrefix) {
		return
	}
	text := truncate(cmp.Or(textAt(params, "details"), summary), maxConfigWarning)
	c.server.configProblem.Store(&text)
}

// authStatus returns the method of the login (empty: there is no login), and whether the model
// provider requires a login. If renew is true, the app-server first renews the login.
func (c *Conn) authStatus(ctx context.Context, renew bool) (method string, required bool, err error) {
	var result struct {
		AuthMethod         string `json:"authMethod"` // null: there is no login
		RequiresOpenAIAuth bool   `json:"requiresOpenaiAuth"`
	}
	params := map[string]any{"includeToken": false, "refreshToken": renew}
	err = c.call(ctx, call{method: methodAuthStatus, params: params, result: &result})
	return result.AuthMethod, result.RequiresOpenAIAuth, err
}

// HasPlan reports whether, at the last CheckLogin, the model provider required a login and the
// app-server had a ChatGPT login. Such a login has a plan. With such a login, Codex asks ChatGPT's
// back end for the account before it asks the model.
func (c *Conn) HasPlan() bool { return c.server.hasPlan.Load() }

// RenewLogin makes the app-server renew the tokens of its login; the old tokens stop working. Other
// app-servers with the same CODEX_HOME read the new tokens when their own are about to expire. If
// the renewal is refused, the error is a *CallError or [ErrNotLoggedIn]. Even if ctx ends the call,
// the old tokens may have stopped working. So do not stop the app-server before it has stored the
// new ones.
func (c *Conn) RenewLogin(ctx context.Context) error {
	method, required, err := c.authStatus(ctx, true)
	if err == nil && method == "" && required {
		return ErrNotLoggedIn
	}
	return err
}

// Account returns the account of the login. The app-server asks the provider's back end, so the call takes
// as long as the back end. If the back end gives no account, the error is a *CallError.
func (c *Conn) Account(ctx context.Context) (Account, error) {
	return Call[Account](ctx, c, methodAccountRead, struct{}{})
}

// Models returns the models that Codex offers, including hidden ones. It leaves out duplicates,
// entries without an id, and entries that cannot be read.
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

// ConfiguredModel returns the model in the app-server's configuration, or "" if there is none or
// the app-server refuses the call. The result is kept: the configuration does not change.
func (c *Conn) ConfiguredModel(ctx context.Context) (string, error) {
	if cached := c.server.configuredModel.Load(); cached != nil {
		return *cached, nil
	}
	var result struct {
		Config struct {
			Model string `json:"model"` // may be null
		} `json:"config"`
	}
	err := c.call(ctx, call{method: methodConfigRead, params: struct{}{}, result: &result})
	if _, refused := errors.AsType[*CallError](err); refused {
		err = nil // without the configuration, the list of models still names a default
	}
	if err == nil {
		c.server.configuredModel.Store(&result.Config.Model)
	}
	return result.Config.Model, err
}

// maxModelPages bounds the pages of the list of models, in case the list never ends.
const maxModelPages = 50
