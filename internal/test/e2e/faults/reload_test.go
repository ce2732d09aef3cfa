package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// TestReloads reloads a node, every other time with new connections to Redis, while clients store
// responses: none is refused, all can be read afterwards, and a response in the background goes on.
func TestReloads(t *testing.T) {
	server, keys := redisserver.Start(t), keyFile(t, map[string]string{"sk-free": ""})
	options := func(i int) string { return fmt.Sprintf("%sstore redis %s?pool_size=%d", keys, server.URL(""), 10+i/2) }
	s := e2e.NewSite(t, options(0))
	running := stored(s, "sk-free", "say:It begins; hang", e2e.Fields{"background": true})
	s.WaitOpen(1)
	client := &http.Client{Timeout: e2e.Deadline, Transport: &http.Transport{DisableKeepAlives: true}} // a reload closes connections
	over := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	answered := make(map[string]string)
	for number := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				text := fmt.Sprintf("kept-%d-%d.", number, i)
				request, err := http.NewRequest(http.MethodPost, s.URL+"/v1/responses", strings.NewReader(e2e.EncodeJSON(e2e.Asks("say:"+text, nil))))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header = e2e.Bearer("sk-free")
				response, err := client.Do(request)
				if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
					continue // it was in the old listener when that closed, and has not begun
				}
				if err != nil {
					t.Error(err)
					return
				}
				var answer struct{ ID string }
				err = json.NewDecoder(response.Body).Decode(&answer)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("%s, %v", response.Status, err)
					return
				}
				mu.Lock()
				answered["/"+answer.ID] = text
				mu.Unlock()
			}
		})
	}
	for i := 1; i <= 10; i++ {
		s.Load(s.Caddyfile(options(i)))
		time.Sleep(100 * time.Millisecond) // for some requests
	}
	close(over)
	all.Wait()
	for path, text := range answered {
		if status, body := call(s, http.MethodGet, path, "sk-free", nil); status != http.StatusOK || !strings.Contains(body, text) {
			t.Errorf("%d %s", status, body)
		}
	}
	if len(answered) < 10 {
		t.Error("too few for a test: ", len(answered))
	}
	status, body := call(s, http.MethodGet, running, "sk-free", nil)
	if status != http.StatusOK || gjson.Get(body, "status").String() != "in_progress" {
		t.Errorf("%d %s", status, body)
	}
	status, body = call(s, http.MethodPost, running+"/cancel", "sk-free", nil)
	if status != http.StatusOK || gjson.Get(body, "status").String() != "cancelled" || !strings.Contains(body, "It begins") {
		t.Errorf("%d %s", status, body)
	}
}
