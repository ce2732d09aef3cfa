package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

// result is what the client saw.
type result struct {
	took       time.Duration
	firstToken []time.Duration
	chunks     int
}

// load runs turns, some at once.
func load(ctx context.Context, o options, url string, turns int) (*result, error) {
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
			first, chunks, err := turn(ctx, url, string(body))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			total.firstToken = append(total.firstToken, first)
			total.chunks += chunks
		})
	}
	wg.Wait()
	total.took = time.Since(start)
	slices.Sort(total.firstToken)
	return total, errors.Join(errs...)
}

// turn runs one and reads it to its end.
func turn(ctx context.Context, url, body string) (first time.Duration, chunks int, err error) {
	start := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("a turn was answered with %s", response.Status)
	}
	reader := sse.NewReader(response.Body, 0)
	for {
		event, err := reader.Next()
		if err != nil {
			return first, chunks, fmt.Errorf("a stream ended early: %w", err)
		}
		if event.Data == "[DONE]" {
			return first, chunks, nil
		}
		if chunks++; chunks == 2 { // the first one is the role
			first = time.Since(start)
		}
	}
}
