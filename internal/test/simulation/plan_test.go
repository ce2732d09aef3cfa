package simulation

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// plan is everything that is decided before a run.
type plan struct {
	Seed    uint64
	Calm    bool // there are no faults, so no request may fail
	Talks   bool // most requests are of conversations that go on
	Config  config
	Servers int           // number of app-servers in the first configuration
	Latency time.Duration // maximum latency of an app-server for a message
	Lives   []life        // instances in the order of their starts; later ones have no faults
	Clients []client
	Events  []event
	Hogs    []hog
	Longs   []longTalk
	Meters  []spentMeter
	Linger  time.Duration // how long an interrupted turn goes on
}

// config holds the limits of a gateway.
type config struct {
	Concurrent, Queue int
	PerUser           int // 0 for the share of the queue
	QueueWait         time.Duration
	Idle              time.Duration
	Keepalive         time.Duration
	Drain             time.Duration
	MaxBody           int64
	BodyMemory        int64
	Keep              conversation.Limits
	Window            int     // tokens of longModel
	PerToken          float64 // tokens that longModel counts for each one that the gateway counts
	Shorten           bool
}

// heaviest returns the maximum choices of a request, of which chat completions have at most eight.
func (c *config) heaviest() int {
	if c.PerUser > 0 {
		return min(c.PerUser, c.Concurrent, 8)
	}
	return min(c.Concurrent, 8)
}

type client struct {
	User     string
	HTTP2    bool
	Parallel bool // its requests are concurrent
	Links    []link
	Requests []request
}

// request is one request of a client with the client's behaviour.
type request struct {
	Token    string
	After    time.Duration // pause before it
	API      apiclient.API
	Model    string // empty for one without a meter of its own
	Stream   bool
	Usage    bool // include_usage in a stream of chat completions
	Thinking bool // thinking in messages
	Choices  int
	Follow   bool          // follow the client's last response, if possible
	FollowUp string        // how a chat completion or a message follows an earlier one
	Prompt   int           // bytes
	Bad      string        // kind of an invalid body, from badBodies
	Trickle  time.Duration // pause between pieces of the body
	Stuck    bool          // the body never ends
	LeaveAt  int           // bytes of the answer before the client leaves, if not 0
	LeaveIn  time.Duration // time before the client leaves, if not 0
	SlowBy   time.Duration // pause between reads of the answer
	StopAt   int           // bytes of the answer before it stops reading for StopFor, if not 0
	StopFor  time.Duration
	CancelIn time.Duration // time before the response is cancelled over another connection, if not 0
	Script   *script
	Unstored bool  // store is false
	Ends     []end // how further turns for it ended
}

// String returns the whole plan.
func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan of seed %d: calm %t, talks %t, %d app-servers, latency %s, %+v\n", p.Seed, p.Calm, p.Talks, p.Servers, p.Latency, p.Config)
	for i := range p.Lives {
		fmt.Fprintf(&b, "  app-server %d:%s\n", i, &p.Lives[i])
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "  %s: %s\n", e.At, e.What)
	}
	for _, m := range p.Meters {
		fmt.Fprintf(&b, "  spent: %+v\n", m)
	}
	for _, h := range p.Hogs {
		fmt.Fprintf(&b, "  hog %+v\n", h)
	}
	for _, l := range p.Longs {
		fmt.Fprintf(&b, "  long conversation of %s over %s with %s, HTTP/2 %t, links %+v\n", l.User, l.API, l.Keeps, l.HTTP2, l.Links)
		for i := range l.Requests {
			fmt.Fprintf(&b, "    %s script: %+v\n", &l.Requests[i], *l.Requests[i].Script)
		}
	}
	for _, c := range p.Clients {
		fmt.Fprintf(&b, "  client of %s, HTTP/2 %t, parallel %t, links %+v\n", c.User, c.HTTP2, c.Parallel, c.Links)
		for i := range c.Requests {
			fmt.Fprintf(&b, "    %s script: %+v\n", &c.Requests[i], *c.Requests[i].Script)
		}
	}
	return b.String()
}

// String lists what differs from the default.
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

type event struct {
	At   time.Duration
	What string
}

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
	p := &plan{Seed: seed, Calm: random.IntN(10) == 0, Talks: random.IntN(2) == 0, Servers: 1 + random.IntN(2)}
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
	p.addHogs()
	p.addLeavers()
	p.addLongTalks()
	p.addMeters()
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
	c.Keep = conversation.Limits{
		Max: random.IntN(13), MaxBytes: 1 << (12 + random.IntN(10)),
		Idle:   time.Duration(1+random.IntN(60)) * time.Second,
		Parked: time.Duration(random.IntN(60)) * time.Second,
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
	requests := 1 + random.IntN(5)
	if p.Talks {
		requests, c.Parallel = 2+random.IntN(10), random.IntN(4) == 0
	}
	for i := range requests {
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
		Token: token, API: apiclient.API(random.IntN(3)), Stream: random.IntN(3) > 0, Usage: random.IntN(2) == 0,
		Choices: 1, Prompt: random.IntN(500), Script: randomScript(random, p.Calm),
		After: time.Duration(random.IntN(2000)) * time.Millisecond,
	}
	if random.IntN(10) == 0 {
		r.Prompt = random.IntN(60_000)
	}
	r.Follow = r.API == apiclient.Responses && random.IntN(3) == 0
	if r.API == apiclient.Responses && p.Talks {
		r.API = apiclient.Chat
	}
	r.Thinking = r.API == apiclient.Messages && random.IntN(2) == 0
	if r.API != apiclient.Responses && random.IntN(4) > 0 {
		r.FollowUp = followUps[random.IntN(len(followUps))]
		r.After += late(random)
	}
	if r.API == apiclient.Chat && !p.Talks && random.IntN(4) == 0 {
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
		// Choices share a lock. Waiting for it while another choice waits for a
		// slow client is not durably blocking.
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

// methods are those that may be fatal or never answered.
var methods = []string{"initialize", "getAuthStatus", "account/read", "thread/start", "thread/inject_items", "turn/start", "turn/interrupt", "thread/unsubscribe"}

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
