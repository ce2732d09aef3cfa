package imagefetch

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckURL(t *testing.T) {
	f := New(Options{})
	for text, want := range map[string]reason{
		"https://example.com/a.png":                    "",
		"HTTPS://EXAMPLE.com:443/a?b=c#d":              "",
		"https://example.com:":                         "",
		"https://[2606:4700::1111]/":                   "",
		"https://bücher.example/ä.png":                 "",
		"http://example.com/a.png":                     errScheme,
		"//example.com/a.png":                          errScheme,
		"example.com/a.png":                            errScheme,
		"":                                             errScheme,
		"file:///etc/passwd":                           errScheme,
		"javascript:alert(1)":                          errScheme,
		"https:example.com":                            errURL,
		"https://":                                     errURL,
		"https://:443/":                                errURL,
		"https:///a.png":                               errURL,
		"https://exa mple.com/":                        errURL,
		"https://example.com/\n":                       errURL,
		"https://example.com:port/":                    errURL,
		"https://[::1/":                                errURL,
		"https://[fe80::1%25lo]/":                      errURL,
		"https://user@example.com/":                    errUser,
		"https://user:secret@example.com/":             errUser,
		"https://@example.com/":                        errUser,
		"https://example.com:80/":                      errPort,
		"https://example.com:0443/":                    errPort,
		"https://example.com:8443/":                    errPort,
		"https://e.com/" + strings.Repeat("x", maxURL): errLongURL,
	} {
		_, err := f.checkURL(text)
		if got, _ := err.(reason); got != want {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"https://u:secret@example.com/a b/ä?key=secret#secret": "https://example.com/a%20b/%C3%A4",
		"data:image/png;base64,AAAA":                           "URL (data:…)",
		"a.png":                                                "URL",
		"https://secret:":                                      "https://secret:",
		"https://secret\n":                                     "URL",
		"https://e.com/" + strings.Repeat("x", 500):            "https://e.com/" + strings.Repeat("x", 186) + "…",
	} {
		if got := redactURL(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

// FuzzCheckURL sends any URL. What is accepted must be one that HTTP takes, and
// obey the rules; what is shown must hold no secret and be short.
func FuzzCheckURL(f *testing.F) {
	for _, text := range []string{
		"https://example.com/a.png?x=y#z", "https://user:password@example.com:443/", "https://[fe80::1%25eth0]:443/", "https:opaque?x",
		"data:image/png;base64,AAAA", "https://example.com:/%2e%2e/", "//example.com", "https://ex%41mple.com/%zz",
	} {
		f.Add(text)
	}
	fetcher := New(Options{})
	f.Fuzz(func(t *testing.T, text string) {
		got := redactURL(text)
		if len(got) > maxURLInMessage+len("URL (…)")+len("…") || strings.ContainsAny(got, "?#\n") || !utf8.ValidString(got) {
			t.Errorf("shown as %q", got)
		}
		if _, host, ok := strings.Cut(got, "://"); ok && strings.Contains(strings.SplitN(host, "/", 2)[0], "@") {
			t.Errorf("shown as %q", got)
		}
		u, err := fetcher.checkURL(text)
		if err != nil {
			if _, ok := err.(reason); !ok {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if u.Scheme != "https" || u.User != nil || u.Hostname() == "" || u.Port() != "" && u.Port() != "443" {
			t.Errorf("accepted: %q", u)
		}
		// A host that only IDNA refuses is found out when it is asked.
		if _, err := http.NewRequest(http.MethodGet, u.String(), nil); err != nil {
			t.Errorf("accepted: %q: %v", u, err)
		}
	})
}
