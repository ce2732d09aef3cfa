package caddymodule

import (
	"mime"
	"net/http"
	"slices"
)

// formTypes are the media types that any page may send anywhere, as a form
// does: browsers ask nobody first (fetch standard, CORS-safelisted headers).
var formTypes = []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}

// crossOrigin tells requests that a page of another origin has made.
var crossOrigin = http.NewCrossOriginProtection()

// forged reports whether a page that may not use the API makes this request in a
// way for which browsers ask for no preflight. It could not read the answer, but
// the turn would be paid for. Requests of programs have nothing of a browser's,
// and those of JSON are not sent without a preflight.
func (c *cors) forged(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && !slices.Contains(formTypes, media) {
		return false
	}
	return !c.allows(r.Header.Get("Origin")) && crossOrigin.Check(r) != nil
}

// allows reports whether pages of an origin may use the API.
func (c *cors) allows(origin string) bool {
	return c != nil && (c.any || slices.Contains(c.origins, origin))
}
