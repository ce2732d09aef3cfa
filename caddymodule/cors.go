package caddymodule

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/openai"
)

// anyOrigin lets pages of every origin in.
const anyOrigin = "*"

const (
	// preflightAge is how long browsers may remember what a preflight said, in
	// seconds. They have bounds of their own, of two hours and a day.
	preflightAge = "7200"
	// corsMethods are those of the API.
	corsMethods = "GET, HEAD, POST, DELETE, OPTIONS"
	// maxRequestedHeaders bounds the list of headers that a preflight gets back.
	maxRequestedHeaders = 4 << 10
)

// exposedHeaders are those of answers that pages may read, beside the few that
// browsers let them read anyway.
var exposedHeaders = strings.Join([]string{
	requestIDHeader,
	"X-Proxy-Output-Mode",
	"X-Codex-Stop-After-Tools-Mode",
	"X-Codex-Tool-Call-Count",
	"X-Codex-Tool-Call-Truncated",
	"X-Codex-Ignored-Params",
	"Retry-After",
	"Retry-After-Ms",
	"X-Should-Retry",
	"X-RateLimit-Limit-Requests",
	"X-RateLimit-Limit-Tokens",
	"X-RateLimit-Remaining-Requests",
	"X-RateLimit-Remaining-Tokens",
	"X-RateLimit-Reset-Requests",
	"X-RateLimit-Reset-Tokens",
}, ", ")

// headerNames is a list of names as preflights have it.
var headerNames = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~, -]*$")

// cors says pages of which origins may use the API, as browsers ask for it.
// Nil: they are not told anything.
type cors struct {
	any     bool
	origins []string // as browsers write them
}

// newCORS resolves and checks origins. None: nil.
func newCORS(origins []string, repl *caddy.Replacer) (*cors, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	c := new(cors)
	for _, given := range origins {
		origin, err := repl.ReplaceOrErr(given, true, true)
		if err != nil {
			return nil, fmt.Errorf("cors: %w", err)
		}
		if origin == anyOrigin {
			c.any = true
			continue
		}
		if origin, err = canonicalOrigin(origin); err != nil {
			return nil, fmt.Errorf("cors: %w", err)
		}
		c.origins = append(c.origins, origin)
	}
	if c.any && len(c.origins) > 0 {
		return nil, fmt.Errorf("cors: %s lets every origin in; it stands alone", anyOrigin)
	}
	return c, nil
}

// canonicalOrigin checks an origin and writes it as browsers do.
func canonicalOrigin(origin string) (string, error) {
	// Browsers write hosts in ASCII.
	bad := fmt.Errorf("%q is not an origin, such as https://app.example, app://obsidian.md or http://localhost:3000", origin)
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.User != nil || u.Opaque != "" ||
		(u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.ForceQuery || strings.Contains(origin, "#") || strings.ContainsFunc(origin, func(r rune) bool { return r == '*' || r > '~' }) {
		return "", bad
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + strings.TrimSuffix(host, ":"), nil
}

// serve puts the headers on an answer that let a page read it, also if it is
// an error. It answers preflights, and reports true for them: a browser sends
// them without the page's credentials, so that nobody may ask for some first.
func (c *cors) serve(w http.ResponseWriter, r *http.Request) (answered bool) {
	if c == nil {
		return false
	}
	header, origin := w.Header(), r.Header.Get("Origin")
	preflight := r.Method == http.MethodOptions && origin != "" && r.Header.Get("Access-Control-Request-Method") != ""
	header.Add("Vary", "Origin") // also for a wildcard: without an origin there are no headers of this
	if origin == "" {
		return false
	}
	allowed := c.allow(header, origin)
	if !preflight {
		if allowed {
			header.Set("Access-Control-Expose-Headers", exposedHeaders)
		}
		return false
	}
	if !allowed {
		refuse(w, r, openai.OriginNotAllowed(origin))
		return true
	}
	answerPreflight(header, r.Header)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allow names the origin as one that may read the answer, if it may. Browsers
// send credentials along only for origins that are listed.
func (c *cors) allow(header http.Header, origin string) bool {
	switch {
	case !c.allows(origin):
		return false
	case c.any:
		header.Set("Access-Control-Allow-Origin", anyOrigin)
	default:
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
	}
	return true
}

// answerPreflight allows what a page wants to send. The headers are repeated,
// since clients have some of their own, and browsers take no wildcard for
// Authorization.
func answerPreflight(answer, asked http.Header) {
	answer.Add("Vary", "Access-Control-Request-Headers")
	answer.Add("Vary", "Access-Control-Request-Private-Network")
	answer.Set("Access-Control-Allow-Methods", corsMethods)
	wanted := strings.Join(asked.Values("Access-Control-Request-Headers"), ",")
	if wanted != "" && len(wanted) <= maxRequestedHeaders && headerNames.MatchString(wanted) {
		answer.Set("Access-Control-Allow-Headers", wanted)
	}
	if asked.Get("Access-Control-Request-Private-Network") == "true" {
		answer.Set("Access-Control-Allow-Private-Network", "true")
	}
	answer.Set("Access-Control-Max-Age", preflightAge)
}
