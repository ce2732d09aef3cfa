package appserver

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// homeVariable names the directory in which Codex keeps everything.
const homeVariable = "CODEX_HOME"

// inheritedVariables are what an app-server gets of this process's environment,
// beside LC_… and what the providers of its configuration name: what a program
// needs to run, to reach the network and to log, and what is meant for Codex's
// login and its built-in providers. Keys of other programs are not among them.
// Proxies count in lower case, too.
var inheritedVariables = []string{
	"PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TZDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE",
	"RUST_LOG", "NO_COLOR",
	"CODEX_ACCESS_TOKEN", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_OSS_BASE_URL", "CODEX_OSS_PORT",
}

// windowsVariables are those without which programs do not run on Windows. Names
// are in capitals: there the case of a name does not count.
var windowsVariables = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
	"USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "COMPUTERNAME",
}

// temporaryVariables name the directory for temporary files. An app-server has one
// of its own, which is removed with it.
var temporaryVariables = map[bool][]string{false: {"TMPDIR"}, true: {"TEMP", "TMP"}}[runtime.GOOS == "windows"]

// mayHave reports whether an app-server gets a variable. named are those that its
// providers name.
func mayHave(name string, named []string) bool {
	if slices.Contains(named, name) || strings.HasPrefix(name, "LC_") || slices.Contains(inheritedVariables, name) {
		return true
	}
	upper := strings.ToUpper(name)
	if runtime.GOOS == "windows" {
		return slices.Contains(windowsVariables, upper) || slices.Contains(inheritedVariables, upper)
	}
	return name == strings.ToLower(name) && strings.HasSuffix(name, "_proxy") && slices.Contains(inheritedVariables, upper)
}

// environ is the environment of the programs that are run with a home: what they
// may have of this process's, directories of their own, and what the
// configuration adds. Of a name that stands in it twice, the later value holds.
// The configuration cannot change CODEX_HOME.
func (cfg *Config) environ(home *privateHome, temp string) (env []string) {
	named := home.config.variables()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); mayHave(name, named) {
			env = append(env, variable)
		}
	}
	env = append(env, "HOME="+home.user())
	for _, name := range temporaryVariables {
		env = append(env, name+"="+temp)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Env)) {
		env = append(env, name+"="+cfg.Env[name])
	}
	return append(env, homeVariable+"="+home.codex())
}
