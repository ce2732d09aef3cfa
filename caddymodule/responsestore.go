package caddymodule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

// ResponseStore configures where responses and conversations are stored.
type ResponseStore struct {
	// `memory`: in this process; a reload keeps them. `storage`: in Caddy's storage, which
	// several nodes may share and which survives a restart. `off`: nowhere; then
	// previous_response_id refers to nothing. Default: `memory`.
	Type string `json:"type,omitempty" option:"memory|storage|off" default:"memory"`

	// The most memory that the responses may take, in bytes. The least recently used
	// ones of the user with the most are deleted first. Only with `memory`. Default: 64 MiB.
	Size int64 `json:"size,omitempty" option:"<size>"`

	// How long a response is stored. Default: `24h` with `memory`, `720h` with `storage`.
	Age caddy.Duration `json:"age,omitempty" option:"<duration>"`

	// The most responses in the storage, of all nodes together. The oldest ones are
	// deleted first. Each may have 64 MiB. Only with `storage`. Default: 100000.
	Count int `json:"count,omitempty" option:"<n>"`
}

// The values of [ResponseStore.Type].
const (
	storeMemory  = "memory"
	storeStorage = "storage"
	storeOff     = "off"
)

// runningResponses are the responses that are being made. A reload keeps them.
var runningResponses = objects.NewRunning()

// memoryStores are the stores in memory, by their limits. A store exists as long as a
// configuration uses it, so that a reload keeps the responses.
var memoryStores = caddy.NewUsagePool()

// complete sets the defaults of the type and checks the values.
func (s *ResponseStore) complete() error {
	if err := completeOptions(s); err != nil {
		return err
	}
	switch {
	case s.Size != 0 && s.Type != storeMemory:
		return fmt.Errorf("only %s has a size", storeMemory)
	case s.Count != 0 && s.Type != storeStorage:
		return fmt.Errorf("only %s has a count", storeStorage)
	case s.Age != 0 && s.Type == storeOff:
		return fmt.Errorf("%s has no age", storeOff)
	case s.Type == storeMemory:
		s.Size, s.Age = cmp.Or(s.Size, 64<<20), cmp.Or(s.Age, caddy.Duration(24*time.Hour))
	case s.Type == storeStorage:
		s.Age, s.Count = cmp.Or(s.Age, caddy.Duration(30*24*time.Hour)), cmp.Or(s.Count, 100_000)
	}
	return nil
}

// key returns the key of a store in memory.
func (s *ResponseStore) key() string { return fmt.Sprintf("%d %d", s.Size, s.Age) }

// open returns the store, nil for none. release closes it if no configuration uses it.
func (s *ResponseStore) open(ctx caddy.Context) (store responsestore.Store, release func()) {
	switch s.Type {
	case storeMemory:
		key := s.key()
		pooled, _ := memoryStores.LoadOrStore(key, responsestore.NewMemory(s.Size, time.Duration(s.Age)))
		return pooled.(*responsestore.Memory), func() { _, _ = memoryStores.Delete(key) } // it has nothing to close
	case storeStorage:
		limits := responsestore.Limits{MaxAge: time.Duration(s.Age), MaxCount: s.Count}
		shared := responsestore.NewShared(ctx.Storage(), limits, ctx.Slogger())
		return shared, shared.Close
	}
	return nil, func() {}
}

// parse reads the option:
//
//	response_store memory [<size> [<age>]]
//	response_store storage [<age> [<count>]]
//	response_store off
func (s *ResponseStore) parse(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		s.Type = d.Val() // which limits may follow depends on it
		d.Prev()
	}
	line := optionsOf(s) // type, size, age, count
	switch s.Type {
	case storeMemory:
		line = line[:3]
	case storeStorage:
		line = slices.Delete(line, 1, 2)
	default:
		line = line[:1]
	}
	return parseLine(d, line, nil)
}
