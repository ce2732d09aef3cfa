package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// traffic is what a Redis has been asked.
type traffic struct{ uses, in, out int }

var counters = [...]*regexp.Regexp{
	regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`), regexp.MustCompile(`total_net_input_bytes:(\d+)`), regexp.MustCompile(`total_net_output_bytes:(\d+)`),
}

func readTraffic(s *redisserver.Server) traffic {
	text := s.Do("INFO commandstats") + s.Do("INFO stats")
	var n [len(counters)]int
	for i, c := range counters {
		if found := c.FindStringSubmatch(text); found != nil {
			n[i], _ = strconv.Atoi(found[1])
		}
	}
	return traffic{n[0], n[1], n[2]}
}

func (t traffic) minus(o traffic) traffic {
	return traffic{t.uses - o.uses, t.in - o.in, t.out - o.out}
}

// What the requests of measureRedis are.
const (
	redisTimes = 20      // how often each is made
	redisText  = 2 << 10 // bytes of an input and of an answer
	settleTime = 2 * time.Second
)

// measureRedis prints what requests of each kind ask of Redis.
func measureRedis(ctx context.Context, o options) error {
	keys := map[string]string{"sk-free": "", "sk-requests": limitRequests, "sk-limited": limitRequests + limitTokens}
	return withCluster(ctx, o, 1, keys, func(c *cluster) error {
		kinds, err := requestKinds(ctx, c.sites[0])
		if err != nil {
			return err
		}
		time.Sleep(settleTime)
		reading := readTraffic(c.redis)
		reading = readTraffic(c.redis).minus(reading) // what the readings cost themselves
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "uses\tbytes to Redis\tbytes from Redis\ta request\t")
		for _, kind := range kinds {
			before := readTraffic(c.redis)
			for range redisTimes {
				if err := kind.run(); err != nil {
					return fmt.Errorf("%s: %w", kind.name, err)
				}
			}
			time.Sleep(settleTime)
			t := readTraffic(c.redis).minus(before).minus(reading)
			fmt.Fprintf(table, "%.1f\t%d\t%d\t%s\t\n", float64(t.uses)/redisTimes, t.in/redisTimes, t.out/redisTimes, kind.name)
		}
		return table.Flush()
	})
}

// requestKind is a kind of requests that use Redis.
type requestKind struct {
	name string
	run  func() error
}

// requestKinds stores what the requests use, and returns them.
func requestKinds(ctx context.Context, site *rig.Site) ([]requestKind, error) {
	text := "say:" + strings.TrimSpace(strings.Repeat("say it ", redisText/7))
	respond := func(input, member string, value any) (string, error) {
		return send(ctx, site, "sk-free", http.MethodPost, "/v1/responses", map[string]any{"model": "gpt-5", "input": input, member: value})
	}
	kept, err := respond(text, "store", true)
	chain := kept
	for i := 0; i < 100 && err == nil; i++ {
		chain, err = respond("say:ok", "previous_response_id", chain)
	}
	conversation, failed := send(ctx, site, "sk-free", http.MethodPost, "/v1/conversations", map[string]any{})
	response := func(input, member string, value any) func() error {
		return func() error {
			_, err := respond(input, member, value)
			return err
		}
	}
	read := func(id, query string) error {
		_, err := send(ctx, site, "sk-free", http.MethodGet, "/v1/responses/"+id+query, nil)
		return err
	}
	return []requestKind{
		{"a chat without limits", func() error { return sendChat(ctx, site, "sk-free", text) }},
		{"a chat with a limit of requests", func() error { return sendChat(ctx, site, "sk-requests", text) }},
		{"a chat with limits of requests and tokens", func() error { return sendChat(ctx, site, "sk-limited", text) }},
		{"a response that is not stored", response(text, "store", false)},
		{"a response", response(text, "store", true)},
		{"a response after a chain of 100 short ones", response("say:ok", "previous_response_id", chain)},
		{"a response of a conversation, short", response("say:ok", "conversation", conversation)},
		{"a response in the background, and its stream", func() error {
			id, err := respond("chunk=20; "+text, "background", true)
			if err != nil {
				return err
			}
			return read(id, "?stream=true")
		}},
		{"reading a response", func() error { return read(kept, "") }},
	}, errors.Join(err, failed)
}
