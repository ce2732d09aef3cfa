package appserver

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The variables that choose the certificates which Codex trusts. Without them it reads
// those of the system for each new thread and, over HTTP, for each request, and parses
// them with OpenSSL, which takes a third of the CPU time of a short turn. If the first or
// the last one is set, it uses another library over HTTP as well, which it always uses
// for WebSockets. With the first two that reads a single file. To its certificates it
// adds those of the last one or, if that is not set, of the first one, in a slow way:
// hence a last one with one certificate.
const (
	certFileVariable = "SSL_CERT_FILE"
	certDirVariable  = "SSL_CERT_DIR"
	caVariable       = "CODEX_CA_CERTIFICATE" // of Codex's own; empty: not set
)

// maxCertificates bounds the files with certificates that are read, together, in bytes,
// and maxCertificateFiles those of a directory.
const (
	maxCertificates     = 16 << 20
	maxCertificateFiles = 4096
)

// trustStore is where a system keeps the certificates that programs trust.
type trustStore struct {
	files []string // the first that exists has them all, or all but those in dirs
	dirs  []string // each file in them has certificates
	// others are paths of which none exists usually. They may have other certificates
	// that Codex would trust, or name a server to which it connects.
	others []string
}

// systemTrust returns the places of the usual Linux distributions, or nil on another
// system, where Codex asks the system.
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
			"/etc/ssl/cert.pem",
		},
		dirs:   []string{"/etc/ssl/certs", "/etc/pki/tls/certs"},
		others: []string{"/etc/codex", "/var/ssl", "/usr/share/ssl", "/usr/local/ssl", "/usr/local/openssl", "/usr/local/etc/openssl"},
	}
}

// certificates returns variables for the environment of Codex with which it trusts the
// same certificates as without them, and takes less time to read them. It writes files
// to dir. If caVariable is set, also if it is empty, everything stays as it is.
func (s *trustStore) certificates(dir string, command, env []string, config *providerConfig) []string {
	file, hasFile := variable(env, certFileVariable)
	dirs, hasDir := variable(env, certDirVariable)
	_, hasCA := variable(env, caVariable)
	switch {
	case s == nil || hasCA:
		return nil
	case hasFile:
		return ofOperator(file, filepath.SplitList(dirs)).variables(dir)
	case hasDir || slices.ContainsFunc(s.others, exists) || reachesOthers(command, env, config):
		return nil // with the other library, something could fail
	}
	return s.variables(dir)
}

// ofOperator returns the certificates that the operator's variables name, or nil if
// there is anything unusual about them.
func ofOperator(file string, dirs []string) *trustStore {
	for _, path := range append(dirs, file) {
		if !filepath.IsAbs(path) {
			return nil
		}
	}
	content, err := readBounded(file)
	if err != nil || bytes.Contains(content, []byte("TRUSTED CERTIFICATE")) {
		return nil // Codex only reads such certificates where caVariable is not set
	}
	return &trustStore{files: []string{file}, dirs: dirs}
}

// variables returns all three variables for the certificates of a store, or nothing.
func (s *trustStore) variables(dir string) []string {
	if s == nil {
		return nil
	}
	file, content := s.read()
	set := authorityIn(dir, content)
	empty := filepath.Join(dir, "certificates")
	if set == nil || os.Mkdir(empty, 0o700) != nil {
		return nil
	}
	if file == "" {
		file = filepath.Join(dir, "certificates.pem")
		if os.WriteFile(file, content, 0o600) != nil {
			return nil
		}
	}
	return append(set, certFileVariable+"="+file, certDirVariable+"="+empty)
}

// authorityIn writes the first certificate that is sure to be accepted as that of an
// authority to dir, and returns the variable that names it, or nothing.
func authorityIn(dir string, content []byte) []string {
	var found []byte
	eachCertificate(content, func(block *pem.Block) {
		if found != nil {
			return
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.IsCA && c.Version == 3 {
			found = pem.EncodeToMemory(block)
		}
	})
	path := filepath.Join(dir, "certificate.pem")
	if found == nil || os.WriteFile(path, found, 0o600) != nil {
		return nil // reading the certificates takes longer
	}
	return []string{caVariable + "=" + path}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// read returns the certificates of the store, and the path of the file that has them
// all, or "" if the directories have more. It returns nothing if there is too much.
func (s *trustStore) read() (whole string, content []byte) {
	known, left := make(map[string]bool), maxCertificates
	take := func(file string) (read []byte, ok bool) {
		read, err := readBounded(file)
		left -= len(read)
		return read, err == nil && left >= 0
	}
	for _, file := range s.files {
		if read, ok := take(file); ok {
			eachCertificate(read, func(block *pem.Block) { known[string(block.Bytes)] = true })
			whole, content = file, read
			break
		}
	}
	for _, dir := range s.dirs {
		names, _ := os.ReadDir(dir)
		if len(names) > maxCertificateFiles {
			return "", nil
		}
		for _, name := range names {
			path := filepath.Join(dir, name.Name())
			if target, err := os.Readlink(path); err == nil && filepath.Base(target) == target {
				continue // another name of a file in the same directory
			}
			read, _ := take(path)
			if left < 0 {
				return "", nil
			}
			eachCertificate(read, func(block *pem.Block) {
				if !known[string(block.Bytes)] {
					known[string(block.Bytes)] = true
					whole, content = "", append(append(content, '\n'), pem.EncodeToMemory(block)...)
				}
			})
		}
	}
	return whole, content
}

// eachCertificate calls visit for the certificates in a file in the format PEM.
func eachCertificate(content []byte, visit func(*pem.Block)) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return
		}
		if block.Type == "CERTIFICATE" {
			block.Headers = nil
			visit(block)
		}
	}
}

// variable returns the value of a variable in an environment.
func variable(env []string, name string) (value string, set bool) {
	for _, entry := range env {
		if v, found := strings.CutPrefix(entry, name+"="); found {
			value, set = v, true
		}
	}
	return value, set
}

// reachesOthers reports whether Codex may connect over TLS to others than OpenAI,
// according to its command, environment and configuration. Their certificates may be
// unusual: the library that Codex uses if caVariable is set refuses, for example, a
// certificate that is its own authority.
func reachesOthers(command, env []string, config *providerConfig) bool {
	addresses := slices.Concat(command, env, []string{config.OpenAIBaseURL, config.ChatGPTBaseURL})
	for _, provider := range config.ModelProviders {
		address, _ := provider["base_url"].(string)
		addresses = append(addresses, address)
	}
	return slices.ContainsFunc(addresses, ofOthers)
}

// ofOthers reports whether a text may have an address with TLS that is not of OpenAI.
func ofOthers(text string) bool {
	_, after, found := strings.Cut(strings.ToLower(text), "s://") // https, wss
	if !found {
		return false
	}
	address, err := url.Parse("https://" + after)
	return err != nil || !slices.ContainsFunc([]string{"openai.com", "chatgpt.com"}, func(domain string) bool {
		return address.Hostname() == domain || strings.HasSuffix(address.Hostname(), "."+domain)
	})
}
