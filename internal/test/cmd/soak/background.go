package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// background requests a background response, reads or follows it to its end, and deletes it.
func (c *client) background() {
	id := c.id()
	text, prompt := c.text(id, 2000)
	what, began := "background "+id, time.Now()
	q := query{what: what, path: pathResponses, want: []said{{Text: text, Finish: "stop"}}}
	status, begun := c.exchange(http.MethodPost, pathResponses, encode(fields{"model": c.model, "background": true, "input": prompt}))
	if status != http.StatusOK {
		got, err := apiclient.ReadError(begun, apiclient.Responses)
		c.judge(q, began, got, err)
		return
	}
	var response struct {
		ID, Status string
	}
	if err := json.Unmarshal(begun, &response); err != nil || response.ID == "" {
		c.counts.fault(fmt.Sprintf("%s began as %.500s", what, begun))
		return
	}
	path := pathResponses + "/" + response.ID
	q.stream = c.r.IntN(2) == 0
	if q.stream {
		path += "?stream=true"
	}
	var body []byte
	for deadline := began.Add(requestLimit); ; time.Sleep(100 * time.Millisecond) {
		if status, body = c.exchange(http.MethodGet, path, ""); status != http.StatusOK || time.Now().After(deadline) {
			c.counts.fault(fmt.Sprintf("%s is %d %.500s after %s", what, status, body, time.Since(began)))
			return
		}
		if q.stream || json.Unmarshal(body, &response) != nil || response.Status != "queued" && response.Status != "in_progress" {
			break
		}
	}
	got, err := apiclient.Read(body, apiclient.Responses, q.stream, 1)
	if err == nil && !got.Ended {
		err = fmt.Errorf("the answer has no end: … %s", body[max(0, len(body)-500):])
	}
	c.judge(q, began, got, err)
	if status, body := c.about(http.MethodDelete, response.ID); status != http.StatusOK {
		c.counts.fault(fmt.Sprintf("deleting %s: %d %.500s", what, status, body))
	}
}
