package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// leaving starts a stream and leaves before its header or after some bytes, which must be right.
func (c *client) leaving() {
	id := c.id()
	text, _ := c.text(id, 2000)
	prompt := fmt.Sprintf("chunk=%d; delay=10ms; verbatim:%s", 1+c.r.IntN(50), text)
	ctx, leave := context.WithTimeout(context.Background(), requestLimit)
	defer leave()
	c.counts.add(func(counts *counts) { counts.asked, counts.left = counts.asked+1, counts.left+1 })
	if c.r.IntN(3) == 0 {
		timer := time.AfterFunc(time.Duration(c.r.IntN(100))*time.Millisecond, leave)
		defer timer.Stop()
	}
	began := time.Now()
	response, err := c.send(ctx, "POST", pathChat, encode(c.chatRequest(true, message("user", prompt))), nil)
	if err != nil {
		if ctx.Err() == nil {
			c.counts.fault(fmt.Sprintf("leaving %s: %v", id, err))
		}
		return
	}
	defer response.Body.Close()
	begin, err := io.ReadAll(io.LimitReader(response.Body, 1+c.r.Int64N(4000)))
	if ctx.Err() != nil || err != nil {
		return // it may have ended anywhere
	}
	// Only the complete events are checked.
	want := []said{{Text: text, Finish: "stop"}}
	var got *apiclient.Answer
	if response.StatusCode == http.StatusOK {
		got, err = apiclient.Read(begin, apiclient.Chat, true, 1)
	} else {
		got, err = apiclient.ReadError(begin, apiclient.Chat)
	}
	switch {
	case err != nil && response.StatusCode == http.StatusOK:
		c.counts.fault(fmt.Sprintf("leaving %s: %v", id, err))
	case got.Failed && !c.trouble.allows(got.Code, began, time.Now()):
		c.counts.fault(fmt.Sprintf("leaving %s: failed without such trouble with %s", id, got.Code))
	case !got.Failed && !beginOf(got.Choices, want):
		c.counts.fault(fmt.Sprintf("leaving %s: got %+v, wanted %q", id, got.Choices, text))
	}
}

// badBodies are invalid bodies with the codes of their refusals.
var badBodies = []struct{ path, body, code string }{
	{pathChat, `{"model":"gpt-5","messages":[{"role":"user","con`, "invalid_json"},
	{pathChat, `{"model":"gpt-5","messages":"hello"}`, "invalid_type"},
	{pathChat, `{"model":"gpt-5"}`, "missing_required_parameter"},
	{pathChat, `{"model":"gpt-5","n":0,"messages":[{"role":"user","content":"say:x"}]}`, "invalid_value"},
	{pathChat, strings.Repeat("[", 100_000), "invalid_json"},
	{pathChat, `{"model":"gpt-5","messages":[{"role":"user","content":"` + strings.Repeat("x", maxBody) + `"}]}`, "request_too_large"},
	{pathResponses, `{"model":"gpt-5","input":7}`, "invalid_type"},
	{pathResponses, `{"model":"gpt-5","input":"x","previous_response_id":"resp_none"}`, "previous_response_not_found"},
	{pathResponses, ``, "invalid_json"},
}

// badBody sends an invalid body, which must be refused whatever the state of codex.
func (c *client) badBody() {
	bad := badBodies[c.r.IntN(len(badBodies))]
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	c.counts.add(func(counts *counts) { counts.asked++ })
	response, err := c.send(ctx, "POST", bad.path, bad.body, nil)
	if err != nil {
		c.counts.fault(fmt.Sprintf("a body that is %s: %v", bad.code, err))
		return
	}
	defer response.Body.Close()
	got, err := readAnswer(response.Body, response.StatusCode, query{path: bad.path})
	if err != nil || got.Code != bad.code {
		c.counts.fault(fmt.Sprintf("a body that is %s: %+v %v", bad.code, got, err))
		return
	}
	c.counts.add(func(counts *counts) { counts.whole++ })
}

// halfBody sends a part of a body and then stops or leaves.
func (c *client) halfBody() {
	c.counts.add(func(counts *counts) {
		counts.asked, counts.opened, counts.left = counts.asked+1, counts.opened+1, counts.left+1
	})
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(c.site.URL, "http://"), requestLimit)
	switch {
	case err != nil && lost(err):
		c.counts.add(func(counts *counts) { counts.lost++ })
		return
	case err != nil:
		c.counts.fault(fmt.Sprintf("half a body: %v", err))
		return
	}
	defer conn.Close()
	// Nothing is expected: it may be lost with its listener or cut by a limit.
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: soak\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n%s",
		pathChat, keyOf(c.user), strings.Repeat("{", c.r.IntN(900)))
	time.Sleep(time.Duration(c.r.IntN(3000)) * time.Millisecond)
}
