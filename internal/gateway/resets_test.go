package gateway

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// TestResets: streams of HTTP/2 that are reset at every moment, most of them
// while their bodies are read, end nothing but themselves. `go test -run
// TestResets -count 10` resets 10,000.
func TestResets(t *testing.T) {
	const connections, resets = 8, 125
	g := newGateway(newFakeUpstream(t, fakecodex.Options{Default: "text"}), Options{MaxConcurrent: 4, MaxQueue: 4, QueueWait: time.Millisecond})
	server := newServerH2C(t, http.HandlerFunc(g.Chat))
	var all sync.WaitGroup
	var reset atomic.Int64
	for i := range connections {
		random := rand.New(rand.NewPCG(uint64(i), 3))
		all.Go(func() {
			client := newClientH2C()
			defer client.CloseIdleConnections()
			for range resets {
				if !answeredH2C(t, client, server.URL, random) {
					reset.Add(1)
				}
			}
		})
	}
	all.Wait()
	if reset.Load() < connections*resets/2 {
		t.Errorf("only %d streams were reset", reset.Load())
	}
}

// newServerH2C is a server that takes HTTP/2 without TLS.
func newServerH2C(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// newClientH2C is a client with a connection of its own.
func newClientH2C() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

// answeredH2C sends a request, of which the half has no end of its body, and
// resets the stream at a random moment. It reports whether the answer was
// faster.
func answeredH2C(t *testing.T, client *http.Client, url string, random *rand.Rand) bool {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"x"}]}`, random.IntN(2) == 0)
	var body io.Reader = strings.NewReader(text)
	if random.IntN(2) == 0 {
		body = io.MultiReader(strings.NewReader(text[:random.IntN(len(text))]), silence{ctx})
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Error(err)
		return false
	}
	time.AfterFunc(time.Duration(random.ExpFloat64()*float64(2*time.Millisecond)), cancel)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil
}
