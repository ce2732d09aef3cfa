package imagefetch

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// TestRedirects checks that five redirects are followed, and that the rules for
// URLs apply to each.
func TestRedirects(t *testing.T) {
	inner, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the inner server was asked") })
	server, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("a redirect carries on %v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes", Path: "/"})
		to := r.URL.Query().Get("to")
		if left, err := strconv.Atoi(to); err == nil {
			if left == 0 {
				_, _ = io.WriteString(w, png)
				return
			}
			to = fmt.Sprint("/?to=", left-1)
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	if _, err := f.Fetch(testContext(t), []string{server.URL + "/?to=5"}, unbounded); err != nil {
		t.Error(err)
	}
	refused(t, f, server.URL+"/?to=6", errRedirects)
	refused(t, f, server.URL+"/?to=1000000", errRedirects)
	for to, want := range map[string]reason{
		inner.URL: errAddress,
		strings.Replace(server.URL, "https", "http", 1):      errScheme,
		"http://example.com/a.png":                           errScheme,
		"file:///etc/passwd":                                 errScheme,
		"data:image/png;base64,AAAA":                         errScheme,
		"https://user:password@127.0.0.1/":                   errUser,
		"https:///nowhere":                                   errURL,
		"https://example.com/" + strings.Repeat("x", maxURL): errLongURL,
	} {
		refused(t, f, server.URL+"/?to="+url.QueryEscape(to), want)
	}
}

// TestRedirectWithoutTarget checks that a redirect without a Location is an
// error like any other status.
func TestRedirectWithoutTarget(t *testing.T) {
	server, f := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) })
	refused(t, f, server.URL, "its server answered 302 (Found)")
}
