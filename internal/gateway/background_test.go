package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func backgroundServer(t *testing.T, opts Options, faults fakecodex.Faults) (url string, g *Gateway) {
	t.Helper()
	return responsesServer(t, newFakeUpstream(t, fakecodex.Options{Default: "multibyte", Faults: faults}), opts)
}

func responsesServer(t *testing.T, u *fakeUpstream, opts Options) (url string, g *Gateway) {
	t.Helper()
	if opts.Responses == nil {
		opts.Responses = memoryStore(1<<24, time.Hour)
	}
	opts.MaxConcurrent = 8
	g = newGateway(u, opts)
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		waitForAll(t, g)
	})
	return server.URL + responsesPath, g
}

func waitForAll(t *testing.T, g *Gateway) {
	ctx, end := context.WithTimeout(context.Background(), patience)
	defer end()
	if g.objects.Running.Wait(ctx); ctx.Err() != nil {
		t.Error("a response goes on")
	}
}

// call makes a request and reads so many events of the answer, if it has as many; negative:
// all of it.
func call(t *testing.T, method, url, body string, events int) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	must.OK(t, err)
	response, err := http.DefaultClient.Do(r)
	must.OK(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	if events < 0 {
		all, err := io.ReadAll(response.Body)
		must.OK(t, err)
		return response.StatusCode, string(all)
	}
	for lines := bufio.NewReader(response.Body); events > 0; {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}
		if err != nil {
			t.Fatal(err, answer)
		}
		if answer += line; line == "\n" {
			events--
		}
	}
	return response.StatusCode, answer
}

func idIn(t *testing.T, answer string) string {
	t.Helper()
	_, rest, _ := strings.Cut(answer, `"id":"`)
	id, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("no id in %s", answer)
	}
	return id
}

func ended(t *testing.T, url string) (status, body string) {
	t.Helper()
	must.Happen(t, "the response ends", func() bool {
		code, answer := call(t, http.MethodGet, url, "", -1)
		if status, body = gjson.Get(answer, "status").String(), answer; status == "" || code != http.StatusOK {
			t.Fatal(code, answer)
		}
		return status != "in_progress"
	})
	return status, body
}

const inBackground = `{"model":"m","input":"x","background":true,"stream":%t}`

// TestBackgroundStreams cuts streams after every number of events and goes on after each:
// the whole is what was streamed without a cut, byte by byte.
func TestBackgroundStreams(t *testing.T) {
	url, _ := backgroundServer(t, Options{}, fakecodex.Faults{Delay: 200 * time.Microsecond})
	_, whole := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, true), -1)
	count := strings.Count(whole, "\n\n")
	if count < 10 || !strings.Contains(whole, "event: response.completed") || !strings.Contains(whole, `"background":true`) {
		t.Fatalf("%d events: %s", count, whole)
	}
	frames := strings.SplitAfter(whole, "\n\n")[:count]
	replay := url + "/" + idIn(t, whole) + "?stream=true"
	for n := range count + 2 {
		want := strings.Join(frames[min(n+1, count):], "")
		if status, got := call(t, http.MethodGet, fmt.Sprintf("%s&starting_after=%d", replay, n), "", -1); status != http.StatusOK || got != want {
			t.Errorf("after %d: %d %q\nwant %q", n, status, got, want)
		}
	}
	if _, got := call(t, http.MethodGet, replay, "", -1); got != whole {
		t.Errorf("from the begin: %q", got)
	}
	for cut := range count {
		_, begun := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, true), cut+1)
		one := url + "/" + idIn(t, begun)
		_, rest := call(t, http.MethodGet, fmt.Sprintf("%s?stream=true&starting_after=%d", one, cut), "", -1)
		_, again := call(t, http.MethodGet, one+"?stream=true", "", -1)
		if begun+rest != again {
			t.Errorf("cut at %d:\n%s\n%s\nwhole %s", cut, begun, rest, again)
		}
		if how, stored := ended(t, one); how != "completed" || !strings.Contains(again, stored) {
			t.Errorf("stored is %s", stored)
		}
	}
}

// TestBackground: the answer comes before the turn has ended, which goes on alone.
func TestBackground(t *testing.T) {
	url, g := backgroundServer(t, Options{}, fakecodex.Faults{Delay: time.Millisecond})
	status, begun := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, false), -1)
	if status != http.StatusOK || !strings.Contains(begun, `"status":"in_progress"`) {
		t.Fatal(status, begun)
	}
	one := url + "/" + idIn(t, begun)
	if how, stored := ended(t, one); how != "completed" {
		t.Error(stored)
	}
	checkNothingHeld(t, g)
	if status, answer := call(t, http.MethodDelete, one, "", -1); status != http.StatusOK {
		t.Error(status, answer)
	}
	if status, answer := call(t, http.MethodGet, one+"?stream=true", "", -1); status != http.StatusNotFound {
		t.Error("deleted, but", status, answer)
	}
	for query, param := range map[string]string{"stream=maybe": "stream", "stream=true&starting_after=-1": "starting_after", "stream=true&starting_after=x": "starting_after"} {
		if status, answer := call(t, http.MethodGet, one+"?"+query, "", -1); status != http.StatusBadRequest || !strings.Contains(answer, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
	_, plain := call(t, http.MethodPost, url, `{"model":"m","input":"x"}`, -1)
	if status, answer := call(t, http.MethodGet, url+"/"+idIn(t, plain)+"?stream=true", "", -1); status != http.StatusBadRequest || !strings.Contains(answer, "for a while") {
		t.Errorf("without background: %d %s", status, answer)
	}
	if status, answer := call(t, http.MethodPost, url, `{"model":"m","input":"x","background":true,"store":false}`, -1); status != http.StatusBadRequest || !strings.Contains(answer, `"param":"background"`) {
		t.Errorf("not to be stored: %d %s", status, answer)
	}
}

// slowEngine is an engine whose writes wait for a value from goOn each.
type slowEngine struct {
	store.Engine
	begun chan writing
	goOn  chan struct{}
}

type writing struct {
	name string
	ends time.Time // its deadline
}

// wait waits until the test lets a write go on, or the write takes too long.
func (s *slowEngine) wait(ctx context.Context, name string) {
	ends, _ := ctx.Deadline()
	s.begun <- writing{name, ends}
	select {
	case <-s.goOn:
	case <-ctx.Done():
	}
}

func (s *slowEngine) Put(ctx context.Context, user, id string, p *store.Put) error {
	s.wait(ctx, "put")
	return s.Engine.Put(ctx, user, id, p)
}

func (s *slowEngine) Append(ctx context.Context, user, id string, a *store.Append) (bool, error) {
	s.wait(ctx, "append")
	return s.Engine.Append(ctx, user, id, a)
}

// TestBackgroundInConversation checks that a response is not read as completed before it and its
// items are in its conversation, is not cancelled once it is, and that both have a time of
// their own to be stored.
func TestBackgroundInConversation(t *testing.T) {
	memory := store.NewMemory(1<<24, time.Hour)
	conversation := responseid.ConversationPrefix + responseid.NewSuffix(time.Now())
	must.OK(t, objects.NewStore(memory, discard()).Put(t.Context(), conversation, &objects.Entry{Response: json.RawMessage(`{}`)}))
	engine := &slowEngine{memory, make(chan writing, 1), make(chan struct{})}
	url, _ := backgroundServer(t, Options{Responses: objects.NewStore(engine, discard())}, fakecodex.Faults{})
	_, begun := call(t, http.MethodPost, url, `{"model":"m","input":"x","background":true,"conversation":"`+conversation+`"}`, -1)
	one := url + "/" + idIn(t, begun)
	var ends time.Time
	for _, want := range []struct{ writing, status string }{{"append", "in_progress"}, {"put", "in_progress"}} {
		select {
		case got := <-engine.begun:
			if got.name != want.writing || !got.ends.After(ends) {
				t.Fatalf("%v comes before %s, after %s", got, want.writing, ends)
			}
			ends = got.ends
		case <-time.After(patience):
			t.Fatal("no", want.writing)
		}
		if _, body := call(t, http.MethodGet, one, "", -1); !strings.Contains(body, `"status":"`+want.status+`"`) {
			t.Errorf("during the %s: %s", want.writing, body)
		}
		if want.writing == "put" {
			if status, answer := call(t, http.MethodPost, one+"/cancel", "", -1); status != http.StatusBadRequest || !strings.Contains(answer, "has ended") {
				t.Errorf("cancelled after its end: %d %s", status, answer)
			}
		}
		select {
		case engine.goOn <- struct{}{}:
		case <-time.After(patience):
			t.Fatal("the store has not waited for the test")
		}
	}
	if how, stored := ended(t, one); how != "completed" {
		t.Error(stored)
	}
}

// downEngine is an engine that fails some times before it works.
type downEngine struct {
	store.Engine
	fails atomic.Int32
}

func (s *downEngine) Put(ctx context.Context, user, id string, p *store.Put) error {
	if s.fails.Add(-1) >= 0 {
		return fmt.Errorf("%w: for a moment", store.ErrUnavailable)
	}
	return s.Engine.Put(ctx, user, id, p)
}

// TestBackgroundStoreDown checks that a store which fails for a moment loses no response.
func TestBackgroundStoreDown(t *testing.T) {
	engine := &downEngine{Engine: store.NewMemory(1<<24, time.Hour)}
	engine.fails.Store(2)
	url, g := backgroundServer(t, Options{Responses: objects.NewStore(engine, discard())}, fakecodex.Faults{})
	_, begun := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, false), -1)
	waitForAll(t, g)
	if how, stored := ended(t, url+"/"+idIn(t, begun)); how != "completed" {
		t.Error(stored)
	}
}

// TestBackgroundCancel ends responses at various moments: their streams end, and they are
// stored as cancelled.
func TestBackgroundCancel(t *testing.T) {
	url, _ := backgroundServer(t, Options{}, fakecodex.Faults{Delay: 5 * time.Millisecond})
	for i := range 12 {
		_, begun := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, false), -1)
		one := url + "/" + idIn(t, begun)
		time.Sleep(time.Duration(i) * 5 * time.Millisecond)
		status, answer := call(t, http.MethodPost, one+"/cancel", "", -1)
		if status == http.StatusBadRequest && strings.Contains(answer, "has ended") {
			continue
		}
		how, stored := ended(t, one)
		if status != http.StatusOK || stored != answer || how != "cancelled" && how != "completed" {
			t.Errorf("%d: %d %s\nstored %s", i, status, answer, stored)
		}
		_, events := call(t, http.MethodGet, one+"?stream=true", "", -1)
		if !strings.HasPrefix(events, "event: response.created\n") || !strings.Contains(events, stored) {
			t.Errorf("%d: %s", i, events)
		}
	}
}

// TestBackgroundAtExit: responses have the drain timeout, and their ends are stored.
func TestBackgroundAtExit(t *testing.T) {
	exiting, exit := context.WithCancel(t.Context())
	url, g := backgroundServer(t, Options{Exit: exiting, DrainTimeout: time.Millisecond}, fakecodex.Faults{StallAfter: 6})
	_, begun := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, false), -1)
	exit()
	waitForAll(t, g)
	if how, stored := ended(t, url+"/"+idIn(t, begun)); how != "failed" || !strings.Contains(stored, `"server_error"`) {
		t.Error(stored)
	}
}

// TestFollowersAtExit checks that the followers of a background response get its end at the exit.
func TestFollowersAtExit(t *testing.T) {
	exit, begin := context.WithCancel(t.Context())
	defer begin()
	url, g := backgroundServer(t, Options{Exit: exit, DrainTimeout: 10 * time.Millisecond}, fakecodex.Faults{StallAfter: 6})
	_, answer := call(t, http.MethodPost, url, `{"model":"m","background":true,"input":"x"}`, -1)
	id := idIn(t, answer)
	var followers sync.WaitGroup
	var following atomic.Int32
	for range 4 {
		followers.Go(func() {
			response, err := http.Get(url + "/" + id + "?stream=true")
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if following.Add(1) == 4 {
				begin()
			}
			text, err := io.ReadAll(response.Body)
			if events := strings.Count(string(text), "event: response.failed"); err != nil || events != 1 || !strings.Contains(string(text), `"code":"server_error"`) {
				t.Errorf("%v after %q", err, text)
			}
		})
	}
	followers.Wait()
	waitForAll(t, g)
}

// TestBackgroundFails: a response that could not begin has failed, and says why.
func TestBackgroundFails(t *testing.T) {
	url, g := backgroundServer(t, Options{}, fakecodex.Faults{})
	g.upstream.(*fakeUpstream).process.Stop()
	status, begun := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, false), -1)
	if status != http.StatusOK {
		t.Fatal(begun)
	}
	if how, stored := ended(t, url+"/"+idIn(t, begun)); how != "failed" || !strings.Contains(stored, `"code":"server_error"`) {
		t.Error(stored)
	}
}

// TestBackgroundNotStored: without a store the request is refused.
func TestBackgroundNotStored(t *testing.T) {
	g, _ := storeGateway(nil)
	kept, x := keepResponse(t, g, fmt.Sprintf(inBackground, false))
	if apiErr := kept.resolve(x, g.bodies.Claim("a")); apiErr == nil || apiErr.Param != "background" || !strings.Contains(apiErr.Message, "store") {
		t.Error(apiErr)
	}
}

// TestBackgroundPanics: a response whose goroutine has panicked has failed, and holds nothing.
func TestBackgroundPanics(t *testing.T) {
	url, g := backgroundServer(t, Options{Observer: &witness{began: func() { panic("broken") }}}, fakecodex.Faults{})
	_, begun := call(t, http.MethodPost, url, fmt.Sprintf(inBackground, false), -1)
	one := url + "/" + idIn(t, begun)
	if how, stored := ended(t, one); how != "failed" {
		t.Error(stored)
	}
	if waitForAll(t, g); g.queue.Running() != 0 {
		t.Error("a place is held")
	}
	if _, events := call(t, http.MethodGet, one+"?stream=true", "", -1); !strings.Contains(events, "event: response.failed") {
		t.Errorf("the events are %q", events)
	}
}
