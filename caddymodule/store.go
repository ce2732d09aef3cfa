package caddymodule

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// Store configures where responses and conversations are stored.
type Store struct {
	// `memory`: in this process; a reload keeps them. `disk`: in a file of this Caddy, which
	// survives a restart. `redis`: in Redis or Valkey, which several nodes may share. `off`:
	// nowhere; then previous_response_id refers to nothing. Default: `memory`.
	Type string `json:"type,omitempty" option:"memory|disk|redis|off" default:"memory"`

	// The folder of the file, with `disk`. Placeholders are resolved when the configuration
	// is loaded. Default: `codex` in the folder where Caddy keeps its data.
	Dir string `json:"dir,omitempty"`

	// The URLs of the nodes, with `redis`: `redis://USER:PASSWORD@HOST:PORT/DB`, `rediss://` for
	// TLS, or `unix://`. Several are a cluster, or with `master` the sentinels. Placeholders
	// are resolved when the configuration is loaded.
	URLs []string `json:"urls,omitempty"`

	// The most bytes that the responses may take, with `memory` and `disk`. The least recently
	// used ones of the user with the most are deleted first. With `redis`, the most that those of
	// each user may take, of which the oldest are deleted first. Default: 64 MiB with `memory`, else
	// 1 GiB.
	Size int64 `json:"size,omitempty" option:"<size>"`

	// How long a response is stored. Default: `24h` with `memory`, else `720h`.
	Age caddy.Duration `json:"age,omitempty" option:"<duration>"`

	// What all keys begin with, with `redis`. Default: `codex`.
	Prefix string `json:"prefix,omitempty" option:"<name>"`

	// The name of the master that the sentinels watch, with `redis`. Default: none.
	Master string `json:"master,omitempty" option:"<name>"`

	// What happens to requests of keys with limits while Redis does not work. `closed`: they get a
	// 503. `open`: they are let through, and not counted. Default: `closed`.
	Fail string `json:"fail,omitempty" option:"open|closed"`

	// A file with the certificates of the authorities that sign those of the nodes, with `redis`.
	// Placeholders are resolved when the configuration is loaded. Default: those of the system.
	CA string `json:"ca,omitempty" option:"<name>"`
}

// The values of [Store.Type].
const (
	storeMemory = "memory"
	storeDisk   = "disk"
	storeRedis  = "redis"
	storeOff    = "off"
)

// failOpen is the value of [Store.Fail] that lets requests through.
const failOpen = "open"

// runningResponses are the responses that are being made. A reload keeps them.
var runningResponses = objects.NewRunning()

// parse reads the option:
//
//	store memory|disk [<dir>]|redis <url>...|off {
//	    <options>
//	}
func (s *Store) parse(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	s.Type = args[0]
	switch more := args[1:]; {
	case s.Type == storeRedis && len(more) > 0:
		s.URLs = more
	case s.Type == storeDisk && len(more) == 1:
		s.Dir = more[0]
	case s.Type == storeRedis:
		return d.Err("store redis needs the URL of the server")
	case len(more) > 0:
		return d.Errf("store %s takes no %q here; limits are in a block: { size 64MiB }", s.Type, more[0])
	}
	if err := isOneOf(s.Type, "memory|disk|redis|off"); err != nil {
		return d.WrapErr(fmt.Errorf("store: %w", err))
	}
	return parseBlock(d, s, map[string]special{"type": {parse: func(d *caddyfile.Dispenser) error { return d.Err("the type of a store is given before its block") }}})
}

// complete sets the defaults of the type and checks the values.
func (s *Store) complete() error {
	if err := completeOptions(s); err != nil {
		return err
	}
	redis, off := s.Type == storeRedis, s.Type == storeOff
	for _, c := range []struct {
		name          string
		given, belong bool
	}{
		{"dir", s.Dir != "", s.Type == storeDisk},
		{"urls", len(s.URLs) > 0, redis},
		{"size", s.Size != 0, !off},
		{"age", s.Age != 0, !off},
		{"prefix", s.Prefix != "", redis},
		{"master", s.Master != "", redis},
		{"ca", s.CA != "", redis},
		{"fail", s.Fail != "", redis},
	} {
		if c.given && !c.belong {
			return fmt.Errorf("%s has no %s", s.Type, c.name)
		}
	}
	switch s.Type {
	case storeMemory:
		s.Size, s.Age = cmp.Or(s.Size, 64<<20), cmp.Or(s.Age, caddy.Duration(24*time.Hour))
	case storeDisk:
		s.Size, s.Age = cmp.Or(s.Size, 1<<30), cmp.Or(s.Age, caddy.Duration(30*24*time.Hour))
	case storeRedis:
		s.Size, s.Age, s.Prefix = cmp.Or(s.Size, 1<<30), cmp.Or(s.Age, caddy.Duration(30*24*time.Hour)), cmp.Or(s.Prefix, "codex")
		if len(s.URLs) == 0 {
			return errors.New("redis needs the URL of the server")
		}
	}
	return nil
}

// open returns the store, nil for none. start, which may be nil, is called once the configuration is
// used, and release once it is not any more.
func (s *Store) open(repl *caddy.Replacer, logger *slog.Logger) (store responsestore.Store, start func() error, release func(), err error) {
	switch s.Type {
	case storeMemory:
		store, release = engines.open(s.memoryKey(), func() responsestore.Store {
			return responsestore.NewMemory(s.Size, time.Duration(s.Age))
		})
	case storeDisk:
		dir, err := absolutePath(repl, cmp.Or(s.Dir, filepath.Join(caddy.AppDataDir(), "codex")))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("dir: %w", err)
		}
		store, release = engines.open(storeDisk+dir, func() responsestore.Store { return responsestore.NewDisk(dir) })
		disk := store.(*responsestore.Disk)
		start = func() error {
			disk.Limit(s.Size, time.Duration(s.Age))
			return disk.Start()
		}
	case storeRedis:
		options, err := s.redisOptions(repl)
		if err != nil {
			return nil, nil, nil, err
		}
		store, release = engines.open(options.key, func() responsestore.Store { return responsestore.NewRedis(options.RedisOptions, logger) })
		start = store.(*responsestore.Redis).Start
	default:
		return nil, nil, func() {}, nil
	}
	return store, start, release, nil
}

// memoryKey is the key of a store in memory.
func (s *Store) memoryKey() string { return fmt.Sprint(storeMemory, " ", s.Size, " ", s.Age) }

// redisOptions are resolved settings.
type redisOptions struct {
	responsestore.RedisOptions
	key string // the same for the same settings
}

// redisOptions resolves the settings of a store in Redis. The errors contain no URL, which may
// have a password.
func (s *Store) redisOptions(repl *caddy.Replacer) (o redisOptions, err error) {
	var urls []string
	for i, url := range s.URLs {
		resolved, err := repl.ReplaceOrErr(url, true, true)
		if err != nil {
			return o, fmt.Errorf("URL %d has a placeholder that is empty or unknown: is its variable or file set?", i+1)
		}
		one, err := redis.ParseURL(resolved)
		if err != nil {
			return o, fmt.Errorf("URL %d is not one such as redis://USER:PASSWORD@HOST:PORT/DB, rediss://HOST or unix:///PATH", i+1)
		}
		if i == 0 {
			o.UniversalOptions = universal(one)
		}
		o.Addrs, urls = append(o.Addrs, one.Addr), append(urls, resolved)
	}
	o.MasterName, o.Prefix, o.MaxAge, o.MaxBytes, o.FailOpen = s.Master, s.Prefix, time.Duration(s.Age), s.Size, s.Fail == failOpen
	if s.CA != "" {
		if err := trust(&o.UniversalOptions, repl, s.CA); err != nil {
			return o, fmt.Errorf("ca: %w", err)
		}
	}
	o.key = strings.Join(append(urls, storeRedis, s.Prefix, time.Duration(s.Age).String(), fmt.Sprint(s.Size), s.Master, s.CA, s.Fail), "\n")
	return o, nil
}

// universal returns the settings in a URL.
func universal(o *redis.Options) redis.UniversalOptions {
	return redis.UniversalOptions{
		ClientName: o.ClientName, Protocol: o.Protocol, Username: o.Username, Password: o.Password, DB: o.DB,
		MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout, MinIdleConns: o.MinIdleConns,
		MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns, ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime: o.ConnMaxLifetime, TLSConfig: o.TLSConfig,
	}
}

// trust makes connections accept the certificates that the authorities of a file have signed.
func trust(o *redis.UniversalOptions, repl *caddy.Replacer, file string) error {
	if o.TLSConfig == nil {
		return errors.New("only a rediss:// URL has certificates")
	}
	path, err := absolutePath(repl, file)
	if err != nil {
		return err
	}
	certificates, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	o.TLSConfig = o.TLSConfig.Clone()
	o.TLSConfig.RootCAs = x509.NewCertPool()
	if !o.TLSConfig.RootCAs.AppendCertsFromPEM(certificates) {
		return fmt.Errorf("%s has no certificate", path)
	}
	o.TLSConfig.MinVersion = max(o.TLSConfig.MinVersion, tls.VersionTLS12)
	return nil
}
