package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestMaintainerScripts checks what the scripts of the packages do, with programs that only write
// down how they were called.
func TestMaintainerScripts(t *testing.T) {
	systemd := ""
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		systemd = "systemctl "
	}
	next := "npm install --global --prefix /usr/local @openai/codex@" + pinned("CODEX_VERSION") + "\n"
	for call, c := range map[string]struct{ calls, unit, says string }{
		"postinstall configure":           {"id caddy-codex,useradd ", "daemon-reload", next}, // dpkg
		"postinstall configure 0.1.0":     {"id caddy-codex,useradd ", "daemon-reload,try-restart caddy-codex", ""},
		"postinstall abort-upgrade 0.1.0": {"", "", ""},
		"postinstall 1":                   {"id caddy-codex,useradd ", "daemon-reload", next}, // rpm
		"postinstall 2":                   {"id caddy-codex,useradd ", "daemon-reload,try-restart caddy-codex", ""},
		"preremove remove":                {"", "disable --now caddy-codex", ""},
		"preremove upgrade 0.2.0":         {"", "", ""},
		"preremove 0":                     {"", "disable --now caddy-codex", ""},
		"preremove 1":                     {"", "", ""},
		"postremove remove":               {"", "daemon-reload", ""},
		"postremove upgrade 0.2.0":        {"", "", ""},
		"postremove purge":                {"id caddy-codex,rm -rf /var/lib/caddy-codex /etc/caddy-codex", "", ""},
		"postremove 0":                    {"", "daemon-reload", ""},
		"postremove 1":                    {"", "", ""},
	} {
		t.Run(call, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"id", "useradd", "userdel", "rm", "systemctl"} {
				stub := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>%s/calls\n[ %[1]s != id ]\n", name, dir)
				must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(stub), 0o755))
			}
			must.OK(t, os.WriteFile(filepath.Join(dir, "calls"), nil, 0o600))
			args := strings.Fields(call)
			cmd := exec.CommandContext(e2e.Context(t), "sh", append([]string{"../../../../packaging/" + args[0] + ".sh"}, args[1:]...)...)
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			output, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(output), c.says) || c.says == "" && len(output) > 0 {
				t.Errorf("%v: %s", err, output)
			}
			want := strings.FieldsFunc(c.calls, func(r rune) bool { return r == ',' })
			for unit := range strings.FieldsFuncSeq(c.unit, func(r rune) bool { return r == ',' }) {
				if systemd != "" {
					want = append(want, systemd+unit)
				}
			}
			got := strings.Split(strings.TrimSpace(e2e.ReadFile(t, filepath.Join(dir, "calls"))), "\n")
			if len(want) == 0 {
				want = []string{""}
			}
			if len(got) != len(want) {
				t.Fatalf("it called %q, want %q", got, want)
			}
			for i := range want {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("it called %q, want %q", got[i], want[i])
				}
			}
		})
	}
}
