package storemodules

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// writeCertificate writes a certificate for 127.0.0.1, signed by itself, and its key.
func writeCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must.OK(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	must.OK(t, err)
	certificate, key = filepath.Join(t.TempDir(), "redis.crt"), filepath.Join(t.TempDir(), "redis.key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "EC PRIVATE KEY", Bytes: encoded}} {
		must.OK(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return certificate, key
}

// addressVariable gives a process of [TestRedisOverTLS] the address of Redis.
const addressVariable = "REDIS_TO_TEST"

// TestRedisOverTLS uses Redis with a password from a variable, over TLS: not with the authorities of
// the system, and in a process that trusts the server's authority.
func TestRedisOverTLS(t *testing.T) {
	if address := os.Getenv(addressVariable); address != "" {
		if err := putOverTLS(t, address); err != nil {
			t.Error(err)
		}
		return
	}
	certificate, key := writeCertificate(t)
	address, err := ports.Free()
	must.OK(t, err)
	_, port, _ := net.SplitHostPort(address)
	server := redisserver.Start(t, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no")
	server.Do("ACL SETUSER node on >secret ~* &* +@all")
	server.Do("ACL SETUSER default off")
	t.Setenv("STORE_PASSWORD", "secret")
	if err := putOverTLS(t, address); err == nil || !strings.Contains(err.Error(), "signed by unknown authority") {
		t.Error("an unknown authority:", err)
	}
	trusting := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRedisOverTLS$")
	trusting.Env = append(os.Environ(), addressVariable+"="+address, "SSL_CERT_FILE="+certificate)
	if output, err := trusting.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// putOverTLS stores a response in the Redis at an address.
func putOverTLS(t *testing.T, address string) error {
	return put(t, &Redis{URLs: []string{"rediss://node:{env.STORE_PASSWORD}@" + address + "/2"}})
}

// put stores a response with a module.
func put(t *testing.T, s *Redis) error {
	must.OK(t, s.Provision(caddy.Context{}))
	engine, _, release := Open(s, slog.New(slog.DiscardHandler))
	defer release()
	return engine.Store.Put(t.Context(), responseid.Prefix+responseid.NewSuffix(time.Now()), &objects.Entry{Response: []byte("{}")})
}

// TestMaster stores a response in the server that a sentinel knows by its name.
func TestMaster(t *testing.T) {
	sentinel := redisserver.Start(t).Sentinel(t, time.Minute)
	must.OK(t, put(t, &Redis{URLs: []string{sentinel.URL("")}, Master: "main"}))
}
