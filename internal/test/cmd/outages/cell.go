package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// answered is the code of a request that was answered.
const answered = "200"

// ask sends a request, and returns the status and the code of its error.
func ask(ctx context.Context, s *rig.Site) (took time.Duration, code string) {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	begin := time.Now()
	body := []byte(`{"model":"gpt-6-sol","messages":[{"role":"user","content":"say:ok"}]}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return time.Since(begin), err.Error()
	}
	defer response.Body.Close()
	var failed struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return time.Since(begin), err.Error()
	}
	_ = json.Unmarshal(text, &failed) // an answer has no error
	return time.Since(begin), strings.TrimSpace(fmt.Sprint(response.StatusCode, " ", failed.Error.Code))
}

// cell is what was seen in the outages of one line.
type cell struct {
	ready, during, after times
	codes                set
}

func (c *cell) add(one once) {
	c.ready, c.during, c.after = append(c.ready, one.ready), append(c.during, one.during), append(c.after, one.after)
	if one.code != "" && !slices.Contains(c.codes, one.code) {
		c.codes = append(c.codes, one.code)
	}
}

// set is a set of words.
type set []string

func (s set) String() string { return strings.Join(s, ", ") }

// times are durations, which print as their range.
type times []time.Duration

func (t times) String() string {
	if len(t) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f to %.2f s", slices.Min(t).Seconds(), slices.Max(t).Seconds())
}
