package logins

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestPlanShare lets a user with 20 % of the plan send without pause: the plan's meter goes to 20 % and not
// further, until another key lends some of its share, or the meter is reset. Another user is served all the time.
func TestPlanShare(t *testing.T) {
	e2e.WithLogin(t)
	const turns = 500 // that use up a window
	s := e2e.NewUnstarted(t)
	s.Login.SetMeters(planbackend.AllMeters(turns * planbackend.Cost(scriptedmodel.DefaultUsage)))
	s.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) { // three quarters of each window have passed
		m.Primary.Resets, m.Secondary.Resets = time.Now().Add(m.Primary.Length/4), time.Now().Add(m.Secondary.Length/4)
	})
	file := e2e.NewKeyFile(t, map[string]string{"sk-eve": "plan_share 20%", "sk-ann": ""})
	s.Serve("api_keys_file " + file.Path)
	admin := s.WithAdmin(s.Caddyfile("api_keys_file " + file.Path))
	s.WaitReady()
	id := admin.Status().AppServers[0].ID

	stop := make(chan struct{})
	var ann sync.WaitGroup
	served := 0
	ann.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second / 2):
			}
			if status, text := e2e.StatusOf(s, "sk-ann", nil); status != http.StatusOK {
				t.Errorf("the other user: %d %s", status, text)
			}
			served++
		}
	})
	used := 0.0 // by eve, in percent
	send := func(prompt string, percent float64) (refused *http.Response, text string) {
		for {
			response, text := s.Post(e2e.ChatBody(prompt, nil), e2e.Bearer("sk-eve"))
			if response.StatusCode != http.StatusOK {
				return response, text
			}
			if used += percent; used > 60 {
				t.Fatal("nothing is refused")
			}
		}
	}
	// check checks a refusal when want percent are used. The last turn, of so many percent, may begin shortly before.
	check := func(want, turn float64, response *http.Response, text string) {
		t.Helper()
		if used < want-3 || used > want+turn+2 {
			t.Errorf("it has used %v %%, and not %v %%", used, want)
		}
		message := gjson.Get(text, "error.message").Str
		for _, part := range []string{"% of the plan's window ", " codex ", ", used ", "Please try again in "} {
			if !strings.Contains(message, part) {
				t.Errorf("no %q in %s", part, message)
			}
		}
		if response.StatusCode != http.StatusTooManyRequests || gjson.Get(text, "error.code").Str != "rate_limit_exceeded" ||
			response.Header.Get("X-Should-Retry") != "false" || response.Header.Get("Retry-After") != "" || response.Header.Get("X-Ratelimit-Limit-Requests") != "" {
			t.Error(response.Status, response.Header, text)
		}
		limits := s.Usage("sk-eve").Get(`keys.0.limits.#(unit=="plan_share")#`)
		for _, l := range limits.Array() {
			if math.Abs(l.Get("limit").Float()-want) > 3 || math.Abs(l.Get("used").Float()-used) > turn+2 || l.Get("resets_at").Int() < time.Now().Unix() {
				t.Errorf("after %v %%: %s", used, l.Raw)
			}
		}
		if n := len(limits.Array()); n != 2 {
			t.Errorf("%d windows: %s", n, limits.Raw)
		}
	}
	response, text := send("firstdelay=80ms; say:ok", 100.0/turns)
	check(20, 100.0/turns, response, text)

	file.Write(map[string]string{"sk-eve": "plan_share 20%", "sk-ann": "plan_share 40%\nlend on"})
	e2e.WaitFor(t, "what is lent", func() bool { status, _ := e2e.StatusOf(s, "sk-eve", nil); return status == http.StatusOK })
	used += 100.0 / turns
	response, text = send(fmt.Sprintf("usage:%d,%d,%d,0; say:ok", 1230, 230, 450), 1000.0/turns)
	lent := 40*3/4 - float64(served)*100/turns // about
	check(20+lent, 1000.0/turns, response, text)

	for range 2 { // the second reset comes within seconds of the first one
		s.Login.Change(planbackend.PlanMeter, (*planbackend.Meter).Reset)
		askLimits(admin, id)
		e2e.WaitFor(t, "the next window", func() bool {
			return s.Usage("sk-eve").Get(`keys.0.limits.#(unit=="plan_share").used`).Float() == 0
		})
		used = 0
		response, text = send(fmt.Sprintf("usage:%d,%d,%d,0; say:ok", 1230, 230, 450), 1000.0/turns)
		check(20, 1000.0/turns, response, text)
		askLimits(admin, id)
		e2e.WaitFor(t, "what is used", func() bool { return s.Usage("sk-eve").Get("windows.@reverse.0.used_percent").Float() > 15 })
	}
	close(stop)
	ann.Wait()
	if served == 0 {
		t.Error("the other user has sent nothing")
	}
}

// TestPlanShareOfLogins lets a user with 20 % of each plan go on with one conversation: it stays in its thread until
// the share of that login is used up, goes on at the other login, and is refused when that share is used up, too.
func TestPlanShareOfLogins(t *testing.T) {
	e2e.WithLogin(t)
	const turns = 200 // that use up a window
	s := e2e.NewUnstarted(t)
	logins, blocks := []*planbackend.Login{s.Login, s.Plan.AddLogin(planbackend.LoginOptions{})}, ""
	for _, l := range logins {
		home := t.TempDir()
		must.OK(t, l.Write(home))
		l.SetMeters(planbackend.AllMeters(turns * planbackend.Cost(scriptedmodel.DefaultUsage)))
		blocks += "app_server " + e2e.CodexBinary + " app-server {\nhome " + home + "\n}\n"
	}
	file := e2e.NewKeyFile(t, map[string]string{"sk-eve": "plan_share 20%", "sk-ann": ""})
	s.Serve(blocks + "api_keys_file " + file.Path)
	s.WaitReady()
	e2e.WaitFor(t, "both logins", func() bool {
		return len(s.Usage("sk-ann").Get("rate_limits.#.meters.0.id").Array()) == 2
	})
	e2e.WaitFor(t, "what the windows hold", func() bool { // until another user has used enough of each
		var both sync.WaitGroup
		for range logins {
			both.Go(func() {
				e2e.StatusOf(s, "sk-ann", e2e.Fields{"messages": []any{e2e.UserMessage("firstdelay=300ms; say:ok")}})
			})
		}
		both.Wait()
		return len(s.Usage("sk-eve").Get(`keys.0.limits.#(unit=="plan_share")#`).Array()) == 4
	})
	meter := func(login int) float64 { return logins[login].Meter(planbackend.PlanMeter).Primary.Used }
	before := []float64{meter(0), meter(1)}
	used := func(login int) float64 { return meter(login) - before[login] }
	messages := []any{e2e.UserMessage("usage:492,92,180,0; say:ok")} // as much as four turns
	for first := -1; ; {
		response, text := s.Post(e2e.EncodeJSON(e2e.Fields{"model": "gpt-5", "messages": messages}), e2e.Bearer("sk-eve"))
		if response.StatusCode != http.StatusOK {
			if message := gjson.Get(text, "error.message").Str; response.StatusCode != http.StatusTooManyRequests || !strings.Contains(message, "% of the plan's window ") {
				t.Error(response.Status, text)
			}
			break
		}
		messages = append(messages, gjson.Get(text, "choices.0.message").Value(), messages[0])
		if first < 0 {
			first = 0
			if used(1) > used(0) {
				first = 1
			}
		}
		if stays, goes := used(first), used(1-first); goes > 1 && stays < 17 || stays > 26 || goes > 26 {
			t.Fatalf("%v %% are used of the login of the conversation, %v %% of the other one", stays, goes)
		}
	}
	for login := range logins {
		if n := used(login); n < 17 || n > 26 {
			t.Errorf("%v %% are used of login %d, the share is 20 %%", n, login)
		}
	}
}

// TestPlanShareOfNodes lets a user use up a share at three nodes at the same time: all of them together serve no
// more than the share and what runs.
func TestPlanShareOfNodes(t *testing.T) {
	e2e.WithLogin(t)
	const turns, share = 200, 40 // of a window, of the share
	server := redisserver.Start(t)
	file := e2e.NewKeyFile(t, map[string]string{"sk-eve": "plan_share 20%", "sk-ann": ""})
	c := e2e.NewCluster(t, func(int) string { return "api_keys_file " + file.Path + "\nstore redis " + server.URL("1") })
	meters := planbackend.AllMeters(turns * planbackend.Cost(scriptedmodel.DefaultUsage))
	meters[0].Primary.Used, meters[0].Secondary.Used = c.Login.Meter(planbackend.PlanMeter).Primary.Used, c.Login.Meter(planbackend.PlanMeter).Secondary.Used
	c.Login.SetMeters(meters)
	for range turns / 10 {
		if status, text := e2e.StatusOf(c.Site, "sk-ann", nil); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	limits := func(node int) gjson.Result {
		return c.Through(node).Usage("sk-eve").Get(`keys.0.limits.#(unit=="plan_share")#`)
	}
	for node := range c.Nodes {
		e2e.WaitFor(t, "what the windows hold", func() bool { return len(limits(node).Array()) == 2 })
	}
	var nodes sync.WaitGroup
	var served atomic.Int64
	for node := range c.Nodes {
		nodes.Go(func() {
			for served.Load() < turns/2 {
				status, text := e2e.StatusOf(c.Through(node), "sk-eve", nil)
				if status != http.StatusOK {
					if status != http.StatusTooManyRequests || !strings.Contains(text, "of the plan's window") {
						t.Error(status, text)
					}
					return
				}
				served.Add(1)
			}
		})
	}
	nodes.Wait()
	n := served.Load()
	if n < share-4 || n > share+6 {
		t.Errorf("%d turns were served, the share is %d", n, share)
	}
	used := float64(n) * 100 / turns
	for node := range c.Nodes { // when it has been told of the last turns
		e2e.WaitFor(t, fmt.Sprintf("node %d to say %v %%", node, used), func() bool {
			return !slices.ContainsFunc(limits(node).Array(), func(l gjson.Result) bool { return math.Abs(l.Get("used").Float()-used) > 2 })
		})
	}
}
