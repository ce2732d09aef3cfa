package codexrpc

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func shake(t *testing.T, userAgent, login string) (version string, err error) {
	t.Helper()
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		done := async(func() (err error) {
			if version, err = c.Initialize(t.Context(), ClientInfo{Name: "test", Version: "1"}); err == nil {
				err = c.CheckLogin(t.Context())
			}
			return err
		})
		p.answer(p.expect(methodInitialize), `{"userAgent":"`+userAgent+`","codexHome":"/home/u/.codex"}`)
		if login != "" {
			if h := p.expect(methodInitialized); h.ID != nil || h.Params != nil {
				t.Errorf("heard %+v", h)
			}
			p.answer(p.expect(methodAuthStatus), login)
		}
		err = <-done
	})
	return version, err
}

func TestHandshake(t *testing.T) {
	for login, want := range map[string]bool{
		`{"authMethod":null,"authToken":null,"requiresOpenaiAuth":false}`:        true,
		`{"authMethod":"chatgpt","authToken":null,"requiresOpenaiAuth":true}`:    true,
		`{"authMethod":null,"requiresOpenaiAuth":true}`:                          false,
		`{"requiresOpenaiAuth":true}`:                                            false,
		`{"authMethod":"apikey","requiresOpenaiAuth":true,"future":{"more":[]}}`: true,
	} {
		version, err := shake(t, "test/0.171.0 (Linux; x86_64)", login)
		if version != "0.171.0" {
			t.Errorf("the version is %q", version)
		}
		if want && err != nil || !want && !errors.Is(err, ErrNotLoggedIn) {
			t.Errorf("%s: %v", login, err)
		}
		if !want && !strings.Contains(err.Error(), "codex login") {
			t.Errorf("%q does not say what to do", err)
		}
	}
}

// TestHandshakeMisconfigured checks that an app-server that uses its defaults, and with
// them another provider, is refused, and that other warnings are not.
func TestHandshakeMisconfigured(t *testing.T) {
	for warning, want := range map[string]string{
		`{"summary":"Invalid configuration; using defaults.","details":"no provider x"}`:                "codex cannot use its configuration: no provider x",
		`{"summary":"Invalid configuration; using defaults."}`:                                          "codex cannot use its configuration: Invalid configuration",
		`{"summary":"Invalid configuration","details":"` + strings.Repeat("é", maxConfigWarning) + `"}`: "é…",
		`{"summary":"Unknown setting x"}`:                                                               "",
	} {
		withPeer(t, func(t *testing.T, c *Conn, p *peer) {
			done := async(func() error {
				if _, err := c.Initialize(t.Context(), ClientInfo{}); err != nil {
					return err
				}
				return c.CheckLogin(t.Context())
			})
			p.answer(p.expect(methodInitialize), `{"userAgent":"test/0.171.0 (x)","codexHome":"/h"}`)
			p.expect(methodInitialized)
			p.notify(methodConfigWarning, warning)
			p.answer(p.expect(methodAuthStatus), `{"requiresOpenaiAuth":false}`)
			err := <-done
			if want == "" && err != nil || want != "" && (!errors.Is(err, ErrMisconfigured) || !strings.Contains(err.Error(), want) || len(err.Error()) > 2*maxConfigWarning) {
				t.Errorf("%.100s: %v", warning, err)
			}
		})
	}
}

// TestInitializeParams checks what Initialize asks for, and that it can be refused.
func TestInitializeParams(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		done := async(func() error {
			return errOf(c.Initialize(t.Context(), ClientInfo{Name: "caddy-codex", Version: "1.2.3"}))
		})
		call := p.expect(methodInitialize)
		var params initializeParams
		must.OK(t, json.Unmarshal(call.Params, &params))
		if params.ClientInfo != (ClientInfo{Name: "caddy-codex", Version: "1.2.3"}) || !params.Capabilities.ExperimentalAPI {
			t.Errorf("asked for %s", call.Params)
		}
		if !slices.Contains(params.Capabilities.OptOutNotificationMethods, "thread/started") {
			t.Error("opted out of nothing")
		}
		p.refuse(call, -32600, "no")
		if err, refused := <-done, (*CallError)(nil); !errors.As(err, &refused) {
			t.Errorf("ended with %v", err)
		}
	})
}

// Each model is listed once, and none that cannot be read.
func TestModelsAreListedToTheLastPage(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		var models []Model
		done := async(func() (err error) {
			models, err = c.Models(t.Context())
			return err
		})
		first := p.expect(methodModelList)
		if string(first.Params) != `{"includeHidden":true}` {
			t.Errorf("asked with %s", first.Params)
		}
		p.answer(first, `{"data":[{"id":"a","model":"a","displayName":"A","hidden":false,"isDefault":true,"supportedReasoningEfforts":[{"reasoningEffort":"low","description":"d"}],"defaultReasoningEffort":"low"}],"nextCursor":"page 2"}`)
		second := p.expect(methodModelList)
		if string(second.Params) != `{"includeHidden":true,"cursor":"page 2"}` {
			t.Errorf("asked with %s", second.Params)
		}
		p.answer(second, `{"data":[{"id":"a"},{"id":5},null,{"id":""},"b",{"id":"b","hidden":true}],"nextCursor":null}`)
		if err := <-done; err != nil || len(models) != 2 || models[0] != (Model{ID: "a", Model: "a", IsDefault: true}) || !models[1].Hidden {
			t.Errorf("listed %+v (%v)", models, err)
		}
	})
}

// TestModelsHaveAnEnd checks that a listing whose cursor never ends is cut off.
func TestModelsHaveAnEnd(t *testing.T) {
	withPeer(t, func(t *testing.T, c *Conn, p *peer) {
		done := listModels(t.Context(), c)
		for range maxModelPages {
			p.answer(p.expect(methodModelList), `{"data":[{"id":"a"}],"nextCursor":"more"}`)
		}
		must.OK(t, <-done)
		p.silent()
	})
}

// TestConfiguredModel checks where it comes from, and that it is asked for until it is known.
func TestConfiguredModel(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"configured":   {`{"config":{"model":"own"}}`, "own"},
		"none":         {`{"config":{"model":null}}`, ""},
		"of no form":   {`{}`, ""},
		"not readable": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(t *testing.T, c *Conn, p *peer) {
				var got string
				ask := func() (err error) {
					got, err = c.ConfiguredModel(t.Context())
					return err
				}
				done := async(ask)
				if read := p.expect(methodConfigRead); test.config != "" {
					p.answer(read, test.config)
				} else {
					p.refuse(read, -32601, "unknown method")
				}
				if err := <-done; err != nil || got != test.want {
					t.Errorf("%q (%v), want %q", got, err, test.want)
				}
				if err := ask(); err != nil || got != test.want {
					t.Errorf("then %q (%v)", got, err)
				}
				p.silent()
			})
		})
	}
}
