package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// nodes are two servers that share a Redis, each with a store of its own.
type nodes struct {
	urls     [2]string
	stores   [2]*objects.Store
	gateways [2]*Gateway
	server   *redisserver.Server
}

func newNodes(t *testing.T, faults fakecodex.Faults) *nodes {
	n := &nodes{server: redisserver.Start(t)}
	for i := range n.urls {
		n.stores[i] = sharedStore(t, n.server)
		n.urls[i], n.gateways[i] = backgroundServer(t, Options{Responses: n.stores[i]}, faults)
	}
	return n
}

func sharedStore(t *testing.T, server *redisserver.Server) *objects.Store {
	t.Helper()
	engine := store.NewRedis(store.RedisOptions{
		UniversalOptions: redis.UniversalOptions{Addrs: []string{server.Addr}}, Prefix: "codex", MaxAge: time.Hour,
	}, slog.New(slog.DiscardHandler))
	must.OK(t, engine.Start())
	t.Cleanup(func() { _ = engine.Close() })
	return objects.NewStore(engine, discard())
}

// lose ends the leases of all responses, as if their nodes had been killed.
func (n *nodes) lose(t *testing.T) {
	t.Helper()
	if answer := n.server.Do(`EVAL "for _, k in ipairs(redis.call('KEYS', '*l:*')) do redis.call('DEL', k) end return 1" 0`); !strings.HasPrefix(answer, ":1") {
		t.Fatal(answer)
	}
}

// TestCancelElsewhere: a node reads, cancels and deletes what another one makes.
func TestCancelElsewhere(t *testing.T) {
	n := newNodes(t, fakecodex.Faults{Delay: time.Minute})
	urls, gateways := n.urls, n.gateways
	_, begun := call(t, http.MethodPost, urls[0], fmt.Sprintf(inBackground, false), -1)
	id := idIn(t, begun)
	if status, answer := call(t, http.MethodGet, urls[1]+"/"+id, "", -1); status != http.StatusOK || answer != begun {
		t.Errorf("read %d %s, begun %s", status, answer, begun)
	}
	if status, answer := call(t, http.MethodPost, urls[1], `{"model":"m","input":"x","previous_response_id":"`+id+`"}`, -1); status != http.StatusBadRequest {
		t.Errorf("followed %d %s", status, answer)
	}
	status, answer := call(t, http.MethodPost, urls[1]+"/"+id+"/cancel", "", -1)
	if status != http.StatusOK || !strings.Contains(answer, `"status":"cancelled"`) {
		t.Fatalf("cancelled %d %s", status, answer)
	}
	for _, url := range urls {
		if status, read := call(t, http.MethodGet, url+"/"+id, "", -1); status != http.StatusOK || read != answer {
			t.Errorf("read %d %s", status, read)
		}
		if status, again := call(t, http.MethodPost, url+"/"+id+"/cancel", "", -1); status != http.StatusBadRequest {
			t.Errorf("cancelled again %d %s", status, again)
		}
	}

	_, begun = call(t, http.MethodPost, urls[0], fmt.Sprintf(inBackground, false), -1)
	id = idIn(t, begun)
	if status, answer := call(t, http.MethodDelete, urls[1]+"/"+id, "", -1); status != http.StatusOK {
		t.Errorf("deleted %d %s", status, answer)
	}
	for _, g := range gateways {
		waitForAll(t, g)
	}
	for _, url := range urls {
		if status, read := call(t, http.MethodGet, url+"/"+id, "", -1); status != http.StatusNotFound {
			t.Errorf("read %d %s", status, read)
		}
	}
	if left := n.server.Do("KEYS *" + id); left != "*0\r\n" {
		t.Errorf("a deleted response has left %q", left)
	}
}

// newLost stores a response that goes on, which no gateway makes, and returns its id.
func (n *nodes) newLost(t *testing.T) (id string) {
	t.Helper()
	_, ordinary := call(t, http.MethodPost, n.urls[0], `{"model":"m","input":"x","background":true}`, -1)
	ended(t, n.urls[0]+"/"+idIn(t, ordinary))
	id = responseid.Prefix + responseid.NewSuffix(time.Now())
	entry := &objects.Entry{Running: true, Response: []byte(strings.ReplaceAll(ordinary, idIn(t, ordinary), id))}
	must.OK(t, n.stores[0].Put(t.Context(), id, entry))
	return id
}

// TestLostResponse: a response whose process has ended has failed, and says so.
func TestLostResponse(t *testing.T) {
	n := newNodes(t, fakecodex.Faults{})
	urls, id := n.urls, n.newLost(t)
	if status, answer := call(t, http.MethodGet, urls[1]+"/"+id, "", -1); status != http.StatusOK || !strings.Contains(answer, `"status":"in_progress"`) {
		t.Errorf("with an owner: %d %s", status, answer)
	}
	n.lose(t)
	for _, url := range urls {
		if how, answer := ended(t, url+"/"+id); how != "failed" || !strings.Contains(answer, "has ended before the response did") {
			t.Errorf("without an owner: %s", answer)
		}
		if status, answer := call(t, http.MethodPost, url+"/"+id+"/cancel", "", -1); status != http.StatusBadRequest {
			t.Errorf("cancelled: %d %s", status, answer)
		}
	}
	if status, answer := call(t, http.MethodDelete, urls[1]+"/"+id, "", -1); status != http.StatusOK {
		t.Errorf("deleted: %d %s", status, answer)
	}
}

// TestFollowAtExit: a node that exits cuts the stream of a response that another one makes, after
// the drain timeout. Its client can go on elsewhere.
func TestFollowAtExit(t *testing.T) {
	server := redisserver.Start(t)
	maker, _ := backgroundServer(t, Options{Responses: sharedStore(t, server)}, fakecodex.Faults{Delay: time.Minute})
	ctx, exit := context.WithCancel(t.Context())
	defer exit()
	other, _ := backgroundServer(t, Options{Responses: sharedStore(t, server), Exit: ctx, DrainTimeout: 10 * time.Millisecond}, fakecodex.Faults{})
	_, begun := call(t, http.MethodPost, maker, fmt.Sprintf(inBackground, false), -1)
	id := idIn(t, begun)
	limited, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, other+"/"+id+"?stream=true", nil)
	must.OK(t, err)
	var response *http.Response
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // until the first events are stored
		if response, err = http.DefaultClient.Do(request); err != nil || time.Now().After(end) {
			t.Fatal("no events:", err)
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			break
		}
	}
	exit()
	if body, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%s, %v", body, err)
	}
	if status, answer := call(t, http.MethodPost, maker+"/"+id+"/cancel", "", -1); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
}

// TestEventsElsewhere: another node streams the same events, byte by byte, while they come
// and when the process that made them has forgotten them.
func TestEventsElsewhere(t *testing.T) {
	urls := newNodes(t, fakecodex.Faults{Delay: 200 * time.Millisecond}).urls
	_, begun := call(t, http.MethodPost, urls[0], fmt.Sprintf(inBackground, true), 2)
	one := "/" + idIn(t, begun)
	_, elsewhere := call(t, http.MethodGet, urls[1]+one+"?stream=true", "", -1)
	_, here := call(t, http.MethodGet, urls[0]+one+"?stream=true", "", -1)
	if elsewhere != here || !strings.HasPrefix(here, begun) || !strings.Contains(here, "event: response.completed\n") {
		t.Errorf("elsewhere %s\nhere %s", elsewhere, here)
	}
	frames := strings.SplitAfter(here, "\n\n")
	for n := range frames {
		want := strings.Join(frames[min(n+1, len(frames)):], "")
		if status, got := call(t, http.MethodGet, fmt.Sprintf("%s%s?stream=true&starting_after=%d", urls[1], one, n), "", -1); status != http.StatusOK || got != want {
			t.Errorf("after %d: %d %q\nwant %q", n, status, got, want)
		}
	}
	if status, answer := call(t, http.MethodDelete, urls[1]+one, "", -1); status != http.StatusOK {
		t.Error(status, answer)
	}
	if status, answer := call(t, http.MethodGet, urls[1]+one+"?stream=true", "", -1); status != http.StatusNotFound {
		t.Error("deleted, but", status, answer)
	}
}

// TestLostEvents: the events of a response whose process was killed end with its failure,
// also for a client that had read more than was stored.
func TestLostEvents(t *testing.T) {
	n := newNodes(t, fakecodex.Faults{})
	failed := func(id, after string, number int, before string) {
		t.Helper()
		status, answer := call(t, http.MethodGet, n.urls[1]+"/"+id+"?stream=true"+after, "", -1)
		rest, found := strings.CutPrefix(answer, before)
		want := fmt.Sprintf("event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":%d,", number)
		if status != http.StatusOK || !found || !strings.HasPrefix(rest, want) || strings.Count(rest, "\n\n") != 1 {
			t.Errorf("after %q: %d %s", after, status, answer)
		}
	}
	none := n.newLost(t)
	n.lose(t)
	failed(none, "", 0, "")
	failed(none, "&starting_after=6", 7, "")
	some := n.newLost(t)
	if _, err := n.stores[0].Continue(t.Context(), "", some, objects.EventPage{Events: []objects.Event{
		{Name: "a", Data: []byte(`{"n":0}`)}, {Name: "b", Data: []byte(`{"n":1}`)},
	}}); err != nil {
		t.Fatal(err)
	}
	n.lose(t)
	failed(some, "&starting_after=0", 2, "event: b\ndata: {\"n\":1}\n\n")
	failed(some, "", 2, "event: a\ndata: {\"n\":0}\n\nevent: b\ndata: {\"n\":1}\n\n")
	failed(some, "&starting_after=6", 7, "")
	failed(some, "&starting_after=2", 3, "") // its client has read one event more than was stored
}

// TestKeepaliveElsewhere: a client that reads the events of a response at another node gets
// keepalives, although the node looks for events more often.
func TestKeepaliveElsewhere(t *testing.T) {
	server := redisserver.Start(t)
	maker, _ := backgroundServer(t, Options{Responses: sharedStore(t, server)}, fakecodex.Faults{Delay: time.Minute})
	other, _ := backgroundServer(t, Options{Responses: sharedStore(t, server), Keepalive: store.WatchTime * 5 / 4}, fakecodex.Faults{})
	_, begun := call(t, http.MethodPost, maker, fmt.Sprintf(inBackground, false), -1)
	id := idIn(t, begun)
	_, answer := call(t, http.MethodGet, other+"/"+id+"?stream=true", "", 2)
	if answer != strings.Repeat(": keepalive\n\n", 2) {
		t.Error(answer)
	}
	if status, answer := call(t, http.MethodPost, maker+"/"+id+"/cancel", "", -1); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
}
