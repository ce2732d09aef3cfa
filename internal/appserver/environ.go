package appserver

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"iter"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const homeVariable = "CODEX_HOME"

// inheritedVariables are the environment variables of this process that an app-server gets, to run, to
// reach the network and to log. Those in the last line are for Codex's login and built-in providers.
// isAllowedVariable also allows LC_…, the proxies in lower case, the variables that the providers name and,
// on Windows, windowsVariables. No other variable is passed on, since it may be the key of another program.
var inheritedVariables = []string{
	"PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TZDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE",
	"RUST_LOG", "NO_COLOR",
	"CODEX_ACCESS_TOKEN", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "CODEX_OSS_BASE_URL", "CODEX_OSS_PORT",
}

// windowsVariables are what programs on Windows need, in upper case; Windows ignores the case.
var windowsVariables = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
	"USERNAME", "USERDOMAIN", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "COMPUTERNAME",
}

// temporaryVariables name the directory for temporary files. Each Process has its own.
var temporaryVariables = map[bool][]string{false: {"TMPDIR"}, true: {"TEMP", "TMP"}}[runtime.GOOS == "windows"]

// isAllowedVariable reports whether an app-server gets a variable. providerVariables are those that its model
// providers use.
func isAllowedVariable(name string, providerVariables []string) bool {
	if slices.Contains(providerVariables, name) || strings.HasPrefix(name, "LC_") || slices.Contains(inheritedVariables, name) {
		return true
	}
	upper := strings.ToUpper(name)
	if runtime.GOOS == "windows" {
		return slices.Contains(windowsVariables, upper) || slices.Contains(inheritedVariables, upper)
	}
	return name == strings.ToLower(name) && strings.HasSuffix(name, "_proxy") && slices.Contains(inheritedVariables, upper)
}

// environ returns the environment of the programs that use home. temp is the directory for their temporary
// files. If a name occurs twice, the later value counts. Therefore Config.Env replaces inherited variables,
// but cannot change CODEX_HOME.
func (cfg *Config) environ(home *privateHome, temp string) (env []string) {
	providerVariables := home.config.variableNames()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); isAllowedVariable(name, providerVariables) {
			env = append(env, variable)
		}
	}
	env = append(env, "HOME="+home.userDir())
	for _, name := range temporaryVariables {
		env = append(env, name+"="+temp)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Env)) {
		env = append(env, name+"="+cfg.Env[name])
	}
	env = append(env, homeVariable+"="+home.codexDir())
	env = append(env, noProxyVariables(slices.Concat(env, home.variables))...)
	all := slices.Concat(env, home.variables) // as Codex sees it: Codex adds home.variables itself
	return append(env, systemTrust().writeCertificates(home.path, cfg.Command, all, &home.config.providerConfig)...)
}

const noProxy = "NO_PROXY"

const loopback = "localhost,127.0.0.1,::1"

// noProxyVariables returns variables that exempt this machine from the proxy of env, since a proxy
// cannot reach a provider on this machine. Some programs read the upper-case name of a variable and
// others the lower-case name, so noProxyVariables sets both. If env has no proxy, it returns nil.
func noProxyVariables(env []string) []string {
	hasProxy, noProxyValues := false, map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		switch upper := strings.ToUpper(name); {
		case upper == noProxy:
			noProxyValues[name] = value
		case strings.HasSuffix(upper, "_PROXY"):
			hasProxy = hasProxy || value != ""
		}
	}
	if !hasProxy {
		return nil
	}
	listed := loopback
	if before := cmp.Or(noProxyValues[noProxy], noProxyValues[strings.ToLower(noProxy)]); before != "" {
		listed = before + "," + loopback
	}
	return []string{noProxy + "=" + listed, strings.ToLower(noProxy) + "=" + listed}
}

// These variables choose the certificates that Codex trusts. If none of them is set, Codex parses
// all certificates of the system with OpenSSL, for each new thread and, over HTTP, for each
// request. That takes a third of the CPU time of a short turn. So writeCertificates sets all three:
//
//   - SSL_CERT_FILE names a file with all certificates. If this variable or CODEX_CA_CERTIFICATE is
//     set, Codex uses a faster library in place of OpenSSL.
//   - SSL_CERT_DIR names an empty directory. If it is set too, that library reads only
//     SSL_CERT_FILE.
//   - CODEX_CA_CERTIFICATE names a file with only one certificate. Codex itself parses this file,
//     slowly. Without the variable, it would parse the whole SSL_CERT_FILE in the same way.
const (
	certFileVariable = "SSL_CERT_FILE"
	certDirVariable  = "SSL_CERT_DIR"
	caVariable       = "CODEX_CA_CERTIFICATE" // Codex's own variable; for Codex, an empty value means not set
)

// maxCertificates bounds the total size of the files that are read in directories, in bytes.
const maxCertificates = 16 << 20

// trustStore is where a system keeps the certificates that programs trust.
type trustStore struct {
	files []string // each would have all certificates; the first file that can be read is used
	dirs  []string // directories that may have more certificates
	// unusualPaths are paths that usually do not exist. If one of them exists, it may have more
	// certificates that Codex trusts, or settings that name other servers. In that case,
	// writeCertificates returns nil, and Codex reads the certificates by itself, more slowly.
	unusualPaths []string
}

// systemTrust returns where the usual Linux distributions keep the certificates that they trust. On
// other systems Codex gets the certificates from the system by itself, so systemTrust returns nil.
func systemTrust() *trustStore {
	if runtime.GOOS != "linux" {
		return nil
	}
	return &trustStore{
		files: []string{
			"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
			"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL
			"/etc/ssl/ca-bundle.pem",                            // openSUSE
			"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // newer RHEL
		},
		dirs:         []string{"/etc/ssl/certs", "/etc/pki/tls/certs"},
		unusualPaths: []string{"/etc/codex", "/var/ssl", "/usr/share/ssl", "/usr/local/ssl", "/usr/local/openssl", "/usr/local/etc/openssl"},
	}
}

// writeCertificates writes one of the certificates to a file in dir. It returns environment variables that
// name this file and the file of all certificates. With the variables, Codex trusts the same certificates
// as without them, but reads them in less time. writeCertificates returns nil if that is not certain, if s
// is nil, if caVariable or certDirVariable is set (even if empty), or if it cannot write the files.
func (s *trustStore) writeCertificates(dir string, command, env []string, config *providerConfig) []string {
	file, hasFile := lastValue(env, certFileVariable)
	_, hasDir := lastValue(env, certDirVariable)
	_, hasCA := lastValue(env, caVariable)
	var content []byte
	var err error
	switch {
	case s == nil || hasCA || hasDir:
		return nil
	case hasFile: // the operator has chosen the certificates
		// Codex itself handles an unreadable file, a relative path, and a file with TRUSTED certificates,
		// which Codex would not read if caVariable was set.
		if content, err = readBounded(file, maxConfig); err != nil || !filepath.IsAbs(file) || bytes.Contains(content, []byte("TRUSTED CERTIFICATE")) {
			return nil
		}
	case slices.ContainsFunc(s.unusualPaths, exists) || usesOtherServers(command, env, config):
		return nil // with the variables, Codex might not trust the same certificates
	default:
		file, content = s.completeFile()
	}
	authority := firstAuthority(content)
	authorityPath, emptyDir := filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "certificates")
	if authority == nil || os.WriteFile(authorityPath, authority, 0o600) != nil || os.Mkdir(emptyDir, 0o700) != nil {
		return nil // Codex then reads the certificates by itself, more slowly
	}
	return []string{caVariable + "=" + authorityPath, certFileVariable + "=" + file, certDirVariable + "=" + emptyDir}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// completeFile returns the file with all authorities of the store, and its content. The content is nil if
// a directory has an authority that is not in the file, or more than maxCertificates to read. Debian's
// ssl-cert adds a certificate to the directory that is no authority: no server of OpenAI's has that one.
func (s *trustStore) completeFile() (file string, content []byte) {
	for _, file = range s.files {
		if read, err := readBounded(file, maxConfig); err == nil {
			content = read
			break
		}
	}
	known, bytesRead := make(map[string]bool), 0
	for block := range certificatesOf(content) {
		known[string(block.Bytes)] = true
	}
	for _, dir := range s.dirs {
		names, _ := os.ReadDir(dir)
		for _, name := range names {
			path := filepath.Join(dir, name.Name())
			if target, err := os.Readlink(path); err == nil && filepath.Base(target) == target {
				continue // another name of a file in the same directory
			}
			read, _ := readBounded(path, maxConfig)
			if bytesRead += len(read); bytesRead > maxCertificates {
				return "", nil
			}
			for block := range certificatesOf(read) {
				if !known[string(block.Bytes)] && mayIssue(block) {
					return "", nil
				}
			}
		}
	}
	return file, content
}

// mayIssue reports whether a certificate may be an authority's. Before version 3, none says so.
func mayIssue(block *pem.Block) bool {
	c, err := x509.ParseCertificate(block.Bytes)
	return err != nil || c.IsCA || c.Version < 3
}

// firstAuthority returns the first certificate that Codex surely accepts as an authority's, or nil.
func firstAuthority(content []byte) []byte {
	for block := range certificatesOf(content) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.IsCA && c.Version == 3 {
			return pem.EncodeToMemory(block)
		}
	}
	return nil
}

func certificatesOf(content []byte) iter.Seq[*pem.Block] {
	return func(yield func(*pem.Block) bool) {
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			block.Headers = nil
			if block.Type == "CERTIFICATE" && !yield(block) {
				return
			}
		}
	}
}

// usesOtherServers reports whether Codex may connect over TLS to servers other than OpenAI's,
// according to its command, environment and configuration. Such a server may have an unusual
// certificate, for example one that is its own authority. With caVariable set, Codex uses a library
// that refuses such a certificate. So caVariable must not be set for such a server.
func usesOtherServers(command, env []string, config *providerConfig) bool {
	texts := slices.Concat(command, env, []string{config.OpenAIBaseURL, config.ChatGPTBaseURL})
	for _, provider := range config.ModelProviders {
		address, _ := provider["base_url"].(string)
		texts = append(texts, address)
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		parts := strings.Split(strings.ToLower(text), "s://") // the end of https:// or wss://
		return slices.ContainsFunc(parts[1:], isOtherServer)  // each begins with the rest of a URL
	})
}

// isOtherServer reports whether a server is not OpenAI's, or not known. rest is its URL in lower case without
// its scheme, perhaps with text after it.
func isOtherServer(rest string) bool {
	address, err := url.Parse("https://" + rest)
	if err != nil {
		return true
	}
	host := "." + address.Hostname()
	return !strings.HasSuffix(host, ".openai.com") && !strings.HasSuffix(host, ".chatgpt.com")
}
