package storemodules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Redis stores responses in Redis or Valkey, which several Caddy servers can share. It also stores the
// usage, and what API keys have used of their limits, as sums over all servers.
type Redis struct {
	// The URLs of the Redis servers: `redis://USER:PASSWORD@HOST:PORT/DB`, `rediss://` for TLS, or
	// `unix://`. Several URLs name the servers of a cluster or, with `master`, the sentinels.
	// Placeholders are resolved when the configuration is loaded.
	URLs []string `json:"urls,omitempty"`

	// The most bytes that the responses of each user may take. The oldest responses are deleted
	// first. Default: 1 GiB.
	Size int64 `json:"size,omitempty" option:"<size>" default:"1GiB"`

	// How long a response is stored. Default: `720h`.
	Age caddy.Duration `json:"age,omitempty" option:"<duration>" default:"720h"`

	// The beginning of all keys in Redis. Default: `codex`.
	Prefix string `json:"prefix,omitempty" option:"<name>" default:"codex"`

	// The name of the master that the sentinels watch. Default: none.
	Master string `json:"master,omitempty" option:"<name>"`

	// What happens to requests of keys with limits while Redis cannot be used. `closed`: the client gets a
	// 503. `open`: the request is served. The request never counts, but its tokens count once Redis works.
	// Default: `closed`.
	Fail string `json:"fail,omitempty" option:"open|closed" default:"closed"`

	options store.RedisOptions
	id      string // what key returns
}

// CaddyModule returns the Caddy module information.
func (Redis) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".redis", New: func() caddy.Module { return new(Redis) }}
}

// UnmarshalCaddyfile reads:
//
//	redis <url>... {
//	    size   <size>
//	    age    <duration>
//	    prefix <text>
//	    master <name>
//	    fail   open|closed
//	}
func (s *Redis) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if s.URLs = d.RemainingArgs(); len(s.URLs) == 0 {
		return d.Err("store redis needs the URL of the server")
	}
	return option.ParseBlock(d, s, nil)
}

// Provision resolves the settings. The errors contain no URL, which may have a password.
func (s *Redis) Provision(caddy.Context) error {
	if err := option.Complete(s); err != nil {
		return err
	}
	if len(s.URLs) == 0 {
		return errors.New("redis needs the URL of the server")
	}
	repl, o := caddy.NewReplacer(), &s.options
	key := []string{s.Prefix, time.Duration(s.Age).String(), fmt.Sprint(s.Size), s.Master, s.Fail}
	for i, url := range s.URLs {
		resolved, err := repl.ReplaceOrErr(url, true, true)
		if err != nil {
			return fmt.Errorf("URL %d has a placeholder that is empty or unknown: is its variable or file set?", i+1)
		}
		parsed, err := redis.ParseURL(resolved)
		if err != nil {
			return fmt.Errorf("URL %d is not one such as redis://USER:PASSWORD@HOST:PORT/DB, rediss://HOST or unix:///PATH", i+1)
		}
		if i == 0 {
			o.UniversalOptions = universalOptions(parsed)
		}
		o.Addrs, key = append(o.Addrs, parsed.Addr), append(key, resolved)
	}
	o.MasterName, o.Prefix, o.MaxAge, o.MaxBytes, o.FailOpen = s.Master, s.Prefix, time.Duration(s.Age), s.Size, s.Fail == "open"
	s.id = strings.Join(key, "\n")
	return nil
}

func (s *Redis) key() string { return s.id }

func (s *Redis) open(o *OpenStore) {
	o.redis = store.NewRedis(s.options, o.logger)
	o.Store, o.Limits, o.Usage = objects.NewStore(o.redis, o.logger), o.redis.Limits(), usage.NewShared(o.redis.Run)
	o.ShareKey = func(ctx context.Context, own string) (string, error) {
		key, err := o.redis.Run(ctx, shareKeyScript, "seal", own)
		if err != nil {
			return "", err
		}
		text, _ := key.(string)
		return text, nil
	}
}

// shareKeyScript returns the value of a key of Redis, which it sets to ARGV[1] if it does not exist.
var shareKeyScript = redis.NewScript(`
	redis.call('SET', KEYS[1] .. 'key', ARGV[1], 'NX')
	return redis.call('GET', KEYS[1] .. 'key')`)

func (*Redis) start(o *OpenStore) error { return o.redis.Start() }

// universalOptions converts the settings of a URL to the form that also fits clusters and sentinels.
func universalOptions(o *redis.Options) redis.UniversalOptions {
	return redis.UniversalOptions{
		ClientName: o.ClientName, Protocol: o.Protocol, Username: o.Username, Password: o.Password, DB: o.DB,
		MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout, MinIdleConns: o.MinIdleConns,
		MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns, ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime: o.ConnMaxLifetime, TLSConfig: o.TLSConfig,
	}
}

// Interface guard
var _ caddy.Provisioner = (*Redis)(nil)
