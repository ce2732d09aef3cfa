package caddymodule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// option is one option of a block in the Caddyfile: how its line is read, its
// default, and the values that JSON may give it.
type option struct {
	name string
	// word reads the argument of an option that has exactly one, and args the
	// arguments of any other. With neither, the option exists in JSON only.
	word func(d *caddyfile.Dispenser, arg string) error
	args func(d *caddyfile.Dispenser) error
	// complete sets the default and checks the value. Nil: every value is valid.
	complete func() error
	// repeats allows the option more than once.
	repeats bool
}

// parse reads what follows the name.
func (o *option) parse(d *caddyfile.Dispenser) error {
	if o.args != nil {
		return o.args(d)
	}
	args := d.RemainingArgs()
	if len(args) != 1 {
		return d.ArgErr()
	}
	return o.word(d, args[0])
}

// parseBlock reads a block of options. An unknown option, and one that is given
// twice, is an error with file and line.
func parseBlock(d *caddyfile.Dispenser, options []option) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		i := slices.IndexFunc(options, func(o option) bool { return o.name == name && (o.word != nil || o.args != nil) })
		if i < 0 {
			// The text after a = is not shown: it may be a key.
			before, _, found := strings.Cut(name, "=")
			if found {
				return d.Errf("unknown option %q; a value follows after a space, without =", before)
			}
			return d.Errf("unknown option %q", name)
		}
		if seen[name] && !options[i].repeats {
			return d.Errf("%s is given twice", name)
		}
		seen[name] = true
		if err := options[i].parse(d); err != nil {
			return err
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// completeOptions sets the defaults of options and checks their values.
func completeOptions(options []option) error {
	for _, o := range options {
		if o.complete == nil {
			continue
		}
		if err := o.complete(); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// inJSON returns an option that has no line of its own in the Caddyfile.
func inJSON(o option) option {
	o.word, o.args = nil, nil
	return o
}

// number is an option with a whole number, which is at least 0 or 1.
func number(name string, field *int, least, byDefault int) option {
	return option{
		name:     name,
		word:     func(d *caddyfile.Dispenser, arg string) error { return parseNumber(d, arg, least, field) },
		complete: func() error { return defaultTo(field, byDefault, least) },
	}
}

// size is an option with a number of bytes above zero.
func size(name string, field *int64, byDefault int64) option {
	return option{
		name:     name,
		word:     func(d *caddyfile.Dispenser, arg string) error { return parseSize(d, arg, field) },
		complete: func() error { return defaultTo(field, byDefault, 1) },
	}
}

// duration is an option with a duration above zero.
func duration(name string, field *caddy.Duration, byDefault time.Duration) option {
	return option{
		name:     name,
		word:     func(d *caddyfile.Dispenser, arg string) error { return parseDuration(d, arg, field) },
		complete: func() error { return defaultTo(field, caddy.Duration(byDefault), 1) },
	}
}

// orOff returns an option that may also be off. The field is negative then, and
// every negative value in JSON is off.
func orOff[T int64 | caddy.Duration](o option, field *T) option {
	word, complete := o.word, o.complete
	o.word = func(d *caddyfile.Dispenser, arg string) error {
		if arg == "off" {
			*field = -1
			return nil
		}
		return word(d, arg)
	}
	o.complete = func() error {
		if *field < 0 {
			return nil
		}
		return complete()
	}
	return o
}

// text is an option with any text.
func text(name string, field *string) option {
	return option{name: name, word: func(_ *caddyfile.Dispenser, arg string) error {
		*field = arg
		return nil
	}}
}

// filled is an option with a text that is not empty: in quotes, a {$VARIABLE} that is not set
// would stand for the default, such as no keys at all.
func filled(name string, field *string) option {
	return option{name: name, word: func(d *caddyfile.Dispenser, arg string) error {
		if arg == "" {
			return d.Errf("%s must not be empty", name)
		}
		*field = arg
		return nil
	}}
}

// oneOf is an option with one of the allowed words.
func oneOf[T ~string](name string, field *T, byDefault T, allowed ...T) option {
	return option{
		name: name,
		word: func(d *caddyfile.Dispenser, arg string) error {
			*field = T(arg)
			return isOneOf(d, *field, allowed)
		},
		complete: func() error {
			if *field == "" {
				*field = byDefault
			}
			if !slices.Contains(allowed, *field) {
				return fmt.Errorf("must be one of %s, not %q", join(allowed), *field)
			}
			return nil
		},
	}
}

// offByDefault is an option that is on or off.
func offByDefault(name string, field *bool) option {
	return option{name: name, word: func(d *caddyfile.Dispenser, arg string) error {
		*field = arg == "on"
		return isOneOf(d, arg, []string{"on", "off"})
	}}
}

// onByDefault is an option that is on or off.
func onByDefault(name string, field **bool) option {
	return option{
		name: name,
		word: func(d *caddyfile.Dispenser, arg string) error {
			*field = new(arg == "on")
			return isOneOf(d, arg, []string{"on", "off"})
		},
		complete: func() error {
			if *field == nil {
				*field = new(true)
			}
			return nil
		},
	}
}

// defaultTo sets a field that is zero to its default. A negative field is an error.
func defaultTo[T int | int64 | caddy.Duration](field *T, byDefault, least T) error {
	switch {
	case *field == 0:
		*field = byDefault
	case *field < 0 && least > 0:
		return errors.New("must be positive")
	case *field < 0:
		return errors.New("must not be negative")
	}
	return nil
}

func parseNumber(d *caddyfile.Dispenser, arg string, least int, into *int) error {
	value, err := strconv.Atoi(arg)
	switch {
	case err == nil && value >= least:
		*into = value
		return nil
	case least == 0:
		return d.Errf("%q is not a number from 0 up", arg)
	}
	return d.Errf("%q is not a number above zero", arg)
}

// parseDuration reads a duration above zero: no timeout of this module is endless.
func parseDuration(d *caddyfile.Dispenser, arg string, into *caddy.Duration) error {
	value, err := caddy.ParseDuration(arg)
	if err != nil || value <= 0 {
		return d.Errf("%q is not a duration above zero, such as 10s or 5m", arg)
	}
	*into = caddy.Duration(value)
	return nil
}

func parseSize(d *caddyfile.Dispenser, arg string, into *int64) error {
	value, err := humanize.ParseBytes(arg)
	if err != nil || value == 0 || value > math.MaxInt64 {
		return d.Errf("%q is not a size above zero, such as 512KiB or 32MiB", arg)
	}
	*into = int64(value)
	return nil
}

// isOneOf refuses a word that is not allowed.
func isOneOf[T ~string](d *caddyfile.Dispenser, word T, allowed []T) error {
	if !slices.Contains(allowed, word) {
		return d.Errf("%q must be one of %s", word, join(allowed))
	}
	return nil
}

func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
