package simulation

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
)

// The models of requests: most are counted by the plan's own meter, meteredModel by one of its own.
const (
	plainModel   = "m"
	meteredModel = "spark"
)

// spentMeter says that the login of a server refuses a model for a while, since its meter is spent.
type spentMeter struct {
	Server   int
	Model    string
	From, To time.Duration
}

// addMeters lets meters of the logins be spent in some plans. That of plainModel is so at one of two logins at
// most, in calm plans that of meteredModel, too, so that there is always one that serves the model. In such plans
// the model's provider never fails otherwise, since then a whole login rests.
func (p *plan) addMeters() {
	random := rand.New(rand.NewPCG(p.Seed, 14))
	if random.IntN(3) > 0 || len(p.Hogs)+len(p.Longs) > 0 {
		return
	}
	plainServer, meteredServer := random.IntN(2), random.IntN(p.Servers)
	for range 1 + random.IntN(3) {
		m := spentMeter{Server: random.IntN(p.Servers), Model: meteredModel, From: time.Duration(random.IntN(6000)) * time.Millisecond}
		m.To = m.From + time.Duration(random.IntN(60_000))*time.Millisecond
		if p.Calm {
			m.Server = meteredServer
		}
		if p.Servers > 1 && random.IntN(2) == 0 {
			m.Server, m.Model = plainServer, plainModel
		}
		p.Meters = append(p.Meters, m)
	}
	for i := range p.Clients {
		for j := range p.Clients[i].Requests {
			r := &p.Clients[i].Requests[j]
			if random.IntN(2) == 0 {
				r.Model = meteredModel
			}
			if r.Script.End == endFailed || r.Script.End == endSilent {
				r.Script.End = endWell
			}
		}
	}
}

// mayBeSpent reports whether a request for a model may find its meter spent at all logins that can serve.
func (p *plan) mayBeSpent(model string) bool {
	spent := make(map[int]bool)
	for _, m := range p.Meters {
		if m.Model == cmp.Or(model, plainModel) {
			spent[m.Server] = true
		}
	}
	fails := slices.ContainsFunc(p.Lives, func(l life) bool { return !l.sound() || l.Faults.Overload > 0 }) ||
		slices.ContainsFunc(p.Events, func(e event) bool { return e.What == restart || e.What == killAll })
	return len(spent) == p.Servers || len(spent) > 0 && fails
}

// meteredLimits are what Codex says of a login's plan.
func meteredLimits() *codexrpc.RateLimits {
	return &codexrpc.RateLimits{Meters: []codexrpc.Meter{{ID: codexrpc.PlanMeter}, {ID: "codex_spark", Name: "Spark"}}, At: time.Now()}
}

// serverOf returns the place in the pool of the process with a key.
func serverOf(key string) int {
	n, _ := strconv.Atoi(key[strings.LastIndexByte(key, '-')+1:]) // keys end with it
	return n
}

// spent reports whether the login of the app-server refuses a turn.
func (s *appServer) spent(asked fakecodex.Asked) bool {
	if s.run.plan.Meters == nil {
		return false
	}
	model, now := gjson.Get(asked.ThreadParams, "model").Str, time.Since(s.run.trace.begin)
	is := slices.ContainsFunc(s.run.plan.Meters, func(m spentMeter) bool {
		return m.Server == s.server && m.Model == model && m.From <= now && now < m.To
	})
	elsewhere := slices.ContainsFunc(s.run.plan.Meters, func(m spentMeter) bool {
		return m.Server == s.server && m.Model != model && m.From <= now && now < m.To
	})
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if is {
		s.run.seen["refused with a spent meter"]++
	} else if elsewhere {
		s.run.seen["served though a meter is spent"]++
	}
	return is
}

// refuseSpent returns a turn that is refused since the meter of its model is spent.
func refuseSpent(asked fakecodex.Asked) []fakecodex.Step {
	p := &stage{asked: asked, script: &script{}, said: &said{}, random: randomOf(asked.Turn)}
	if !asked.Resumed {
		p.begin()
	}
	message := "You’ve hit your usage limit. Visit https://example.com or try again later."
	if gjson.Get(asked.ThreadParams, "model").Str == meteredModel {
		message = "You’ve hit your usage limit for " + meteredModel + ". Switch to another model now, or try again later."
	}
	failure := `{"message":` + quote(message) + `,"codexErrorInfo":"usageLimitExceeded"}`
	p.notify("error", `"error":`+failure+`,"willRetry":false`)
	p.end("failed", failure)
	return p.steps
}
