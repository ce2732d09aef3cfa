package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

const (
	// requestLimit bounds a request. Reaching it is a fault: nothing may hang.
	requestLimit = 2 * time.Minute
	// maxAttempts bounds the attempts to send a request that is lost with a listener.
	maxAttempts = 20
)

// client sends requests of all kinds one by one.
type client struct {
	*soak
	r      *rand.Rand
	number int
	asked  int
	user   string
	model  string // that all requests of a kind name
	http   *http.Client
}

// newClient returns a client for HTTP/1 or for HTTP/2 without TLS.
func (s *soak) newClient(number int, r *rand.Rand) *client {
	// Each HTTP/1 request has its own connection: a reload may close an idle one during a write.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	if number%2 == 1 {
		transport.DisableKeepAlives = false
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	return &client{soak: s, r: r, number: number, user: users[number%len(users)], http: &http.Client{Transport: transport}}
}

type kind struct {
	name   string
	weight int
	do     func(c *client)
}

var kinds = []kind{
	{"chat", 8, (*client).chat},
	{"chat, two choices", 2, (*client).choices},
	{"tools", 5, (*client).tools},
	{"blocks", 4, (*client).blocks},
	{"responses", 5, (*client).responses},
	{"chain of responses", 3, (*client).chain},
	{"messages", 4, (*client).messages},
	{"messages with a call", 2, (*client).messageTools},
	{"ollama", 3, (*client).ollama},
	{"background", 3, (*client).background},
	{"websocket", 3, (*client).socket},
	{"leaving", 6, (*client).leaving},
	{"slow reader", 1, (*client).slowReader},
	{"bad body", 3, (*client).badBody},
	{"half a body", 1, (*client).halfBody},
}

// run sends requests of some kinds until ctx ends.
func (c *client) run(ctx context.Context, kinds []kind) {
	defer c.http.CloseIdleConnections()
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for pause(ctx, c.r, 0, 400*time.Millisecond) {
		n := c.r.IntN(total)
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				c.counts.add(func(counts *counts) { counts.byKind[k.name]++ })
				c.model = c.meters.model(c.r)
				k.do(c)
				break
			}
		}
	}
}

func (c *client) id() string {
	c.asked++
	return fmt.Sprintf("client-%d-%d", c.number, c.asked)
}

// query is a request with the wanted answer.
type query struct {
	what   string // description for a fault
	path   string
	body   any
	header map[string]string
	stream bool
	slow   bool // read the answer slowly
	want   []said
}

// ask sends a query, and reports whether the answer is the wanted one.
func (c *client) ask(q query) (*apiclient.Answer, bool) {
	began := time.Now()
	c.counts.add(func(counts *counts) { counts.asked++ })
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	response, err := c.send(ctx, http.MethodPost, q.path, encode(q.body), q.header)
	if err != nil {
		c.counts.fault(fmt.Sprintf("%s: %v", q.what, err))
		return nil, false
	}
	defer response.Body.Close()
	body := io.Reader(response.Body)
	if q.slow {
		body = &slowly{body, c.r}
	}
	got, err := readAnswer(body, response.StatusCode, q)
	if said := c.meters.check(c.model, began, response); said != "" {
		c.counts.fault(fmt.Sprintf("%s (%s): %s", q.what, c.user, said))
	}
	return got, c.judge(q, began, got, err)
}

// judge counts an answer. A proper failure is no fault if there was trouble.
func (c *client) judge(q query, began time.Time, got *apiclient.Answer, err error) bool {
	fault := ""
	switch {
	case err != nil:
		fault = err.Error()
	case got.Failed && !c.trouble.allows(got.Code, began, time.Now()):
		fault = "failed without such trouble with " + got.Code
	case got.Failed && !beginOf(got.Choices, q.want):
		fault = fmt.Sprintf("failed, and had said %+v", got.Choices)
	case !got.Failed && !equal(got.Choices, q.want):
		fault = fmt.Sprintf("got %+v", got.Choices)
	}
	if fault != "" {
		c.counts.fault(fmt.Sprintf("%s (%s, %s): %s; wanted %+v", q.what, c.user, time.Since(began).Round(time.Millisecond), fault, q.want))
		return false
	}
	c.counts.add(func(counts *counts) {
		if got.Failed {
			counts.failed++
			counts.failures[got.Code]++
			return
		}
		counts.whole++
	})
	c.outages.answered(!got.Failed, began)
	return !got.Failed
}

// send sends a request. It retries a request that was lost with a listener.
func (c *client) send(ctx context.Context, method, path, body string, header map[string]string) (*http.Response, error) {
	var last error
	for range maxAttempts {
		request, err := http.NewRequestWithContext(ctx, method, c.site.URL+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+keyOf(c.user))
		request.Header.Set("Content-Type", "application/json")
		for name, value := range header {
			request.Header.Set(name, value)
		}
		c.counts.add(func(counts *counts) { counts.opened++ })
		response, err := c.http.Do(request)
		if err == nil || !lost(err) {
			return response, err
		}
		last = err
		c.counts.add(func(counts *counts) { counts.lost++ })
	}
	return nil, fmt.Errorf("after %d attempts: %w", maxAttempts, last)
}

// lost reports whether a request was lost with the listener of an old configuration.
func lost(err error) bool {
	text := err.Error()
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		strings.Contains(text, "GOAWAY") || strings.Contains(text, "REFUSED_STREAM")
}

// slowly reads a few bytes at a time.
type slowly struct {
	body io.Reader
	r    *rand.Rand
}

func (s *slowly) Read(p []byte) (int, error) {
	time.Sleep(time.Duration(s.r.IntN(10)) * time.Millisecond)
	return s.body.Read(p[:min(len(p), 1+s.r.IntN(4096))])
}
