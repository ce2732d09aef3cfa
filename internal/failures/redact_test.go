package failures

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestWithoutURLs(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"unexpected status 401 Unauthorized: scripted 401, url: http://127.0.0.1:1/v1/responses":                                                                                                "unexpected status 401 Unauthorized: scripted 401",
		"unexpected status 403 Forbidden: no, url: https://h.example/v1/responses?key=s3cret, cf-ray: a-b, request id: req_1":                                                                   "unexpected status 403 Forbidden: no, cf-ray: a-b, request id: req_1",
		"error sending request for url (http://10.0.0.1:8080/v1/responses)":                                                                                                                     "error sending request",
		"error sending request for url (http://[::1]:8080/v1/responses): tcp connect error: Connection refused (os error 111)":                                                                  "error sending request: tcp connect error: Connection refused (os error 111)",
		"Find your key at https://platform.openai.com/account/api-keys, or buy at https://chatgpt.com/codex/settings/usage.":                                                                    "Find your key at https://platform.openai.com/account/api-keys, or buy at https://chatgpt.com/codex/settings/usage.",
		"no: https://chatgpt.com/backend-api/codex, https://api.openai.com/v1/x, https://help.openai.com.evil.org/, http://openai.com, https://u:p@openai.com/, https://help.openai.com/?key=1": "no: [url], [url], [url], [url], [url], [url]",
		"Find your key at https://platform.example.com/account/keys.":                                                                                                                           "Find your key at [url].",
		"see <https://h/a>, 'wss://h/b' and (ftp://h/c).":                                                                                                                                       "see <[url]>, '[url]' and ([url]).",
		`{"error":{"url":"http:\/\/h:1\/v1\/x","at":"https://user:pw@h/"}}`:                                                                                                                     `{"error":{"url":"[url]","at":"[url]"}}`,
		"HTTPS://H.EXAMPLE/A and //h and a://":                                                                                                                                                  "[url] and //h and [url]",
		"from 127.0.0.1:8080, [::1]:8080 and [fe80::1%eth0], 10.1.2.3":                                                                                                                          "from [address], [address] and [address], [address]",
		"dial api.h.example:443: no; localhost:11434: no; localhost is not":                                                                                                                     "dial [address]: no; [address]: no; localhost is not",
		"llama3:8b, gpt-oss:20, 0.169.0, 12:30:45, 1/5, items[3]: a.b: c, try again in 1m30.5s":                                                                                                 "llama3:8b, gpt-oss:20, 0.169.0, 12:30:45, 1/5, items[3]: a.b: c, try again in 1m30.5s",
		"Reconnecting... 2/5: é “x”":                                                                                                                                                            "Reconnecting... 2/5: é “x”",
	} {
		if got := withoutURLs(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestWithoutPaths(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"failed to load configuration: /home/x/.codex/config.toml:3:5: bad": "failed to load configuration: [path]: bad",
		`open "/Users/J Doe/.codex/auth.json": denied`:                      `open "[path]": denied`,
		"`/opt/a b` and '/srv/a b' (/tmp/x), path=/var/lib.":                "`[path]` and '[path]' ([path]), path=[path].",
		`C:\Users\x\config.toml and \\server\share and ~/.codex`:            `[path] and [path] and [path]`,
		"1/5, and/or, a / b, application/json, items[0], ///":               "1/5, and/or, a / b, application/json, items[0], ///",
	} {
		if got := withoutPaths(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestRedactGrowth checks that texts which look like URLs and paths at every byte
// become at most four times as long.
func TestRedactGrowth(t *testing.T) {
	const size = maxClientMessage / 8
	for _, part := range []string{
		"a", "1.", "a.", "a.a:", "1.1.1.1:", "1.1.1.1:1.", "://", "a://", ", url: ", ", url: x://", " for url (x://", "[:", "[::%", "[::%\"",
		"\"/a", "'/a\"/b`/c", "'/a\"/b\"", " /a:", `\/`, `C:\a`,
	} {
		if got := withoutPaths(withoutURLs(strings.Repeat(part, size/len(part)))); len(got) > 4*size {
			t.Errorf("%q became %d bytes", part, len(got))
		}
	}
}

// FuzzRedact: whatever Codex says, no URL and no address with a port is left,
// and a second pass finds nothing more.
func FuzzRedact(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		got := withoutURLs(text)
		for word := range strings.FieldsSeq(got) {
			u, errURL := url.Parse(word)
			_, errAddress := netip.ParseAddrPort(word)
			if errAddress == nil || errURL == nil && u.Scheme != "" && u.Host != "" {
				t.Errorf("%q became %q, with %q", text, got, word)
			}
		}
		if again := withoutURLs(got); again != got {
			t.Errorf("%q became %q, then %q", text, got, again)
		}
		if !strings.ContainsAny(text, ":.") && got != text {
			t.Errorf("%q became %q", text, got)
		}
		if !strings.ContainsAny(got, `/\`) && withoutPaths(got) != got {
			t.Errorf("%q became %q", got, withoutPaths(got))
		}
	})
}
