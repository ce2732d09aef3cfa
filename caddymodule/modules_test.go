package caddymodule

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
)

func init() {
	caddy.RegisterModule(LinePattern{})
	caddy.RegisterModule(notAPattern{})
	caddy.RegisterModule(plainPattern{})
	caddy.RegisterModule(hermesPattern{})
}

// LinePattern is an example of a guest module: calls that a model writes as a line of their own,
//
//	CALL readNote {"notePath": "a.md"}
//
// for
//
//	codex {
//	    textual_pattern line {
//	        word CALL
//	    }
//	}
type LinePattern struct {
	// The word before the name of the tool. Default: CALL.
	Word string `json:"word,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (LinePattern) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.codex.patterns.line",
		New: func() caddy.Module { return new(LinePattern) },
	}
}

// UnmarshalCaddyfile reads the block shown above.
func (p *LinePattern) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the pattern
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		if d.Val() != "word" {
			return d.Errf("unknown option %q", d.Val())
		}
		if !d.AllArgs(&p.Word) {
			return d.ArgErr()
		}
	}
	return nil
}

// Provision sets the default.
func (p *LinePattern) Provision(caddy.Context) error {
	if p.Word == "" {
		p.Word = "CALL"
	}
	return nil
}

// Opener returns the word and a space.
func (p *LinePattern) Opener() string { return p.Word + " " }

// Begin returns a reader of one line.
func (p *LinePattern) Begin() aggregator.BlockReader { return lineReader{} }

// lineReader ends a block with its line. It needs no memory.
type lineReader struct{}

// Next implements aggregator.BlockReader.
func (lineReader) Next(b byte) aggregator.BlockState {
	if b == '\n' {
		return aggregator.BlockComplete
	}
	return aggregator.BlockOpen
}

// Parse splits the line.
func (p *LinePattern) Parse(block string) (name, arguments string, err error) {
	name, arguments, _ = strings.Cut(strings.TrimPrefix(block, p.Opener()), " ")
	if arguments = strings.TrimSpace(arguments); !json.Valid([]byte(arguments)) {
		return "", "", errors.New("the arguments are not JSON")
	}
	return name, arguments, nil
}

// Interface guards
var (
	_ aggregator.Pattern    = (*LinePattern)(nil)
	_ caddy.Provisioner     = (*LinePattern)(nil)
	_ caddyfile.Unmarshaler = (*LinePattern)(nil)
)

// notAPattern is a module of the namespace that is something else.
type notAPattern struct{}

func (notAPattern) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.codex.patterns.none", New: func() caddy.Module { return new(notAPattern) }}
}

// plainPattern is a pattern without options: nothing reads its line in the Caddyfile.
type plainPattern struct {
	toolcall.Pattern
	Word string `json:"word,omitempty"`
}

func (plainPattern) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.codex.patterns.plain", New: func() caddy.Module { return new(plainPattern) }}
}

// hermesPattern is the module that the package toolcall shows.
type hermesPattern struct{ toolcall.Pattern }

func (hermesPattern) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.codex.patterns.hermes", New: func() caddy.Module { return new(hermesPattern) }}
}

func TestTextualPatterns(t *testing.T) {
	checkOptions(t, map[string]string{
		"textual_pattern hermes":                                `{"textual_patterns":{"hermes":{}}}`,
		"textual_pattern line":                                  `{"textual_patterns":{"line":{}}}`,
		"textual_pattern line {\nword RUN\n}\ntool_block_max 2": `{"textual_patterns":{"line":{"word":"RUN"}},"tool_block_max":2}`,
		"textual_pattern plain":                                 `{"textual_patterns":{"plain":{}}}`,
		"textual_pattern plain {\n}\ntool_block_max 2":          `{"textual_patterns":{"plain":{}},"tool_block_max":2}`,
		"textual_pattern hermes\ntextual_pattern line":          `{"textual_patterns":{"hermes":{},"line":{}}}`,
		"textual_pattern hermes {\n}\ntextual_tools on":         `{"textual_patterns":{"hermes":{}},"textual_tools":"on"}`,
	})
}
