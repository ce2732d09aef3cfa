package imagefetch

import (
	"net/http"
	"net/url"
	"strings"
)

const (
	maxURL       = 8 << 10 // bytes; signed URLs are long, but not that long
	maxShown     = 200     // bytes of a URL in a message
	maxRedirects = 5
)

// checkURL parses a URL and checks its form. The address is checked later, when
// it is dialled; see control.
func (f *Fetcher) checkURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, errLongURL
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errURL
	}
	return u, f.check(u)
}

func (f *Fetcher) check(u *url.URL) error {
	switch port := u.Port(); {
	case u.Scheme != "https":
		return errScheme
	case u.User != nil:
		return errUser
	case u.Opaque != "" || u.Hostname() == "", strings.Contains(u.Hostname(), "%"): // an IPv6 zone, which only this machine knows
		return errURL
	case port != "" && port != "443" && !f.anyPort:
		return errPort
	}
	return nil
}

// checkRedirect applies the rules for URLs to the target of a redirect.
func (f *Fetcher) checkRedirect(next *http.Request, sofar []*http.Request) error {
	if len(sofar) > maxRedirects {
		return errRedirects
	}
	// The Referer would show the query of the last URL to the next host.
	next.Header.Del("Referer")
	if len(next.URL.String()) > maxURL {
		return errLongURL
	}
	return f.check(next.URL)
}

// shown returns a URL for a message: without user, query and fragment, and cut
// at maxShown bytes.
func shown(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "":
		return "URL"
	case u.Opaque != "" || u.Host == "":
		return "URL (" + cut(u.Scheme+":") + "…)"
	}
	return cut(u.Scheme + "://" + u.Host + u.EscapedPath())
}

func cut(text string) string {
	if len(text) <= maxShown {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}
