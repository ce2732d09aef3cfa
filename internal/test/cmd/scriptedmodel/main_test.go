package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// TestRun starts the command, asks the address it prints, and ends it in the
// middle of a stream.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-chunk", "-1"}, out, io.Discard) }()
	url, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Post(strings.TrimSpace(url)+"/responses", "application/json",
		strings.NewReader(`{"model":"m","stream":true,"input":"say:hello to you; hang"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"delta":"hello to you"`) {
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream was not cut")
	}
	if err := <-ended; err != nil {
		t.Errorf("the command ended with %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{
		{"-listen", "0.0.0.0:0"},
		{"-listen", ":0"},
		{"-listen", "nonsense"},
		{"-chunk", "-2"},
		{"-delay", "-1s"},
		{"-delay", "soon"},
		{"extra"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	if err := run(t.Context(), []string{"-h"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
