package e2e

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// transportVariable is the environment variable with the transport of all tests: http or websocket.
const transportVariable = "TRANSPORT"

// Transport is that of tests without OverBoth: WebSockets with a login, as for users, else HTTP.
var Transport scriptedmodel.Transport

// oneTransport reports whether the environment sets the transport.
var oneTransport bool

// chooseTransport sets the transport from the environment. It comes after chooseLogin.
func chooseTransport() error {
	chosen := scriptedmodel.Transport(os.Getenv(transportVariable))
	switch chosen {
	case "":
		Transport = usual(loggedIn)
		return nil
	case scriptedmodel.HTTP, scriptedmodel.WebSocket:
		Transport, oneTransport = chosen, true
		return nil
	}
	return fmt.Errorf("%s is %q; want http or websocket", transportVariable, chosen)
}

// usual returns the transport that Codex chooses by itself.
func usual(login bool) scriptedmodel.Transport {
	if login {
		return scriptedmodel.WebSocket
	}
	return scriptedmodel.HTTP
}

// OverBoth runs a test over each transport, or over the one of the environment. It is for what depends
// on the transport: the order and the ends of streams, errors, histories and tools. Over HTTP half of the
// tests have a login, and the others a provider without one; with TEST_CASES=all each has both.
func OverBoth(t *testing.T, test func(t *testing.T)) {
	OverBothSampled(t, func(t *testing.T, _ bool) { test(t) })
}

// OverBothSampled is [OverBoth] with all of a test over a drawn transport, a part over the others.
func OverBothSampled(t *testing.T, test func(t *testing.T, all bool)) {
	if oneTransport {
		test(t, true)
		return
	}
	type way struct {
		name  string
		over  scriptedmodel.Transport
		login bool
	}
	login := loggedIn
	ways := []way{{"websocket", scriptedmodel.WebSocket, login}, {"http", scriptedmodel.HTTP, login}}
	if login && !mustLogIn {
		ways = append(ways, way{"without a login", scriptedmodel.HTTP, false})
		if out := 1 + crc32.ChecksumIEEE([]byte(t.Name()))%2; draw.Cases(1, len(ways)) == 1 {
			ways = slices.Delete(ways, int(out), int(out)+1)
		}
	}
	drawn := rand.IntN(len(ways))
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			setLogin(t, w.login)
			OverOne(t, w.over)
			test(t, i == drawn || draw.Cases(1, len(ways)) > 1)
		})
	}
}

// OverOne sets the transport of the sites that a test starts.
func OverOne(t *testing.T, over scriptedmodel.Transport) {
	before := Transport
	Transport = over
	t.Cleanup(func() { Transport = before })
}

// WriteHome writes a CODEX_HOME for a model server over the transport of the test, without a login.
func WriteHome(t testing.TB, dir, baseURL string, opts codexhome.Options) {
	t.Helper()
	opts.WebSockets = Transport == scriptedmodel.WebSocket
	must.OK(t, codexhome.Write(dir, baseURL, opts))
}
