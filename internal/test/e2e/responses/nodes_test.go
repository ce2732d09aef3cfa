package responses

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// newCluster starts three nodes behind a balancer. The clock of their Redis is an hour ahead.
func newCluster(t *testing.T) *e2e.Cluster {
	t.Helper()
	server := redisserver.StartAhead(t, time.Hour)
	return e2e.NewCluster(t, func(int) string { return "store redis " + server.URL("") })
}

// TestNodesConversation lets many clients continue one conversation at the same time: nothing of
// them is lost or doubled, and a chain goes on wherever its requests arrive.
func TestNodesConversation(t *testing.T) {
	c := newCluster(t)
	made, _ := conversation(c.Site, http.MethodPost, "", e2e.Fields{}, nil, http.StatusOK)
	const writers = 32
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			r := c.Respond(e2e.Asks(fmt.Sprintf("say:answer-%d.", i), e2e.Fields{"conversation": made.ID, "stream": i%2 == 0}), nil)
			if r.Text() != fmt.Sprintf("answer-%d.", i) {
				t.Errorf("%d: %q", i, r.Text())
			}
		})
	}
	all.Wait()
	counts, after, total := make(map[string]int), "", 0
	for {
		list, _ := conversation(c.Site, http.MethodGet, "/"+made.ID+"/items?order=asc&limit=100&after="+after, nil, nil, http.StatusOK)
		for _, item := range list.Data {
			total++
			counts[item.Content[0].Text]++
		}
		if !list.HasMore {
			break
		}
		after = list.LastID
	}
	for i := range writers {
		asked, said := counts[fmt.Sprintf("say:answer-%d.", i)], counts[fmt.Sprintf("answer-%d.", i)]
		if asked != 1 || said != 1 {
			t.Errorf("%d was asked %d times and answered %d times", i, asked, said)
		}
	}
	if total != 2*writers {
		t.Errorf("the conversation has %d items", total)
	}
	previous := ""
	for i := range 20 {
		request := e2e.Asks(fmt.Sprintf("say:link-%d.", i), nil)
		if previous != "" {
			request["previous_response_id"] = previous
		}
		previous = c.Respond(request, nil).ID
	}
	if request, _ := c.Model.Last(); len(e2e.Describe(request)) != 2*20-1+1 {
		t.Errorf("the model was given %q", e2e.Describe(request))
	}
}

// TestNodesBackground kills and stops nodes that make background responses, which others read and
// follow: each has one end for everybody.
func TestNodesBackground(t *testing.T) {
	c := newCluster(t)
	_, ofKilled := begin(c.Through(0), e2e.Fields{"stream": true, "background": true}, nil)
	_, ofStopped := begin(c.Through(1), e2e.Fields{"stream": true, "background": true}, nil)
	follower := c.Through(2).Do(http.MethodGet, "/v1/responses/"+ofKilled+"?stream=true", nil, nil)
	e2e.ReadUntil(t, follower.Body, "It begins")
	must.OK(t, c.Nodes[0].Cmd.Process.Kill())
	_ = c.Nodes[0].Wait()
	must.OK(t, c.Nodes[1].Cmd.Process.Signal(syscall.SIGSTOP))
	failures := make(map[string]string)
	for _, id := range []string{ofKilled, ofStopped} {
		deadline := time.Now().Add(60 * time.Second) // a lease has 30
		for failures[id] == "" && time.Now().Before(deadline) {
			_, body := about(c.Through(2), http.MethodGet, id, nil)
			if strings.Contains(body, `"status":"failed"`) {
				failures[id] = body
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !strings.Contains(failures[id], "has ended before the response did") {
			t.Errorf("%s: %s", id, failures[id])
		}
	}
	if rest := c.Read(follower); !strings.Contains(rest, "event: response.failed") {
		t.Errorf("the follower has %s", rest)
	}
	must.OK(t, c.Nodes[1].Cmd.Process.Signal(syscall.SIGCONT))
	c.Nodes[0].Start()
	c.WaitOpen(0) // the node that goes on ends its turn
	for id, failure := range failures {
		for node := range c.Nodes {
			if _, read := about(c.Through(node), http.MethodGet, id, nil); read != failure {
				t.Errorf("node %d has %s, not %s", node, read, failure)
			}
		}
	}
}

// TestNodesRolling restarts the nodes one after the other while clients store responses: all that
// was answered can be read, and what was under way ends.
func TestNodesRolling(t *testing.T) {
	c := newCluster(t)
	over := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	answered, refused := make(map[string]string), 0
	for client := range 6 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				text := fmt.Sprintf("kept-%d-%d.", client, i)
				answer, body := c.Call(http.MethodPost, "/v1/responses", e2e.Asks("say:"+text, nil), nil)
				mu.Lock()
				if answer.StatusCode == http.StatusOK {
					answered[c.ParseResponse([]byte(body)).ID] = text
				} else {
					refused++
				}
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	for _, node := range c.Nodes {
		node.End()
		node.Start()
	}
	close(over)
	all.Wait()
	t.Logf("%d were answered, %d were refused", len(answered), refused)
	for id, text := range answered {
		if status, body := about(c.Site, http.MethodGet, id, nil); status != http.StatusOK || !strings.Contains(body, text) {
			t.Fatalf("%s: %d %s", id, status, body)
		}
	}
	if len(answered) < 10 {
		t.Error("too few for a test")
	}
}

// TestDiskKilled: after a kill of Caddy, what was answered is there, and what was under way failed.
func TestDiskKilled(t *testing.T) {
	s := e2e.NewUnstarted(t)
	r := s.RunFile(s.Caddyfile("store disk " + t.TempDir()))
	r.WaitUp()
	kept := r.Respond(e2e.Asks("say:Kept.", nil), nil)
	made, _ := conversation(r.Site, http.MethodPost, "", e2e.Fields{"items": []e2e.Fields{e2e.Says("user", "Hello.")}}, nil, http.StatusOK)
	r.Respond(e2e.Asks("say:Told.", e2e.Fields{"conversation": made.ID}), nil)
	_, running := begin(r.Site, e2e.Fields{"stream": true, "background": true}, nil)
	must.OK(t, r.Cmd.Process.Kill())
	_ = r.Wait()
	r.Start()
	if status, body := about(r.Site, http.MethodGet, kept.ID, nil); status != http.StatusOK || !strings.Contains(body, "Kept.") {
		t.Error(status, body)
	}
	if list, _ := conversation(r.Site, http.MethodGet, "/"+made.ID+"/items", nil, nil, http.StatusOK); len(list.Data) != 3 {
		t.Errorf("%+v", list)
	}
	if status, body := about(r.Site, http.MethodGet, running, nil); status != http.StatusOK || !strings.Contains(body, "has ended before the response did") {
		t.Error(status, body)
	}
	events := r.Read(r.Do(http.MethodGet, "/v1/responses/"+running+"?stream=true", nil, nil))
	if !strings.Contains(events, "event: response.failed") {
		t.Error(events)
	}
	if next := r.Respond(e2e.Asks("say:More.", e2e.Fields{"previous_response_id": kept.ID}), nil); next.Text() != "More." {
		t.Errorf("%+v", next)
	}
}

// readNumbers reads events until the stream breaks, calls read after each, and returns the last.
func readNumbers(stream *http.Response, read func()) (last int) {
	defer func() { _ = stream.Body.Close() }()
	last = -1
	for lines := bufio.NewReader(stream.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return last
		}
		if _, rest, found := strings.Cut(line, `"sequence_number":`); found {
			if end := strings.IndexAny(rest, ",}"); end >= 0 { // an event that was cut does not count
				last, _ = strconv.Atoi(rest[:end])
				read()
			}
		}
	}
}

// TestKilledReaders: clients that read background responses at a killed node read on at another
// one. Each gets the end, with the number after its last, although events came just before.
func TestKilledReaders(t *testing.T) {
	const clients = 8
	c := newCluster(t)
	maker := c.Through(0)
	ids, last := make([]string, clients), make([]int, clients)
	var reading, all sync.WaitGroup
	for i := range clients {
		answer := maker.Do(http.MethodPost, "/v1/responses", strings.NewReader(e2e.EncodeJSON(e2e.Asks(
			"chunk=4; delay=20ms; say:"+strings.Repeat("one two ", 2000), e2e.Fields{"background": true}))), nil)
		ids[i] = maker.ParseResponse([]byte(maker.Read(answer))).ID
		stream := maker.Do(http.MethodGet, "/v1/responses/"+ids[i]+"?stream=true", nil, nil)
		reading.Add(1)
		all.Go(func() {
			reads, done := 0, sync.OnceFunc(reading.Done)
			defer done()
			last[i] = readNumbers(stream, func() {
				if reads++; reads == 30 {
					done()
				}
			})
		})
	}
	reading.Wait()
	time.Sleep(500 * time.Millisecond) // events are stored, and some are not yet
	must.OK(t, c.Nodes[0].Cmd.Process.Kill())
	_ = c.Nodes[0].Wait()
	all.Wait()
	var ended atomic.Int64
	for i, id := range ids {
		all.Go(func() {
			status, rest := about(c.Through(1), http.MethodGet, fmt.Sprintf("%s?stream=true&starting_after=%d", id, last[i]), nil)
			end := strings.LastIndex(rest, "event: response.failed\n")
			if status != http.StatusOK || end < 0 {
				t.Errorf("after %d: %d %q", last[i], status, rest)
				return
			}
			number := last[i] + 1 + strings.Count(rest[:end], "event: ") // nothing is missing
			if !strings.Contains(rest[end:], fmt.Sprintf(`"sequence_number":%d,`, number)) {
				t.Errorf("after %d: %q", last[i], rest)
				return
			}
			ended.Add(1)
		})
	}
	all.Wait()
	t.Logf("%d of %d readers get the end", ended.Load(), clients)
}
