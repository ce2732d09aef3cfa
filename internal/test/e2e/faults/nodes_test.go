package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// keyFile writes a file of keys with these limits and returns the option that names it.
func keyFile(t *testing.T, keys map[string]string) (option string) {
	t.Helper()
	return "api_keys_file " + e2e.NewKeyFile(t, keys).Path + "\n"
}

// Clients that use up a limit, and how often each of them is refused before it stops.
const spenders, refusals = 8, 4

const refused = "429 rate_limit_exceeded"

// spend lets clients use up the limit of a key at full speed, and counts the answers by their status
// and the code of their error. between is called after each answer.
func spend(s *e2e.Site, key, prompt string, between func(answer string)) map[string]int {
	s.T.Helper()
	end, counts := time.Now().Add(5*e2e.Deadline), make(map[string]int)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range spenders {
		all.Go(func() {
			for left := refusals; left > 0; {
				answer, after, err := askAs(s, key, prompt)
				if err != nil {
					s.T.Error(err)
					return
				}
				if answer == refused {
					left--
					// A window and its part, or until turns that hold the rest may have ended.
					if (after < 50*time.Minute || after > 64*time.Minute) && (after <= 0 || after > 5*time.Second) {
						s.T.Errorf("a limit of an hour ends after %s", after)
					}
				}
				mu.Lock()
				counts[answer]++
				mu.Unlock()
				if between != nil {
					between(answer)
				}
				if time.Now().After(end) {
					s.T.Error("the limit is not used up")
					return
				}
			}
		})
	}
	all.Wait()
	return counts
}

// askAs sends a chat and returns its status with the code of an error, and when to try again by its message.
func askAs(s *e2e.Site, key, prompt string) (answer string, after time.Duration, err error) {
	response, err := s.Chat(e2e.Context(s.T), e2e.ChatBody(prompt, nil), e2e.Bearer(key))
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	var body e2e.APIError
	err = json.NewDecoder(response.Body).Decode(&body)
	answer = strconv.Itoa(response.StatusCode)
	if body.Error.Code != nil {
		answer += " " + *body.Error.Code
		_, wait, _ := strings.Cut(strings.TrimSuffix(*body.Error.Message, "."), "try again in ")
		after, _ = time.ParseDuration(wait)
	}
	return answer, after, err
}

// call makes a request of the Responses API with a key.
func call(s *e2e.Site, method, path, key string, request e2e.Fields) (status int, text string) {
	s.T.Helper()
	response, text := s.Call(method, "/v1/responses"+path, request, e2e.Bearer(key))
	return response.StatusCode, text
}

// stored stores a response and returns its path.
func stored(s *e2e.Site, key, text string, more e2e.Fields) (path string) {
	s.T.Helper()
	status, body := call(s, http.MethodPost, "", key, e2e.Asks(text, more))
	if status != http.StatusOK {
		s.T.Fatal(status, body)
	}
	return "/" + gjson.Get(body, "id").String()
}

// TestBalancer lets 50 users, who share one key, have conversations of five requests through three
// nodes. Balancers that hash the user use all nodes, and each request finds the thread of the one
// before. The row with one node, and that with lost threads, are what docs/cluster.md warns of.
func TestBalancer(t *testing.T) {
	for policy, want := range map[string]struct{ spread, finds bool }{
		"":                               {true, true}, // that of the examples
		"lb_policy client_ip_hash":       {true, true},
		"lb_policy header Authorization": {false, true},
		"lb_policy random":               {true, false},
	} {
		t.Run(policy, func(t *testing.T) {
			c := e2e.NewClusterBehind(t, policy, func(int) string { return "api_key sk-team" })
			var users sync.WaitGroup
			room := make(chan struct{}, 6)
			for user := range 50 {
				users.Go(func() {
					room <- struct{}{}
					defer func() { <-room }()
					converse(c.Site, user)
				})
			}
			users.Wait()
			var loads []int
			found := 0
			for _, node := range c.Nodes {
				log := node.Log.String()
				loads = append(loads, strings.Count(log, `"route":"chat"`))
				for line := range strings.Lines(log) { // the start of the turn is logged, too
					if strings.Contains(line, `"msg":"turn"`) && strings.Contains(line, `"thread":"continued"`) {
						found++
					}
				}
			}
			t.Logf("requests of the nodes: %v; %d of 200 found their thread", loads, found)
			if spread := slices.Min(loads) > 0; spread != want.spread || found > 180 != want.finds {
				t.Errorf("%v, %d", loads, found)
			}
		})
	}
}

// converse has a conversation of five requests, as a gateway that has one key for all users.
func converse(s *e2e.Site, user int) {
	header := e2e.Bearer("sk-team")
	header.Set("X-User-Id", fmt.Sprintf("user-%d", user))
	header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", user))
	var messages []e2e.Fields
	for i := range 5 {
		text := fmt.Sprintf("answer-%d-%d", user, i)
		messages = append(messages, e2e.Fields{"role": "user", "content": "say:" + text})
		answer, body := s.Call(http.MethodPost, "/v1/chat/completions", e2e.Fields{"model": "gpt-5", "messages": messages}, header)
		if answer.StatusCode != http.StatusOK || !strings.Contains(body, text) {
			s.T.Errorf("user %d: %d %s", user, answer.StatusCode, body)
		}
		messages = append(messages, e2e.Fields{"role": "assistant", "content": text})
	}
}

// TestNodeCutOff cuts one of three nodes off from Redis, then slows its network down, then lets Redis
// become full: only that node cannot use what is stored, and all nodes go on with what they can.
func TestNodeCutOff(t *testing.T) {
	server := redisserver.StartAhead(t, time.Hour)
	proxy := server.NewProxy(t)
	keys := keyFile(t, map[string]string{"sk-limited": "requests 1000 1h\ntokens 1000000 1h", "sk-free": ""})
	c := e2e.NewCluster(t, func(node int) string {
		addr := server.Addr
		if node == 0 {
			addr = proxy.Addr
		}
		return keys + "store redis redis://" + addr
	})
	kept := stored(c.Site, "sk-free", "say:Kept.", nil)
	// expect checks what each node answers: chats of keys with limits and without, what is stored.
	expect := func(what string, node int, limited, free string, read int) {
		t.Helper()
		for key, want := range map[string]string{"sk-limited": limited, "sk-free": free} {
			if answer, _, err := askAs(c.Through(node), key, "say:ok"); err != nil || answer != want {
				t.Errorf("%s, node %d, %s: %s, %v", what, node, key, answer, err)
			}
		}
		if status, body := call(c.Through(node), http.MethodGet, kept, "sk-free", nil); status != read {
			t.Errorf("%s, node %d: %d %s", what, node, status, body)
		}
	}
	told := func(node int) string {
		_, text := c.Through(node).Get("/readyz")
		return gjson.Get(text, "store").String()
	}
	proxy.Cut()
	e2e.WaitFor(t, "/readyz to say it", func() bool { return told(0) == "unavailable" })
	expect("cut off", 0, "503 key_limits_unavailable", "200", http.StatusServiceUnavailable)
	for node := 1; node < 3; node++ {
		expect("another is cut off", node, "200", "200", http.StatusOK)
		if text := told(node); text != "" {
			t.Errorf("node %d: %q", node, text)
		}
	}
	proxy.Mend()
	e2e.WaitFor(t, "the end of the outage", func() bool { return told(0) == "" })
	expect("mended", 0, "200", "200", http.StatusOK)
	proxy.Slow(2 * time.Second)
	expect("another is slow", 1, "200", "200", http.StatusOK)
	begin := time.Now()
	status, body := call(c.Through(0), http.MethodGet, kept, "sk-free", nil)
	if took := time.Since(begin); status == http.StatusOK && took < 2*time.Second || status != http.StatusOK && status != http.StatusServiceUnavailable {
		t.Errorf("slow: %d %s after %s", status, body, took)
	}
	proxy.Mend()
	e2e.WaitFor(t, "the end of the outage", func() bool { return told(0) == "" })

	server.Do("CONFIG SET maxmemory-policy noeviction")
	server.Do("CONFIG SET maxmemory 1mb")
	e2e.WaitFor(t, "Redis to be full", func() bool { return strings.HasPrefix(server.Do("SET fill y"), "-OOM") })
	for node := range c.Nodes {
		expect("full", node, "200", "200", http.StatusOK)
		fresh := stored(c.Through(node), "sk-free", "say:Fresh.", nil)
		if status, body := call(c.Through(node), http.MethodGet, fresh, "sk-free", nil); status == http.StatusOK {
			t.Errorf("full: %d %s", status, body)
		}
	}
	server.Do("CONFIG SET maxmemory 0")
	fresh := stored(c.Through(0), "sk-free", "say:Fresh.", nil)
	for node := range c.Nodes {
		if status, body := call(c.Through(node), http.MethodGet, fresh, "sk-free", nil); status != http.StatusOK {
			t.Errorf("after that: %d %s", status, body)
		}
		if requests := c.Through(node).Used("sk-limited", "requests"); requests < 7 || requests > 8 { // one may be counted that was cut off
			t.Errorf("%d requests are counted", requests)
		}
	}
}

// TestKeysOfNodes lets clients use up limits at three nodes that share a Redis, each request at a
// random one, at full speed: exactly what the limits allow is let through, and each node shows the
// usage of all. In a Redis that was emptied they begin anew. Its clock is an hour ahead of the nodes.
func TestKeysOfNodes(t *testing.T) {
	server := redisserver.StartAhead(t, time.Hour)
	keys := keyFile(t, map[string]string{"sk-requests": "requests 80 1h\ntokens 10000000 day", "sk-tokens": "tokens 8000 1h", "sk-few": "requests 30 1h", "sk-free": ""})
	c := e2e.NewCluster(t, func(int) string { return keys + "store redis " + server.URL("") })
	expect := func(key, prompt string, want int) {
		t.Helper()
		begin := time.Now()
		counts := spend(c.Site, key, prompt, nil)
		t.Logf("%s: %v in %s", key, counts, time.Since(begin))
		if counts["200"] != want && want > 0 || counts[refused] != spenders*refusals || len(counts) != 2 {
			t.Errorf("of %s, %v", key, counts)
		}
	}
	expect("sk-requests", "say:ok", 80)
	expect("sk-tokens", "say:"+strings.Repeat("one two ", 100), 0)
	const one = 400 // the most tokens of an answer with its input
	for node := range c.Nodes {
		var all gjson.Result
		e2e.WaitFor(t, "the usage of all nodes", func() bool { // each adds its own within five seconds
			all = c.Through(node).Usage("sk-requests")
			return all.Get("requests").Int()-all.Get("errors").Int() >= 80
		})
		requests, tokens := all.Get("keys.0.limits.0.used").Int(), c.Through(node).Used("sk-tokens", "tokens")
		if requests != 80 || all.Get("requests").Int()-all.Get("errors").Int() != 80 || all.Get("by_model.0.requests").Int() != 80 || tokens < 8_000-one || tokens > 8_000+one {
			t.Errorf("node %d: %d requests and %d tokens are used; %s", node, requests, tokens, all)
		}
	}

	expect("sk-few", "say:ok", 30)
	kept, running := stored(c.Site, "sk-free", "say:Kept.", nil), stored(c.Through(0), "sk-free", "say:It begins; hang", e2e.Fields{"background": true})
	c.WaitOpen(1)
	server.Do("FLUSHALL")
	for node := range c.Nodes {
		if status, body := call(c.Through(node), http.MethodGet, kept, "sk-free", nil); status != http.StatusNotFound {
			t.Errorf("emptied: %d %s", status, body)
		}
		e2e.WaitFor(t, "the response that is being made", func() bool {
			status, body := call(c.Through(node), http.MethodGet, running, "sk-free", nil)
			return status == http.StatusOK && gjson.Get(body, "status").String() == "in_progress"
		})
	}
	status, cancelled := call(c.Through(1), http.MethodPost, running+"/cancel", "sk-free", nil)
	if status != http.StatusOK || gjson.Get(cancelled, "status").String() != "cancelled" {
		t.Errorf("%d %s", status, cancelled)
	}
	for node := range c.Nodes {
		if status, body := call(c.Through(node), http.MethodGet, running, "sk-free", nil); status != http.StatusOK || body != cancelled {
			t.Errorf("%d %s, cancelled as %s", status, body, cancelled)
		}
	}
	time.Sleep(1100 * time.Millisecond) // after a refusal, a node does not ask for a second
	expect("sk-few", "say:ok", 30)
}
