package appserver

import (
	"cmp"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// homeVariable is the variable for the directory of all files of Codex.
const homeVariable = "CODEX_HOME"

// inheritedVariables are passed on from this process's environment to an app-server:
// those that a program needs to run, to reach the network and to log, and those for
// Codex's login and its built-in providers. LC_… and the variables that the providers
// name are passed on, too, and the names of proxies in lower case. Keys of other
// programs are not.
var inheritedVariables = []string{
	"PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TZDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE",
	"RUST_LOG", "NO_COLOR",
	"CODEX_ACCESS_TOKEN", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_OSS_BASE_URL", "CODEX_OSS_PORT",
}

// windowsVariables are needed by programs on Windows. The names are in upper case and
// are compared without regard to case there.
var windowsVariables = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
	"USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "COMPUTERNAME",
}

// temporaryVariables are the variables for the directory for temporary files. An
// app-server has one of its own.
var temporaryVariables = map[bool][]string{false: {"TMPDIR"}, true: {"TEMP", "TMP"}}[runtime.GOOS == "windows"]

// mayHave reports whether an app-server gets a variable. named are the variables that
// its providers name.
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

// environ returns the environment of programs with a home: the inherited variables,
// directories of their own, Config.Env, which cannot change CODEX_HOME, and the
// variables for the proxy and the certificates. If a name has two values, the later one counts.
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
	env = append(env, homeVariable+"="+home.codex())
	env = append(env, besideProxy(slices.Concat(env, home.variables))...)
	all := slices.Concat(env, home.variables) // Codex adds these itself
	return append(env, systemTrust().certificates(home.path, cfg.Command, all, &home.config.providerConfig)...)
}

// noProxy is the variable with the names of those who are reached without a proxy.
const noProxy = "NO_PROXY"

// loopback are the names of this machine, as NO_PROXY lists them.
const loopback = "localhost,127.0.0.1,::1"

// besideProxy returns the variables by which programs reach a provider on this machine without
// the proxy of an environment: a proxy cannot. Either name may be the one that a program reads.
func besideProxy(env []string) []string {
	proxy, except := false, map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		switch upper := strings.ToUpper(name); {
		case upper == noProxy:
			except[name] = value
		case strings.HasSuffix(upper, "_PROXY"):
			proxy = proxy || value != ""
		}
	}
	if !proxy {
		return nil
	}
	listed := loopback
	if before := cmp.Or(except[noProxy], except[strings.ToLower(noProxy)]); before != "" {
		listed = before + "," + loopback
	}
	return []string{noProxy + "=" + listed, strings.ToLower(noProxy) + "=" + listed}
}
