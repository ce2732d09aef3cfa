package simulation

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"
)

// plan is all that is decided before a run.
type plan struct {
	Seed    uint64
	Calm    bool // nothing fails, so that nothing may
	Config  config
	Servers int           // app-servers of the first configuration
	Latency time.Duration // of an app-server for each message to it, at most
	Lives   []life        // of the instances, in the order of their starts; later ones are sound
	Clients []client
	Events  []event
}

// config are the limits of a gateway.
type config struct {
	Concurrent, Queue int
	PerUser           int // 0: as the queue shares
	QueueWait         time.Duration
	Idle              time.Duration
	Keepalive         time.Duration
	Drain             time.Duration
	MaxBody           int64
	BodyMemory        int64
}

// heaviest is how many choices a request may have.
func (c *config) heaviest() int {
	if c.PerUser > 0 {
		return min(c.PerUser, c.Concurrent)
	}
	return c.Concurrent
}

// client is one program that asks.
type client struct {
	User     string
	HTTP2    bool
	Parallel bool // its requests do not wait for one another
	Links    []link
	Requests []request
}

// request is one request of a client, and what the client does meanwhile.
type request struct {
	Token     string
	After     time.Duration // the one before
	Responses bool          // the API; else chat completions
	Stream    bool
	Usage     bool // wanted in a stream
	Choices   int
	Follow    bool          // the client's last response, if there is one that can be followed
	Prompt    int           // bytes
	Bad       string        // what is wrong with the body; empty: nothing
	Trickle   time.Duration // between the pieces of the body
	Stuck     bool          // the body never ends
	LeaveAt   int           // bytes of the answer's body after which the client leaves; 0: none
	LeaveIn   time.Duration // after which the client leaves; 0: it stays
	SlowBy    time.Duration // between its reads of the answer
	StopAt    int           // bytes of the answer after which it reads nothing for StopFor; 0: none
	StopFor   time.Duration
	CancelIn  time.Duration // after which the response is cancelled from elsewhere; 0: not
	Script    *script
}

// String tells all of the plan.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan of seed %d: calm %t, %d app-servers, latency %s, %+v\n", p.Seed, p.Calm, p.Servers, p.Latency, p.Config)
	for i := range p.Lives {
		fmt.Fprintf(&b, "  app-server %d:%s\n", i, &p.Lives[i])
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "  %s: %s\n", e.At, e.What)
	}
	for _, c := range p.Clients {
		fmt.Fprintf(&b, "  client of %s, HTTP/2 %t, parallel %t, links %+v\n", c.User, c.HTTP2, c.Parallel, c.Links)
		for i := range c.Requests {
			fmt.Fprintf(&b, "    %s script: %+v\n", &c.Requests[i], *c.Requests[i].Script)
		}
	}
	return b.String()
}

// String tells what is not as it is by default.
func (r *request) String() string {
	s := *r
	s.Script = nil
	var b strings.Builder
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			fmt.Fprintf(&b, "%s:%v ", v.Type().Field(i).Name, f)
		}
	}
	return b.String()
}

// event is something that happens to the gateway.
type event struct {
	At   time.Duration
	What string
}

// The events.
const (
	reloadSame    = "reload with the same app-servers"
	reloadChanged = "reload with other app-servers"
	reloadFailed  = "reload that fails"
	restart       = "restart of the app-servers"
	killAll       = "kill of all app-servers"
	look          = "look at the readiness and the models"
	shutDown      = "exit"
)

// newPlan draws the plan of a seed.
func newPlan(seed uint64) *plan {
	random := rand.New(rand.NewPCG(seed, 11))
	p := &plan{Seed: seed, Calm: random.IntN(10) == 0, Servers: 1 + random.IntN(2)}
	p.Config = randomConfig(random, p.Calm)
	if random.IntN(2) == 0 {
		p.Latency = time.Duration(1+random.IntN(30)) * time.Millisecond
	}
	for i := range 1 + random.IntN(5) {
		p.Clients = append(p.Clients, p.randomClient(random, i))
	}
	p.randomEvents(random)
	if !p.Calm && random.IntN(3) > 0 {
		for range 1 + random.IntN(5) {
			p.Lives = append(p.Lives, randomLife(random))
		}
	}
	return p
}

func randomConfig(random *rand.Rand, calm bool) config {
	c := config{
		Concurrent: 1 + random.IntN(8), Queue: random.IntN(8),
		QueueWait: time.Duration(1+random.IntN(20)) * time.Second,
		Idle:      time.Duration(5+random.IntN(60)) * time.Second,
		Keepalive: time.Duration(random.IntN(3000)) * time.Millisecond,
		Drain:     time.Duration(random.IntN(5000)) * time.Millisecond,
		MaxBody:   64 << 10,
	}
	c.BodyMemory = c.MaxBody * int64(4+random.IntN(12))
	if random.IntN(3) == 0 {
		c.PerUser = 1 + random.IntN(c.Concurrent)
	}
	if calm {
		c.BodyMemory, c.PerUser, c.Concurrent, c.Queue, c.QueueWait = 1<<30, 0, 8, 100, time.Hour
	}
	return c
}

func (p *plan) randomClient(random *rand.Rand, number int) client {
	c := client{User: fmt.Sprintf("user-%d", random.IntN(3)), HTTP2: random.IntN(2) == 0, Parallel: random.IntN(2) == 0}
	for range 3 {
		c.Links = append(c.Links, p.randomLink(random))
	}
	for i := range 1 + random.IntN(5) {
		token := fmt.Sprintf("%s%d-%d-%d", tokenPrefix, p.Seed, number, i)
		r := p.randomRequest(random, token)
		if c.HTTP2 && r.Choices > 1 {
			r.SlowBy, r.StopAt = 0, 0
		}
		c.Requests = append(c.Requests, r)
	}
	return c
}

func (p *plan) randomLink(random *rand.Rand) link {
	l := link{Room: 1 << (10 + random.IntN(8)), Reset: random.IntN(2) == 0, PieceSeed: random.Uint64()}
	if random.IntN(2) == 0 {
		l.Pieces = 1 + random.IntN(2000)
	}
	if p.Calm {
		return l
	}
	switch random.IntN(6) {
	case 0:
		l.CutSent = 1 + random.IntN(2000)
	case 1:
		l.CutGot = 1 + random.IntN(1<<(4+random.IntN(12)))
	}
	return l
}

func (p *plan) randomRequest(random *rand.Rand, token string) request {
	r := request{
		Token: token, Responses: random.IntN(2) == 0, Stream: random.IntN(3) > 0, Usage: random.IntN(2) == 0,
		Choices: 1, Prompt: random.IntN(500), Script: randomScript(random, p.Calm),
		After: time.Duration(random.IntN(2000)) * time.Millisecond,
	}
	if random.IntN(10) == 0 {
		r.Prompt = random.IntN(60_000)
	}
	r.Follow = r.Responses && random.IntN(3) == 0
	if !r.Responses && random.IntN(4) == 0 {
		r.Choices = 1 + random.IntN(4)
	}
	if p.Calm {
		return r
	}
	switch random.IntN(14) {
	case 0:
		r.LeaveAt = 1 + random.IntN(1<<random.IntN(14))
	case 1, 2:
		r.LeaveIn = time.Duration(random.Int64N(int64(time.Millisecond) << random.IntN(13)))
	case 3:
		r.Trickle = time.Duration(1+random.IntN(2000)) * time.Millisecond
	case 4:
		r.Stuck = true
	case 5:
		r.Bad = badBodies[random.IntN(len(badBodies))]
	case 6:
		r.CancelIn = time.Duration(1+random.IntN(2000)) * time.Millisecond
	}
	if r.Choices == 1 {
		// Choices share a lock, on which one waits for another's slow client in a
		// way that virtual time does not know.
		switch random.IntN(8) {
		case 0:
			r.SlowBy = time.Duration(1+random.IntN(50)) * time.Millisecond
		case 1:
			r.StopAt = 1 + random.IntN(1<<random.IntN(15))
			r.StopFor = time.Duration(random.IntN(100)) * time.Second
		}
	}
	return r
}

func randomLife(random *rand.Rand) life {
	l := life{Partial: random.IntN(300)}
	after := func() time.Duration {
		return time.Duration(random.Int64N(int64(time.Millisecond)<<random.IntN(14))) + 1
	}
	switch random.IntN(9) {
	case 0:
		l.Unstartable = true
	case 1, 2, 3:
		l.KillAfter = after()
	case 4:
		l.HangAfter, l.HangFor = after(), after()
	case 5:
		l.HangAfter, l.HangFor = after(), forever
	case 6:
		l.Faults.DieAfter = 1 + random.IntN(200)
	case 7:
		l.Faults.DieAt = methods[random.IntN(len(methods))]
	case 8:
		l.Faults.Mute = []string{methods[random.IntN(len(methods))]}
	}
	if random.IntN(3) == 0 {
		l.Faults.Overload = random.IntN(12)
	}
	l.Faults.Delay = time.Duration(random.IntN(2)) * time.Millisecond
	return l
}

// methods are those of which one may be fatal, or never answered.
var methods = []string{"initialize", "account/read", "thread/start", "thread/inject_items", "turn/start", "turn/interrupt", "thread/unsubscribe"}

func (p *plan) randomEvents(random *rand.Rand) {
	kinds := []string{reloadSame, reloadChanged, reloadFailed, restart, look, killAll}
	if p.Calm {
		kinds = kinds[:5]
	}
	for range random.IntN(4) {
		p.Events = append(p.Events, event{
			At:   time.Duration(random.IntN(8000)) * time.Millisecond,
			What: kinds[random.IntN(len(kinds))],
		})
	}
	if !p.Calm && random.IntN(4) == 0 {
		p.Events = append(p.Events, event{At: time.Duration(random.IntN(8000)) * time.Millisecond, What: shutDown})
	}
}
