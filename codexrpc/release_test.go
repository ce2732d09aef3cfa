package codexrpc

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestSupportedVersion(t *testing.T) {
	for userAgent, want := range map[string]struct {
		version string
		ok      bool
	}{
		"caddy-codex/0.169.0 (Ubuntu 24.4.0; x86_64) unknown": {"0.169.0", true},
		"caddy-codex/0.168.9 (…)":                             {"0.168.9", false},
		"caddy-codex/0.89.0":                                  {"0.89.0", false},
		"caddy-codex/1.0.0":                                   {"1.0.0", true},
		"caddy-codex/1.2.3-alpha.4":                           {"1.2.3", true},
		"something else":                                      {"unknown", true},
		"":                                                    {"unknown", true},
		"x/99999999999999999999.1.1":                          {"99999999999999999999.1.1", true},
	} {
		version, err := supportedVersion(userAgent)
		if version != want.version || (err == nil) != want.ok {
			t.Errorf("%q: %q, %v", userAgent, version, err)
		}
		if err != nil && !strings.Contains(err.Error(), "0.169.0 or newer") {
			t.Errorf("%q does not say what is needed", err)
		}
	}
	if version, err := shake(t, "test/0.120.0", ""); version != "0.120.0" || err == nil {
		t.Errorf("an old release shook hands: %q, %v", version, err)
	}
}

func TestUntested(t *testing.T) {
	const newer = "newer than what was tested (" + newestTested + ")"
	for version, want := range map[string]string{
		"0.169.0": "", "0.171.0": "", "0.171.99": "", "0.172.0": newer, "0.172.0-alpha.1": newer, "1.0.0": newer,
		"99999999999999999999.1.1": "", UnknownVersion: "", "": "",
	} {
		if got := Untested(version); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", version, got)
		}
	}
}

// TestReleasesAreNamed compares the releases with what else names them.
func TestReleasesAreNamed(t *testing.T) {
	for file, wants := range map[string][]string{
		"Makefile":                   {`CODEX_VERSION := ` + newestTested + `.`},
		"README.md":                  {"Tested with Codex " + newestTested + ";", "is " + oldestSupported + ", two minor releases back.", "no Codex " + oldestSupported + " or newer", "@openai/codex@" + newestTested + "."},
		"docs/troubleshooting.md":    {"@openai/codex@" + newestTested + "."},
		"docs/dev/codex-releases.md": {"Use Codex " + newestTested + ". The oldest release is " + oldestSupported, "| " + newestTested + ".", "| " + oldestSupported + "."},
		"docs/deployment.md":         {"@openai/codex@" + newestTested + "."},
		"examples/docker/Dockerfile": {"@openai/codex@" + newestTested + "."},
		"CHANGELOG.md":               {"- Use Codex " + oldestSupported + " or newer"},
		"scripts/run":                {"oldest=" + strings.TrimPrefix(oldestSupported, "0.") + " "},
	} {
		text, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(string(text)), " ") // without the ends of lines
		for _, want := range wants {
			if !strings.Contains(words+" ", want) {
				t.Errorf("%s does not say %q", file, want)
			}
		}
		installs := regexp.MustCompile(`@openai/codex@\d+\.\d+`)
		for _, install := range installs.FindAllString(string(text), -1) {
			if install != "@openai/codex@"+newestTested {
				t.Errorf("%s installs %s", file, install)
			}
		}
	}
}
