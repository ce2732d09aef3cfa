package simulation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// hog is a user who takes all of one thing, while another, who needs little, must be served.
type hog struct {
	At    time.Duration
	For   time.Duration
	What  string // one of hogs
	Count int    // requests at once
	HTTP2 bool

	Background request // what a hog of background responses sends
}

// hogs are what a hog does again and again: it stores what fills the store, or sends a request and
// neither reads the answer nor ends the body. C is a large conversation, and R a large response.
// E are the events of a large response. A hog of turns is a client of its own, see [plan.addTurnHog].
var hogs = []string{
	hogStores,
	hogTurns,
	hogSockets,
	hogBackground,
	"GET /v1/conversations/C",
	"GET /v1/conversations/C/items",
	"GET /v1/conversations/C/items/msg_1",
	"POST /v1/conversations",
	"POST /v1/conversations/C",
	"POST /v1/conversations/C/items",
	"GET /v1/responses/R",
	"GET /v1/responses/E?stream=true",
	"GET /v1/responses/R/input_items",
	"POST /v1/responses",
	"POST /v1/responses/input_tokens",
	"POST /v1/chat/completions",
	"POST /v1/messages",
	"POST /v1/messages/count_tokens",
	"GET /v1/models",
}

const (
	hogStores  = "stores"
	hogTurns   = "turns"
	hogSockets = "WebSockets"
	// hogBackground are background responses with large instructions, whose first answers are not
	// read, and that end meanwhile.
	hogBackground = "background responses"
	// hogLeavers are clients that leave while Codex decodes their images, see [plan.addLeavers].
	hogLeavers = "leavers"
)

const (
	hogUser    = "hog"
	modestUser = "modest"
	// largeInstructions is the size of a background response's instructions, nearly a whole body.
	largeInstructions = 48 << 10
	// hogSize is the size of what a hog reads, of which the store has room for two.
	hogSize = 24 << 20
	// answerMemory is that of the gateway.
	answerMemory = 256 << 20
	// manySockets are more WebSockets than the gateway serves.
	manySockets = 1100
	// manyTurns are the turns at once of a gateway, whose hog sends a third more requests.
	manyTurns = 64
)

// addHogs adds hogs to one plan in eight, drawn apart: the rest of a plan does not depend on them.
func (p *plan) addHogs() {
	random := rand.New(rand.NewPCG(p.Seed, 12))
	if random.IntN(8) > 0 {
		return
	}
	for range 1 + random.IntN(2) {
		h := hog{
			At: time.Duration(random.IntN(3000)) * time.Millisecond, For: time.Duration(1+random.IntN(40)) * time.Second,
			What: hogs[random.IntN(len(hogs))], Count: 5 + random.IntN(25), HTTP2: random.IntN(2) == 0,
		}
		if h.What == hogBackground {
			h.Background = request{
				Token: fmt.Sprintf("%s%d-hog-%d", tokenPrefix, p.Seed, len(p.Hogs)), API: apiclient.Responses, Choices: 1,
				Script: &script{Texts: []int{100}, Delta: 10, End: endWell},
			}
		}
		p.Hogs = append(p.Hogs, h)
		if h.What == hogTurns {
			p.addTurnHog(random, h)
		}
	}
	// Each of the other users may have one body, also beside others.
	p.Config.BodyMemory = max(p.Config.BodyMemory, 16*p.Config.MaxBody)
}

// addTurnHog adds a client that fills the turns and the queue with turns that do not end, and one
// with a turn after the other, which the queue must not refuse, see [run.explained]. The other
// clients are one user, whose share leaves room for both.
func (p *plan) addTurnHog(random *rand.Rand, h hog) {
	p.Config.Concurrent, p.Config.PerUser, p.Config.QueueWait = manyTurns, 0, max(p.Config.QueueWait, time.Second)
	for i := range p.Clients {
		p.Clients[i].User = "user-0"
	}
	add := func(c client, requests int, first time.Duration, each request) {
		c.HTTP2, c.Links = h.HTTP2, []link{{Room: 1 << 16}}
		for i := range requests {
			each.Token = fmt.Sprintf("%s%d-%d-%d", tokenPrefix, p.Seed, len(p.Clients), i)
			each.API, each.Stream, each.Choices = apiclient.Chat, random.IntN(2) == 0, 1
			if each.After = 0; i == 0 {
				each.After = first
			}
			c.Requests = append(c.Requests, each)
		}
		p.Clients = append(p.Clients, c)
	}
	silent, short := &script{Texts: []int{10}, Delta: 10, End: endSilent}, &script{Texts: []int{100}, Delta: 10, End: endWell}
	add(client{User: hogUser, Parallel: true}, manyTurns*4/3, h.At, request{LeaveIn: h.For, Script: silent})
	add(client{User: modestUser}, 5, h.At+time.Second, request{Script: short})
}

// hog plays a hog, and the other user meanwhile.
func (r *run) hog(h hog) {
	time.Sleep(h.At)
	r.trace.add("a hog: %s", h.What)
	ctx, cancel := context.WithTimeout(context.Background(), h.For)
	defer cancel()
	client := r.httpClient(h.HTTP2, func() link { return link{Room: 1 << 12} })
	defer client.CloseIdleConnections()
	conversation, response := r.putLarge()
	events := r.putEvents()
	var all sync.WaitGroup
	if h.What == hogSockets {
		h.Count = manySockets
	}
	for range h.Count {
		all.Go(func() {
			for ctx.Err() == nil {
				h.take(ctx, r, client, conversation, response, events)
				time.Sleep(2 * time.Second)
			}
		})
	}
	r.modest(ctx)
	cancel()
	all.Wait()
}

// largeItem and largeResponse are parts of what a hog stores. They are made once.
var (
	largeItem     = json.RawMessage(`{"id":"msg_1","type":"message","content":"` + strings.Repeat("x", hogSize/20) + `"}`)
	largeResponse = json.RawMessage(`{"x":"` + strings.Repeat("x", hogSize) + `"}`)
)

// putLarge stores a large conversation and a large response of the hog.
func (r *run) putLarge() (conversation, response string) {
	large := &objects.Entry{User: hogUser, Response: json.RawMessage(`{}`), Input: slices.Repeat([]json.RawMessage{largeItem}, 20)}
	suffix := responseid.NewSuffix(time.Now())
	conversation, response = responseid.ConversationPrefix+suffix, responseid.Prefix+suffix
	whole := &objects.Entry{User: hogUser, Response: largeResponse, Input: large.Input[:1]}
	for id, entry := range map[string]*objects.Entry{conversation: large, response: whole} {
		if err := r.store.Put(context.Background(), id, entry); err != nil {
			r.fail("a hog cannot store %s: %v", id, err)
		}
	}
	return conversation, response
}

// putEvents makes a background response of the hog with a large event.
func (r *run) putEvents() (response string) {
	response = responseid.Prefix + responseid.NewSuffix(time.Now())
	log := r.running.Logs.Open(hogUser, response)
	log.Append("response.created", largeResponse)
	log.End()
	return response
}

func (h *hog) background(r *run) []byte {
	p := r.newClient(&client{User: hogUser, Links: []link{{Room: 1 << 12}}})
	s := p.prepare(&h.Background)
	r.expect(hogUser, &h.Background, s.given)
	return append([]byte(`{"background":true,"instructions":"`+strings.Repeat("x", largeInstructions)+`",`), s.goodBody("")[1:]...)
}

// take does what the hog does once, until ctx ends or the gateway ends it.
func (h hog) take(ctx context.Context, r *run, client *http.Client, conversation, response, events string) {
	switch h.What {
	case hogStores:
		r.putLarge()
		return
	case hogTurns: // its client takes them
		return
	case hogLeavers:
		r.leave(ctx, client)
		return
	case hogSockets:
		if socket, _, err := dialSocket(ctx, client, hogUser); err == nil {
			<-ctx.Done()
			_ = socket.CloseNow()
		}
		return
	}
	method, path, _ := strings.Cut(h.What, " ")
	path = strings.NewReplacer("C", conversation, "R", response, "E", events).Replace(path)
	body := io.Reader(http.NoBody)
	switch {
	case h.What == hogBackground:
		method, path, body = http.MethodPost, apiclient.Responses.String(), bytes.NewReader(h.background(r))
	case method == http.MethodPost:
		never, end := io.Pipe()
		defer end.Close()
		context.AfterFunc(ctx, func() { _ = end.Close() }) // for which the client waits
		body = io.MultiReader(strings.NewReader(strings.Repeat(" ", int(r.plan.Config.MaxBody/2))), never)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, body)
	if err != nil {
		panic(err) // the address is a constant
	}
	request.Header.Set("X-User", hogUser)
	answer, err := client.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return
	}
	if path == "/v1/responses/"+response || strings.HasPrefix(path, "/v1/responses/"+events) && readToEvent(answer.Body) {
		r.unread.Add(hogSize)
		defer r.unread.Add(-hogSize)
	}
	select { // and nothing is read
	case <-ctx.Done():
	case <-time.After(gateway.WriteTimeout - time.Second):
	}
}

// readToEvent reads a stream to the beginning of its first event, and reports whether there is one.
func readToEvent(stream io.Reader) bool {
	lines := bufio.NewReaderSize(stream, 16)
	for {
		line, err := lines.ReadString('\n')
		if strings.HasPrefix(line, "event: ") || err != nil {
			return err == nil
		}
	}
}

func dialSocket(ctx context.Context, client *http.Client, user string) (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(ctx, "http://gateway/v1/responses", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"X-User": {user}}})
}

// modest is a user who creates a conversation, changes it, reads it and opens a WebSocket until
// ctx ends, which must always work.
func (r *run) modest(ctx context.Context) {
	client := r.httpClient(false, func() link { return link{Room: 1 << 20} })
	defer client.CloseIdleConnections()
	ask := func(method, path, body string) []byte {
		request, err := http.NewRequestWithContext(context.Background(), method, "http://gateway"+path, strings.NewReader(body))
		if err != nil {
			panic(err) // the address is known
		}
		request.Header.Set("X-User", modestUser)
		began := time.Now()
		answer, err := client.Do(request)
		if err != nil {
			if r.exit.Err() == nil {
				r.fail("beside a hog: %s %s: %v", method, path, err)
			}
			return nil
		}
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		if took := time.Since(began); r.exit.Err() == nil && (answer.StatusCode != http.StatusOK || err != nil || took > time.Second) {
			r.fail("beside a hog: %s %s says %d, %v, after %s: %.300q", method, path, answer.StatusCode, err, took, got)
		}
		return got
	}
	id := gjson.GetBytes(ask(http.MethodPost, "/v1/conversations", `{"items":[{"role":"user","content":"x"}]}`), "id").Str
	for ctx.Err() == nil && r.exit.Err() == nil {
		ask(http.MethodPost, "/v1/conversations/"+id, fmt.Sprintf(`{"metadata":{"at":"%d"}}`, time.Now().Unix()))
		ask(http.MethodGet, "/v1/conversations/"+id+"/items", "")
		if socket, answer, err := dialSocket(context.Background(), client, modestUser); err == nil {
			_ = socket.CloseNow()
		} else if r.exit.Err() == nil {
			r.fail("beside a hog: a WebSocket: %v, %+v", err, answer)
		}
		r.checkShares()
		time.Sleep(500 * time.Millisecond)
	}
}

// checkShares checks that what all hold leaves something to others.
func (r *run) checkShares() {
	r.mu.Lock()
	defer r.mu.Unlock()
	codex := 0
	mostUnread := answerMemory * 3 / 4 * int64(len(r.gateways)) // a reload makes a gateway with a memory of its own
	for _, g := range r.gateways {
		held, bodies := g.Held(), r.plan.Config.BodyMemory-r.plan.Config.MaxBody
		codex += held.Codex
		if held.Answers > answerMemory*3/4 || r.unread.Load() > mostUnread || held.Bodies >= bodies || held.Places > 1500 {
			r.failures = append(r.failures, fmt.Sprintf("beside a hog: %+v is held, of %d bytes of bodies, and %d wait to be read", held, bodies, r.unread.Load()))
		}
	}
	if computes := r.decoding.Load(); int64(codex) < computes*leaverMemory {
		r.failures = append(r.failures, fmt.Sprintf("%d MiB are claimed while Codex decodes %d images", codex, computes))
	}
}
