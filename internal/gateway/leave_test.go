package gateway

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// TestClientsLeave: clients that go at every moment, while their requests are
// read, wait, start and run, leave nothing behind: no slot, no place in the
// queue, no lease, no process held, no thread.
func TestClientsLeave(t *testing.T) {
	u := newFakeUpstream(t, fakecodex.Options{Default: "multibyte", Faults: fakecodex.Faults{Delay: time.Millisecond}})
	server := leaveAtRandom(t, u, http.StatusOK)
	// And all slots can be had.
	response, err := http.Post(server.URL, "application/json", strings.NewReader(fmt.Sprintf(`{"model":"m","n":%d,"messages":[{"role":"user","content":"x"}]}`, maxTestChoices)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || strings.Count(string(body), `"finish_reason":"stop"`) != maxTestChoices {
		t.Errorf("%v %s %s", err, response.Status, body)
	}
}

// TestClientsLeaveTheDying: the same with an app-server that dies again and
// again.
func TestClientsLeaveTheDying(t *testing.T) {
	u := newFakeUpstream(t, fakecodex.Options{Default: "multibyte", Faults: fakecodex.Faults{DieAfter: 500}})
	leaveAtRandom(t, u, http.StatusOK, http.StatusServiceUnavailable)
	if u.process.Status().Restarts == 0 {
		t.Error("the app-server has not died")
	}
}

// leaveAtRandom lets many clients ask and leave, and checks what they leave
// behind. Those that stay are to get one of the statuses.
func leaveAtRandom(t *testing.T, u *fakeUpstream, statuses ...int) *httptest.Server {
	t.Helper()
	const clients, requests, slots = 16, 12, 12
	observer := &records{}
	// The server hears a little later than the client that it has left.
	g := newGateway(u, Options{MaxConcurrent: slots, MaxQueue: clients * requests, QueueWait: patience, Keepalive: 5 * time.Millisecond, Observer: observer})
	server := httptest.NewServer(http.HandlerFunc(g.Chat))
	t.Cleanup(server.Close)
	var all sync.WaitGroup
	for i := range clients {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range requests {
				askAndLeave(t, client, server.URL, r, statuses)
			}
		})
	}
	all.Wait()
	left := func() string {
		conn, err := u.process.Conn(t.Context())
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d slots, %d in the queue, %d leases, %d turns, %d threads, %d answers",
			g.queue.Running(), g.queue.Len(), u.leases.Load(), u.turns.Load(), conn.Threads(), observer.answers.Load())
	}
	const nothing = "0 slots, 0 in the queue, 0 leases, 0 turns, 0 threads, 0 answers"
	for end := time.Now().Add(patience); left() != nothing && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := left(); got != nothing {
		t.Error("left behind:", got)
	}
	if observer.turns.Load() == 0 {
		t.Error("no turn was run")
	}
	return server
}

// maxTestChoices is the most choices of a request.
const maxTestChoices = 8

// askAndLeave sends a request and leaves at a random moment, or not at all.
func askAndLeave(t *testing.T, client *http.Client, url string, r *rand.Rand, statuses []int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	choices, stays := 1+r.IntN(maxTestChoices), r.IntN(6) == 0
	body := fmt.Sprintf(`{"model":"m","n":%d,"stream":%t,"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"x"}]}`, choices, r.IntN(2) == 0)
	var reader io.Reader = strings.NewReader(body)
	if !stays {
		time.AfterFunc(time.Duration(r.ExpFloat64()*float64(20*time.Millisecond)), cancel)
		if r.IntN(5) == 0 { // a body without its end
			reader = io.MultiReader(strings.NewReader(body[:len(body)/2]), silence{ctx})
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, reader)
	if err != nil {
		t.Error(err)
		return
	}
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		var answer []byte
		if answer, err = io.ReadAll(response.Body); stays && !slices.Contains(statuses, response.StatusCode) {
			t.Errorf("%s %s", response.Status, answer)
		}
	}
	if stays && err != nil {
		t.Error(err)
	}
}

// silence is a body that does not go on.
type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}
