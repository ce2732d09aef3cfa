package responses

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// readNumbers reads events until the stream breaks off, calls read after each, and returns the number
// of the last one.
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

// TestKilledReaders kills a node while clients read background responses at it. They read on at
// another node: each gets the end, with the number that follows the last one it has, although events
// came just before.
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
	if err := c.Nodes[0].Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
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
