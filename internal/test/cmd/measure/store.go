package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// Limits of keys.
const (
	limitRequests = "requests 1000000 1h\n"
	limitTokens   = "tokens 1000000000 1h\n"
)

// cluster is nodes that share a Redis.
type cluster struct {
	dir   string
	redis *redisserver.Server
	sites []*rig.Site
}

// newCluster starts so many nodes, whose keys have these options by their names.
func newCluster(ctx context.Context, o options, model *rig.Model, nodes int, keys map[string]string) (c *cluster, err error) {
	c = &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "caddy-codex-nodes-"); err != nil {
		return c, err
	}
	if c.redis, err = redisserver.Open(c.dir); err != nil {
		return c, err
	}
	var file strings.Builder
	for key, limits := range keys {
		fmt.Fprintf(&file, "key %s {\nhash sha256:%x\n%s}\n", key, sha256.Sum256([]byte(key)), limits)
	}
	path := filepath.Join(c.dir, "keys")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return c, err
	}
	for range nodes {
		var log io.Writer
		if o.log {
			log = os.Stderr
		}
		site, err := rig.StartSite(ctx, o.Caddy, rig.SiteOptions{
			Command: o.Codex, Home: model.Home, Handler: fmt.Sprintf("realm nodes\napi_keys_file %q\nstore redis %s", path, c.redis.URL("")), Log: log,
		})
		if err != nil {
			return c, err
		}
		c.sites = append(c.sites, site)
	}
	return c, nil
}

func (c *cluster) close() (err error) {
	for _, site := range c.sites {
		err = errors.Join(err, site.Stop())
	}
	if c.redis != nil {
		c.redis.Kill()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// send makes a request at a site with a key, and returns the id in the answer.
func send(ctx context.Context, site *rig.Site, key, method, path string, body map[string]any) (id string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, method, site.URL+path, strings.NewReader(string(text)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct{ ID, Status string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s is answered with %s, %w", method, path, response.Status, err)
	}
	if answer.Status == "queued" || answer.Status == "in_progress" {
		return answer.ID, errGoesOn
	}
	return answer.ID, nil
}

// errGoesOn is the error of an answer that is made in the background.
var errGoesOn = errors.New("the response goes on")

// traffic is what a Redis has been asked.
type traffic struct{ uses, in, out int }

// counters are where Redis counts it.
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

// What the requests of measureStore are.
const (
	storeTimes = 20      // how often each is made
	storeText  = 2 << 10 // bytes of an input and of an answer
	settleTime = 2 * time.Second
)

// measureStore prints what requests of each kind ask of Redis.
func measureStore(ctx context.Context, o options) (err error) {
	model, err := rig.NewModel(true)
	if err != nil {
		return err
	}
	defer model.Close()
	c, err := newCluster(ctx, o, model, 1, map[string]string{"sk-free": "", "sk-requests": limitRequests, "sk-limited": limitRequests + limitTokens})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r := storeRequests{ctx: ctx, site: c.sites[0], text: strings.TrimSpace(strings.Repeat("say it ", storeText/7))}
	if err := r.prepare(); err != nil {
		return err
	}
	time.Sleep(settleTime)
	reading := readTraffic(c.redis)
	reading = readTraffic(c.redis).minus(reading) // what the readings cost themselves
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "uses\tbytes to Redis\tbytes from Redis\ta request\t")
	for _, kind := range r.kinds() {
		before := readTraffic(c.redis)
		for range storeTimes {
			if err := kind.run(); err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
		time.Sleep(settleTime)
		t := readTraffic(c.redis).minus(before).minus(reading)
		fmt.Fprintf(table, "%.1f\t%d\t%d\t%s\t\n", float64(t.uses)/storeTimes, t.in/storeTimes, t.out/storeTimes, kind.name)
	}
	return table.Flush()
}

// storeRequests makes requests of each kind.
type storeRequests struct {
	ctx                       context.Context
	site                      *rig.Site
	text                      string
	kept, chain, conversation string // ids
}

type requestKind struct {
	name string
	run  func() error
}

// prepare stores what the requests use.
func (r *storeRequests) prepare() (err error) {
	if r.kept, err = r.respond("say:"+r.text, nil); err != nil {
		return err
	}
	for range 100 {
		more := map[string]any{}
		if r.chain != "" {
			more["previous_response_id"] = r.chain
		}
		if r.chain, err = r.respond("say:ok", more); err != nil {
			return err
		}
	}
	r.conversation, err = send(r.ctx, r.site, "sk-free", http.MethodPost, "/v1/conversations", map[string]any{})
	return err
}

// respond asks for a response, and waits until it is made.
func (r *storeRequests) respond(input string, more map[string]any) (id string, err error) {
	request := map[string]any{"model": "gpt-5", "input": input}
	for name, value := range more {
		request[name] = value
	}
	id, err = send(r.ctx, r.site, "sk-free", http.MethodPost, "/v1/responses", request)
	for errors.Is(err, errGoesOn) {
		time.Sleep(time.Second)
		_, err = r.read(id)
	}
	return id, err
}

func (r *storeRequests) read(id string) (string, error) {
	return send(r.ctx, r.site, "sk-free", http.MethodGet, "/v1/responses/"+id, nil)
}

func (r *storeRequests) kinds() []requestKind {
	chat := func(key string) func() error {
		return func() error {
			_, err := send(r.ctx, r.site, key, http.MethodPost, "/v1/chat/completions", map[string]any{
				"model": "gpt-5", "messages": []any{map[string]any{"role": "user", "content": "say:" + r.text}},
			})
			return err
		}
	}
	respond := func(input string, more map[string]any) func() error {
		return func() error {
			_, err := r.respond(input, more)
			return err
		}
	}
	return []requestKind{
		{"a chat without limits", chat("sk-free")},
		{"a chat with a limit of requests", chat("sk-requests")},
		{"a chat with limits of requests and tokens", chat("sk-limited")},
		{"a response that is not stored", respond("say:"+r.text, map[string]any{"store": false})},
		{"a response", respond("say:"+r.text, nil)},
		{"a response after a chain of 100 short ones", respond("say:ok", map[string]any{"previous_response_id": r.chain})},
		{"a response of a conversation, short", respond("say:ok", map[string]any{"conversation": r.conversation})},
		{"a response in the background, read once", respond("chunk=20; say:"+r.text, map[string]any{"background": true, "stream": false})},
		{"reading a response", func() error { _, err := r.read(r.kept); return err }},
	}
}
