package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// trickleBody is the size of the body that a trickling client announces.
	trickleBody = 31 << 20
	// trickleRest is the part of it that the client sends at a byte per second.
	trickleRest = 1000
	// trickleWait bounds the time of a client.
	trickleWait = 5 * time.Minute
)

// trickled is the outcome of a client that sends nearly all of a large body and then
// a byte per second.
type trickled struct {
	status string        // of the answer, or the reason why there was none
	after  time.Duration // time since the first byte
}

// trickle runs such clients concurrently until each is answered or cut off.
func trickle(ctx context.Context, url string, clients int) []trickled {
	ctx, cancel := context.WithTimeout(ctx, trickleWait)
	defer cancel()
	results := make([]trickled, clients)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			start := time.Now()
			status := trickleOne(ctx, strings.TrimPrefix(url, "http://"))
			results[i] = trickled{status, time.Since(start)}
		})
	}
	all.Wait()
	return results
}

// trickleOne runs one such client.
func trickleOne(ctx context.Context, addr string) (status string) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err.Error()
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sending.Go(func() {
		_, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", addr, trickleBody)
		const piece = 32 << 10
		text := []byte(strings.Repeat(" ", piece))
		for sent := 0; err == nil && sent < trickleBody-trickleRest; sent += piece {
			_, err = conn.Write(text[:min(piece, trickleBody-trickleRest-sent)])
		}
		for err == nil {
			time.Sleep(time.Second)
			_, err = conn.Write(text[:1])
		}
	})
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "cut off"
	}
	_ = response.Body.Close()
	return response.Status
}

// reportTrickled prints the outcomes of the clients.
func reportTrickled(results []trickled) {
	times := make(map[string][]time.Duration)
	for _, r := range results {
		times[r.status] = append(times[r.status], r.after.Round(100*time.Millisecond))
	}
	fmt.Printf("%d clients that trickle:\n", len(results))
	for status, after := range times {
		fmt.Printf("  %3d %s, after %s to %s\n", len(after), status, slices.Min(after), slices.Max(after))
	}
}
