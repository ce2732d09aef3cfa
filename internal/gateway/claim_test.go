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

	"github.com/caddyserver/certmagic"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// newNodes returns two servers that share a storage, each with a store of its own.
func newNodes(t *testing.T, faults fakecodex.Faults) (urls [2]string, stores [2]*responsestore.Shared, gateways [2]*Gateway) {
	dir := t.TempDir()
	for i := range urls {
		stores[i] = responsestore.NewShared(&certmagic.FileStorage{Path: dir}, responsestore.Limits{MaxAge: time.Hour, MaxCount: 100}, slog.New(slog.DiscardHandler))
		t.Cleanup(stores[i].Close)
		urls[i], gateways[i] = backgroundServer(t, Options{Responses: stores[i]}, faults)
	}
	return urls, stores, gateways
}

// TestCancelElsewhere: a node reads, cancels and deletes what another one makes.
func TestCancelElsewhere(t *testing.T) {
	urls, stores, gateways := newNodes(t, fakecodex.Faults{Delay: time.Minute})
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
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		cancelled, err := stores[1].Cancelled(t.Context(), id)
		claimed, claimErr := stores[1].Claimed(t.Context(), id)
		if !cancelled && !claimed && err == nil && claimErr == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the claim is left:", cancelled, claimed, err, claimErr)
		}
	}
	for _, g := range gateways {
		waitForAll(t, g)
	}
	for _, url := range urls {
		if status, read := call(t, http.MethodGet, url+"/"+id, "", -1); status != http.StatusNotFound {
			t.Errorf("read %d %s", status, read)
		}
	}
	if _, _, err := stores[1].GetEvents(t.Context(), id, 0); !errors.Is(err, responsestore.ErrNotFound) {
		t.Errorf("events are left of a deleted response: %v", err)
	}
}

// newLost stores a response that goes on, for which no node has a claim, and returns its id.
func newLost(t *testing.T, url string, store *responsestore.Shared) (id string) {
	t.Helper()
	_, ordinary := call(t, http.MethodPost, url, `{"model":"m","input":"x","background":true}`, -1)
	ended(t, url+"/"+idIn(t, ordinary))
	id = responseid.Prefix + responseid.NewSuffix(time.Now())
	entry := &responsestore.Entry{Running: true, Response: []byte(strings.ReplaceAll(ordinary, idIn(t, ordinary), id))}
	if err := store.Put(t.Context(), id, entry); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestLostResponse: a response whose process has ended has failed, and says so.
func TestLostResponse(t *testing.T) {
	urls, stores, _ := newNodes(t, fakecodex.Faults{})
	id := newLost(t, urls[0], stores[0])
	if err := stores[0].Claim(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if status, answer := call(t, http.MethodGet, urls[1]+"/"+id, "", -1); status != http.StatusOK || !strings.Contains(answer, `"status":"in_progress"`) {
		t.Errorf("with a claim: %d %s", status, answer)
	}
	if err := stores[0].Unclaim(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, url := range urls {
		if how, answer := ended(t, url+"/"+id); how != "failed" || !strings.Contains(answer, "has ended before the response did") {
			t.Errorf("without a claim: %s", answer)
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
	dir := t.TempDir()
	newStore := func() *responsestore.Shared {
		store := responsestore.NewShared(&certmagic.FileStorage{Path: dir}, responsestore.Limits{MaxAge: time.Hour, MaxCount: 100}, slog.New(slog.DiscardHandler))
		t.Cleanup(store.Close)
		return store
	}
	maker, _ := backgroundServer(t, Options{Responses: newStore()}, fakecodex.Faults{Delay: time.Minute})
	ctx, exit := context.WithCancel(t.Context())
	defer exit()
	other, _ := backgroundServer(t, Options{Responses: newStore(), Exit: ctx, DrainTimeout: 10 * time.Millisecond}, fakecodex.Faults{})
	_, begun := call(t, http.MethodPost, maker, fmt.Sprintf(inBackground, false), -1)
	id := idIn(t, begun)
	limited, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, other+"/"+id+"?stream=true", nil)
	if err != nil {
		t.Fatal(err)
	}
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
	urls, _, _ := newNodes(t, fakecodex.Faults{Delay: 200 * time.Millisecond})
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
	urls, stores, _ := newNodes(t, fakecodex.Faults{})
	id := newLost(t, urls[0], stores[0])
	stream := urls[1] + "/" + id + "?stream=true"
	failed := func(after string, number int, before string) {
		t.Helper()
		status, answer := call(t, http.MethodGet, stream+after, "", -1)
		rest, found := strings.CutPrefix(answer, before)
		want := fmt.Sprintf("event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":%d,", number)
		if status != http.StatusOK || !found || !strings.HasPrefix(rest, want) || strings.Count(rest, "\n\n") != 1 {
			t.Errorf("after %q: %d %s", after, status, answer)
		}
	}
	failed("", 0, "")
	failed("&starting_after=6", 7, "")
	if err := stores[0].PutEvents(t.Context(), id, 0, []byte("a {\"n\":0}\nb {\"n\":1}\n")); err != nil {
		t.Fatal(err)
	}
	failed("", 2, "event: a\ndata: {\"n\":0}\n\nevent: b\ndata: {\"n\":1}\n\n")
	failed("&starting_after=0", 2, "event: b\ndata: {\"n\":1}\n\n")
	failed("&starting_after=6", 7, "")
}
