package caddymodule

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/messages"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
)

// anyOrigin allows the pages of every origin.
const anyOrigin = "*"

// maxRequestedHeaders bounds the list of headers that a preflight may request, in bytes.
const maxRequestedHeaders = 4 << 10

// exposedHeaders are the answers' headers that pages may read besides those that browsers always allow.
var exposedHeaders = strings.Join(append([]string{
	requestIDHeader, messages.RequestIDHeader, "Retry-After-Ms", "X-RateLimit-Limit-Requests", "X-RateLimit-Limit-Tokens",
	"X-RateLimit-Remaining-Requests", "X-RateLimit-Remaining-Tokens", "X-RateLimit-Reset-Requests", "X-RateLimit-Reset-Tokens",
	"Anthropic-RateLimit-Requests-Limit", "Anthropic-RateLimit-Requests-Remaining", "Anthropic-RateLimit-Requests-Reset",
}, gateway.AnswerHeaders...), ", ")

var headerNames = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~, -]*$")

// cors lists the origins whose pages may use the API, in the form that browsers send, or is anyOrigin
// alone. If it is nil, only pages of the API's own origin may use the API.
type cors []string

// newCORS resolves and checks the configured origins. If there are none, it returns nil.
func newCORS(origins []string, repl *caddy.Replacer) (c cors, _ error) {
	for _, given := range origins {
		origin, err := repl.ReplaceOrErr(given, true, true)
		if err == nil && origin != anyOrigin {
			origin, err = canonicalOrigin(origin)
		}
		if err != nil {
			return nil, fmt.Errorf("cors: %w", err)
		}
		c = append(c, origin)
	}
	if slices.Contains(c, anyOrigin) && len(c) > 1 {
		return nil, fmt.Errorf("cors: %s lets every origin in; it stands alone", anyOrigin)
	}
	return c, nil
}

// canonicalOrigin checks an origin and returns it in the form that browsers send.
func canonicalOrigin(origin string) (string, error) {
	plain := strings.TrimSuffix(strings.ToLower(origin), "/")
	u, err := url.Parse(plain)
	// The host must be in ASCII, since browsers send it so.
	if err != nil || u.Hostname() == "" || plain != u.Scheme+"://"+u.Host || strings.ContainsFunc(plain, func(r rune) bool { return r == '*' || r > '~' }) {
		return "", fmt.Errorf("%q is not an origin, such as https://app.example, app://obsidian.md or http://localhost:3000", origin)
	}
	usualPort := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return strings.TrimSuffix(strings.TrimSuffix(plain, ":"+usualPort), ":"), nil
}

// serve sets the headers that let a page read the answer, even an error, if the page may use the API. It
// answers a preflight, and then returns true. Preflights have no key, so the key is checked later.
func (c cors) serve(w http.ResponseWriter, r *http.Request) (answered bool) {
	if c == nil {
		return false
	}
	header, origin := w.Header(), r.Header.Get("Origin")
	preflight := r.Method == http.MethodOptions && origin != "" && r.Header.Get("Access-Control-Request-Method") != ""
	header.Add("Vary", "Origin") // also for a wildcard: a cache must not give a page the answer to a request without Origin
	if origin == "" {
		return false
	}
	switch allowed := c.allows(origin); {
	case !allowed && preflight:
		refuse(w, r, apierror.OriginNotAllowed(origin))
		return true
	case !allowed:
		return false
	case c[0] == anyOrigin:
		header.Set("Access-Control-Allow-Origin", anyOrigin)
	default: // only a listed origin may send credentials
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
	}
	if !preflight {
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
		return false
	}
	_ = reqbody.Skip(w, r) // cannot fail for browsers, which send no body
	answerPreflight(header, r.Header)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// answerPreflight allows the headers that a page asks for, by repeating their names. A fixed list
// would lack clients' own headers, and browsers do not apply a wildcard to Authorization.
func answerPreflight(answer, request http.Header) {
	answer.Add("Vary", "Access-Control-Request-Headers")
	answer.Add("Vary", "Access-Control-Request-Private-Network")
	answer.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS")
	requestedHeaders := strings.Join(request.Values("Access-Control-Request-Headers"), ",")
	if requestedHeaders != "" && len(requestedHeaders) <= maxRequestedHeaders && headerNames.MatchString(requestedHeaders) {
		answer.Set("Access-Control-Allow-Headers", requestedHeaders)
	}
	if request.Get("Access-Control-Request-Private-Network") == "true" {
		answer.Set("Access-Control-Allow-Private-Network", "true")
	}
	answer.Set("Access-Control-Max-Age", "7200") // two hours in seconds; the maxima of browsers are between two hours and a day
}

func (c cors) allows(origin string) bool {
	return slices.Contains(c, anyOrigin) || slices.Contains(c, origin)
}

// simpleTypes need no preflight for any origin (Fetch standard, CORS-safelisted request headers).
var simpleTypes = []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}

// crossOrigin detects requests that browsers mark as coming from another origin.
var crossOrigin = http.NewCrossOriginProtection()

// isForged reports whether a request comes from a page that may not use the API, and is of a kind
// that browsers send without a preflight. The page could not read the answer, but the turn would
// use up the plan. Browsers mark such requests by headers that programs do not send.
func (c cors) isForged(r *http.Request) bool {
	contentType := r.Header.Get("Content-Type")
	if contentType == "application/json" { // nearly all programs send this; browsers send a preflight before it
		return false
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && !slices.Contains(simpleTypes, media) {
		return false
	}
	return !c.allows(r.Header.Get("Origin")) && crossOrigin.Check(r) != nil
}
