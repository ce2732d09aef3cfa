package simulation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// player is a client that sends the requests of the plan.
type player struct {
	of     *run
	plan   *client
	http   *http.Client
	dials  atomic.Int64
	strict bool // no request may fail

	mu   sync.Mutex
	last string // id of the last response that can be followed
	said string // history up to it as the app-server gets it
	talk *talk  // last conversation that can be followed; guarded by the run
}

func (r *run) newClient(c *client) *player {
	p := &player{of: r, plan: c}
	p.http = r.httpClient(c.HTTP2, func() link {
		return c.Links[int(p.dials.Add(1)-1)%len(c.Links)]
	})
	return p
}

// httpClient returns an HTTP client over the network of the run.
func (r *run) httpClient(http2 bool, next func() link) *http.Client {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := r.network.dial(ctx, next())
			if err != nil {
				return nil, err
			}
			if dialled, ok := ctx.Value(dialledKey{}).(*atomic.Pointer[clientConn]); ok {
				dialled.Store(c)
			}
			return c, nil
		},
		Protocols: new(http.Protocols), DisableCompression: true,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 128 << 10},
	}
	if http2 {
		t.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t.Protocols.SetHTTP1(true)
	}
	return &http.Client{Transport: t}
}

// dialledKey is the context key under which a request gets its connection.
type dialledKey struct{}

func (p *player) run() {
	defer p.http.CloseIdleConnections()
	var all sync.WaitGroup
	for i := range p.plan.Requests {
		time.Sleep(p.plan.Requests[i].After)
		if p.plan.Parallel {
			all.Go(func() { p.ask(&p.plan.Requests[i]) })
		} else {
			p.ask(&p.plan.Requests[i])
		}
	}
	all.Wait()
}

// answer is what a client got.
type answer struct {
	request  *request
	sending  *sending
	user     string
	status   int
	header   http.Header
	length   int64
	body     []byte
	err      error  // why there is no complete answer
	excused  bool   // the client itself is the reason
	canceled []byte // answer to the cancellation, if there was one
	begin    time.Time
}

// longest bounds the time of a request.
const longest = 30 * time.Minute

func (p *player) ask(q *request) {
	p.of.trace.add("%s: asked by %s", q.Token, p.plan.User)
	s := p.prepare(q)
	a := p.fetch(s)
	q = a.request
	p.of.trace.add("%s: %d after %s, %d bytes, error %v, excused %t", q.Token, a.status, time.Since(a.begin), len(a.body), a.err, a.excused)
	p.of.check(a, p.strict)
	p.remember(a)
	if q.API != apiclient.Responses {
		p.converse(a)
	}
}

// follow returns the id of the response that q follows, if any, and what the model gets before it.
func (p *player) follow(q *request) (previous, said string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !q.Follow {
		return "", ""
	}
	return p.last, p.said
}

// remember records a response to be followed. It has no calls, which would need results.
func (p *player) remember(a *answer) {
	if a.request.API != apiclient.Responses || a.status != http.StatusOK || a.err != nil || a.request.Bad != "" {
		return
	}
	h, err := a.read()
	if err != nil || !h.Ended || h.Failed || h.Choices[0].Finish != "stop" {
		return
	}
	said := a.sending.given
	for _, text := range h.Texts {
		said += text + "\x00"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.said = h.ID, said
}

// fetch sends a request and reads the answer as planned.
func (p *player) fetch(s *sending) *answer {
	q := &s.request
	a := &answer{request: q, sending: s, user: p.plan.User, begin: time.Now()}
	previous, said := p.follow(q)
	s.given = said + s.given
	p.of.expect(p.plan.User, q, s.given)
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	var leaves atomic.Bool
	leave := func() {
		leaves.Store(true)
		cancel()
	}
	if q.LeaveIn > 0 {
		defer time.AfterFunc(q.LeaveIn, leave).Stop()
	}
	var used atomic.Pointer[clientConn]
	defer func() {
		c := used.Load()
		a.excused = a.excused || leaves.Load() || c != nil && c.left()
	}()
	ctx = context.WithValue(ctx, dialledKey{}, &used)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.(*clientConn); ok {
			used.Store(c)
		}
	}})
	body := s.body(previous)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+cmp.Or(s.path, q.API.String()), q.reader(ctx, body))
	if err != nil {
		panic(err) // the address is a constant
	}
	if q.Trickle == 0 && !q.Stuck {
		request.ContentLength = int64(len(body))
	}
	request.Header.Set("X-User", p.plan.User)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.http.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer response.Body.Close()
	a.status, a.header, a.length = response.StatusCode, response.Header, response.ContentLength
	p.read(q, a, response.Body, leave)
	return a
}

func (p *player) read(q *request, a *answer, body io.Reader, leave func()) {
	var canceling sync.WaitGroup
	defer canceling.Wait()
	due := time.Time{}
	if q.CancelIn > 0 {
		due = a.begin.Add(q.CancelIn)
	}
	buf, begin := make([]byte, 4<<10), time.Now()
	for stopped := false; ; {
		n, err := body.Read(buf)
		a.body = append(a.body, buf[:n]...)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.err = err
				// HTTP/1 loses an answer's rest, with the connection, while sending a refused body.
				a.excused = a.excused || q.Trickle > 0 && a.status >= http.StatusBadRequest ||
					q.SlowBy > 0 && readsTooSlowly(len(a.body), time.Since(begin))
			}
			return
		}
		if q.LeaveAt > 0 && len(a.body) >= q.LeaveAt {
			leave()
		}
		if !due.IsZero() && !time.Now().Before(due) {
			due = time.Time{}
			if id := responseID.FindSubmatch(a.body); id != nil {
				canceling.Go(func() { a.canceled = p.cancel(string(id[1])) })
			}
		}
		if q.StopAt > 0 && len(a.body) >= q.StopAt && !stopped {
			stopped = true
			time.Sleep(q.StopFor)
			a.excused = a.excused || q.StopFor > 20*time.Second
		}
		if q.SlowBy > 0 {
			time.Sleep(q.SlowBy)
		}
	}
}

// readsTooSlowly reports whether n bytes in a time are less than the allowed 64 KiB in 30 seconds.
func readsTooSlowly(n int, in time.Duration) bool {
	const piece, allowed = 64 << 10, 30 * time.Second
	return in >= allowed && int64(n)*int64(allowed) < int64(in)*piece
}

var responseID = regexp.MustCompile(`"response":\{"id":"(resp_[^"]+)"`)

// cancel cancels a response over another connection and returns the answer.
func (p *player) cancel(id string) []byte {
	status, body, err := p.elsewhere(http.MethodPost, "/v1/responses/"+id+"/cancel")
	if err != nil {
		if p.of.exit.Err() == nil {
			p.of.fail("cancelling %s: %v", id, err)
		}
		return nil
	}
	p.of.trace.add("cancelling %s: %d", id, status)
	return body
}

// elsewhere sends a request over a connection without faults.
func (p *player) elsewhere(method, path string) (status int, body []byte, err error) {
	client := p.of.httpClient(false, func() link { return link{Room: 1 << 20} })
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("X-User", p.plan.User)
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(response.Body); err != nil {
		return 0, nil, fmt.Errorf("reading: %w", err)
	}
	return response.StatusCode, b.Bytes(), nil
}
