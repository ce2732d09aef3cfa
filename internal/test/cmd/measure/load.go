package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// timing holds the times of one turn as its client measures them.
type timing struct {
	first, whole time.Duration // time to the first token and to the end
	chunks       int
}

// result holds the times of all turns.
type result struct {
	took   time.Duration
	turns  []timing // in the order in which they ended
	chunks int
}

// runner runs the turn of a chat request until it ends.
type runner func(ctx context.Context, body string) (timing, error)

// load runs turns, o.atOnce of them concurrently.
func load(ctx context.Context, o options, run runner, turns int) (*result, error) {
	prompt := "chunk=5; say:" + strings.Repeat("word ", o.deltas)
	body, err := json.Marshal(map[string]any{
		"model": "gpt-5", "stream": true,
		"messages": []any{map[string]any{"role": "user", "content": prompt}},
	})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var errs []error
	total := &result{}
	places := make(chan struct{}, o.atOnce)
	var wg sync.WaitGroup
	start := time.Now()
	for range turns {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			t, err := run(ctx, string(body))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			total.turns = append(total.turns, t)
			total.chunks += t.chunks
		})
	}
	wg.Wait()
	total.took = time.Since(start)
	return total, errors.Join(errs...)
}

// overHTTP returns a runner that sends requests to a Caddy.
func overHTTP(url string) runner {
	return func(ctx context.Context, body string) (t timing, err error) {
		start := time.Now()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return t, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return t, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return t, fmt.Errorf("a turn was answered with %s", response.Status)
		}
		reader := apiclient.NewReader(response.Body)
		for {
			event, err := reader.Next()
			if err != nil {
				return t, fmt.Errorf("a stream ended early: %w", err)
			}
			if event.Data == "[DONE]" {
				t.whole = time.Since(start)
				return t, nil
			}
			if t.chunks++; t.chunks == 2 { // the first one is the role
				t.first = time.Since(start)
			}
		}
	}
}
