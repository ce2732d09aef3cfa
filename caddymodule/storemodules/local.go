package storemodules

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/store"
)

// Off stores no responses, so a request cannot refer to an earlier one. It has no options.
type Off struct{}

// CaddyModule returns the Caddy module information.
func (Off) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".off", New: func() caddy.Module { return new(Off) }}
}

// UnmarshalCaddyfile reads the name. Nothing else may follow.
func (s *Off) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return parse(d, s) }

func (*Off) key() string { return "" }

func (*Off) open(*OpenStore) {}

func (*Off) start(*OpenStore) error { return nil }

// Memory stores responses in the memory of this process. A reload keeps them.
type Memory struct {
	// The most bytes that the responses may take. The least recently used responses of the user
	// with the most bytes are deleted first. Default: 64 MiB.
	Size int64 `json:"size,omitempty" option:"<size>" default:"64MiB"`

	// How long a response is stored. Default: `24h`.
	Age caddy.Duration `json:"age,omitempty" option:"<duration>" default:"24h"`
}

// CaddyModule returns the Caddy module information.
func (Memory) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".memory", New: func() caddy.Module { return new(Memory) }}
}

// UnmarshalCaddyfile reads:
//
//	memory {
//	    size <size>
//	    age  <duration>
//	}
func (s *Memory) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return parse(d, s) }

// Provision sets the defaults and checks the values.
func (s *Memory) Provision(caddy.Context) error { return option.Complete(s) }

func (s *Memory) key() string { return fmt.Sprint(s.Size, " ", s.Age) }

func (s *Memory) open(o *OpenStore) {
	o.Store = objects.NewStore(store.NewMemory(s.Size, time.Duration(s.Age)), o.logger)
}

func (*Memory) start(*OpenStore) error { return nil }

// Disk stores responses in a file of this Caddy, so that they survive a restart.
type Disk struct {
	// The folder of the file. Placeholders are resolved when the configuration is loaded.
	// Default: `codex` in the folder where Caddy keeps its data.
	Dir string `json:"dir,omitempty"`

	// The most bytes that the responses may take. The least recently used responses of the user
	// with the most bytes are deleted first. Default: 1 GiB.
	Size int64 `json:"size,omitempty" option:"<size>" default:"1GiB"`

	// How long a response is stored. Default: `720h`.
	Age caddy.Duration `json:"age,omitempty" option:"<duration>" default:"720h"`

	dir string // the absolute path of Dir
}

// CaddyModule returns the Caddy module information.
func (Disk) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".disk", New: func() caddy.Module { return new(Disk) }}
}

// UnmarshalCaddyfile reads:
//
//	disk [<dir>] {
//	    size <size>
//	    age  <duration>
//	}
func (s *Disk) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return parse(d, s, &s.Dir) }

// Provision sets the defaults and checks the values.
func (s *Disk) Provision(caddy.Context) (err error) {
	if err := option.Complete(s); err != nil {
		return err
	}
	if s.dir, err = option.AbsolutePath(caddy.NewReplacer(), cmp.Or(s.Dir, filepath.Join(caddy.AppDataDir(), "codex"))); err != nil {
		return fmt.Errorf("dir: %w", err)
	}
	return nil
}

// key does not contain the limits, so a reload can change them without opening another store.
func (s *Disk) key() string { return s.dir }

func (s *Disk) open(o *OpenStore) {
	o.disk = store.NewDisk(s.dir)
	o.Store = objects.NewStore(o.disk, o.logger)
}

func (s *Disk) start(o *OpenStore) error {
	o.disk.Limit(s.Size, time.Duration(s.Age))
	return o.disk.Start()
}

// Interface guards
var (
	_ caddy.Provisioner = (*Memory)(nil)
	_ caddy.Provisioner = (*Disk)(nil)
)
