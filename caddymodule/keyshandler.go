package caddymodule

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func init() {
	caddy.RegisterModule(KeysHandler{})
	caddy.RegisterModule(KeysProvider{})
}

// KeysHandler lets only requests with a key pass to the handlers after it, and removes the key from them. It
// sets the user, and applies the limits of the key.
type KeysHandler struct {
	Keys

	app      *App
	refusals *refusalSample
}

// CaddyModule returns the Caddy module information.
func (KeysHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.codex_keys", New: func() caddy.Module { return new(KeysHandler) }}
}

// Provision reads the keys.
func (h *KeysHandler) Provision(ctx caddy.Context) error {
	if err := h.openKeys(ctx, caddy.NewReplacer()); err != nil {
		return err
	}
	if h.areNone() {
		return errors.New("codex_keys needs api_keys_file or api_key in its block; a path beside it is a matcher")
	}
	app, err := ctx.App("codex")
	if err != nil {
		return err
	}
	h.app, h.refusals = app.(*App), &refusalSample{logger: ctx.Logger()}
	return nil
}

// ServeHTTP passes a request with a valid key to the next handler.
func (h *KeysHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	a, apiErr := h.admit(r)
	if apiErr != nil {
		reqCtx, rt := new(requestContext), route{name: "keys"}
		setRequestID(w, r, &reqCtx.ids)
		rt.prepare(w, r, reqCtx)
		refuse(w, r, apiErr)
		h.report(r, apiErr)
		return nil
	}
	defer a.release()
	return next.ServeHTTP(w, r)
}

func (h *KeysHandler) report(r *http.Request, e *apierror.Error) {
	countRequest("keys", e)
	if chosen, leftOut := h.refusals.choose(e.Code.Label(), time.Now()); chosen {
		h.refusals.log(r, e, &usage.Record{Route: "keys", RequestID: r.Header.Get(requestIDHeader), User: userOf(r)}, leftOut)
	}
}

// admit checks the key of a request, removes it, and counts the request for it. A key whose tokens are used up is
// refused.
func (h *KeysHandler) admit(r *http.Request) (*admission, *apierror.Error) {
	a := &admission{keys: &h.Keys, key: presentedKey(r)}
	k, apiErr := h.checkKey(r)
	if apiErr != nil {
		return nil, apiErr
	}
	if k != nil { // otherwise, the key has no limits
		request, err := h.app.limitsOf(&h.Keys).Begin(takeOver(r, k))
		if err == nil {
			a.grants, err = request.Acquire(1)
		}
		if err == nil {
			err = request.Reserve(r.Context(), a.grants, 0)
		}
		if err != nil {
			a.release()
			return nil, gateway.LimitReached(err)
		}
		caddyhttp.SetVar(r.Context(), countedVariable, k.Account)
	}
	for _, name := range keyHeaders {
		r.Header.Del(name)
	}
	caddyhttp.SetVar(r.Context(), admissionVariable, a)
	return a, nil
}

// admission is what codex_keys knows of a request that it has let pass.
type admission struct {
	keys   *Keys
	key    string         // which is no longer in the header
	grants []*quota.Grant // until the request ends or a codex handler takes over
}

const admissionVariable = "codex_admission"

func admissionOf(r *http.Request) *admission {
	a, _ := caddyhttp.GetVar(r.Context(), admissionVariable).(*admission)
	return a
}

func (a *admission) release() {
	for _, grant := range a.grants {
		grant.Close(0)
	}
}

// takeOver returns the key k of a request as it applies from here on: another handler with this key may have counted
// the request, but none counts what follows on the same WebSocket.
func takeOver(r *http.Request, k *quota.Key) *quota.Key {
	if k == nil || caddyhttp.GetVar(r.Context(), countedVariable) != k.Account {
		return k
	}
	caddyhttp.SetVar(r.Context(), countedVariable, nil)
	if a := admissionOf(r); a != nil {
		a.release()
	}
	return k.WithoutRequests()
}
