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
	httpsPort    = "443"
)

// checkURL reads a URL and applies the rules for its text. Which addresses may
// be dialled is not told by it, but by the connection.
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
	case u.Opaque != "" || u.Hostname() == "":
		return errURL
	case strings.Contains(u.Hostname(), "%"): // a zone, which is this machine's own
		return errURL
	case port != "" && port != httpsPort && !f.anyPort:
		return errPort
	}
	return nil
}

// checkRedirect applies the rules to the next URL of a chain of redirects.
func (f *Fetcher) checkRedirect(next *http.Request, sofar []*http.Request) error {
	if len(sofar) > maxRedirects {
		return errRedirects
	}
	// It would hand the query of the last URL to the next host.
	next.Header.Del("Referer")
	if len(next.URL.String()) > maxURL {
		return errLongURL
	}
	return f.check(next.URL)
}

// shown is a URL as a message may name it: without user, query and fragment,
// and cut if it is long.
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
