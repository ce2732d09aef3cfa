package storemodules

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
	"github.com/caddy-codex/caddy-codex/stores"
)

// Off stores no responses, so a request cannot refer to an earlier response. It has no
// options.
type Off struct{}

// CaddyModule returns the Caddy module information.
func (Off) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: stores.Namespace + ".off", New: func() caddy.Module { return new(Off) }}
}

// UnmarshalCaddyfile reads the name. Nothing else may follow.
func (s *Off) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return parseBlock(d, s)
}

// Key implements [stores.Module].
func (*Off) Key() string { return "" }

// Open implements [stores.Module].
func (*Off) Open(*slog.Logger) stores.Store { return nil }

// Start implements [stores.Module].
func (*Off) Start(stores.Store) error { return nil }

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
	return caddy.ModuleInfo{ID: stores.Namespace + ".memory", New: func() caddy.Module { return new(Memory) }}
}

// UnmarshalCaddyfile reads:
//
//	memory {
//	    size <size>
//	    age  <duration>
//	}
func (s *Memory) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return parseBlock(d, s)
}

// Provision sets the defaults and checks the values.
func (s *Memory) Provision(caddy.Context) error { return option.Complete(s) }

// Key implements [stores.Module].
func (s *Memory) Key() string { return fmt.Sprint(s.Size, " ", s.Age) }

// Open implements [stores.Module].
func (s *Memory) Open(*slog.Logger) stores.Store {
	return responsestore.NewMemory(s.Size, time.Duration(s.Age))
}

// Start implements [stores.Module].
func (*Memory) Start(stores.Store) error { return nil }

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
	return caddy.ModuleInfo{ID: stores.Namespace + ".disk", New: func() caddy.Module { return new(Disk) }}
}

// UnmarshalCaddyfile reads:
//
//	disk [<dir>] {
//	    size <size>
//	    age  <duration>
//	}
func (s *Disk) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	d.Args(&s.Dir)
	return parseBlock(d, s)
}

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

// Key implements [stores.Module]. It does not contain the limits, so a reload can change them
// without opening another store.
func (s *Disk) Key() string { return s.dir }

// Open implements [stores.Module].
func (s *Disk) Open(*slog.Logger) stores.Store { return responsestore.NewDisk(s.dir) }

// Start implements [stores.Module].
func (s *Disk) Start(store stores.Store) error {
	disk := store.(*responsestore.Disk)
	disk.Limit(s.Size, time.Duration(s.Age))
	return disk.Start()
}

// Interface guards
var (
	_ stores.Module     = (*Off)(nil)
	_ stores.Module     = (*Memory)(nil)
	_ stores.Module     = (*Disk)(nil)
	_ caddy.Provisioner = (*Memory)(nil)
	_ caddy.Provisioner = (*Disk)(nil)
	_ stores.Closer     = (*responsestore.Disk)(nil)
)
