package caddymodule

import (
	"cmp"
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

// option is an option of a block in the Caddyfile, with its default and the check of its value.
type option struct {
	name string
	// word reads an argument, which those of more may follow. Nil: args reads the line.
	word func(arg string) error
	more []option
	args func(d *caddyfile.Dispenser) error
	// check refuses arguments that do not fit together. Nil: all do.
	check func() error
	// complete sets the default and checks a value, also of JSON. Nil: every value is valid.
	complete func() error
	// repeats allows the option more than once.
	repeats bool
}

// then returns an option with arguments that may follow the first.
func (o option) then(more ...option) option {
	o.more = more
	return o
}

// parse reads what follows the name.
func (o option) parse(d *caddyfile.Dispenser) error {
	if o.args != nil {
		return o.args(d)
	}
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 1+len(o.more) {
		return d.ArgErr()
	}
	for i, each := range append([]option{o}, o.more...)[:len(args)] {
		if err := each.word(args[i]); err != nil {
			return d.WrapErr(err)
		}
	}
	if o.check != nil {
		if err := o.check(); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

// parseBlock reads a block of options. Errors have file and line.
func parseBlock(d *caddyfile.Dispenser, options []option) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		i := slices.IndexFunc(options, func(o option) bool { return o.name == name })
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
		if o.complete != nil {
			if err := o.complete(); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
		if err := completeOptions(o.more); err != nil {
			return err
		}
	}
	return nil
}

// quantity is an option with a value that is at least least, which parse reads.
func quantity[T int | int64 | caddy.Duration](name string, field *T, least, byDefault T, what string, parse func(string) (T, error)) option {
	return option{
		name: name,
		word: func(arg string) error {
			value, err := parse(arg)
			if err != nil || value < least {
				return fmt.Errorf("%q is not %s", arg, what)
			}
			*field = value
			return nil
		},
		complete: func() error {
			if *field = cmp.Or(*field, byDefault); *field < 0 {
				return fmt.Errorf("must be %s", what)
			}
			return nil
		},
	}
}

// number is an option with a whole number, which is at least 0 or 1.
func number(name string, field *int, least, byDefault int) option {
	what := "a number above zero"
	if least == 0 {
		what = "a number from 0 up"
	}
	return quantity(name, field, least, byDefault, what, strconv.Atoi)
}

// size is an option with a number of bytes above zero.
func size(name string, field *int64, byDefault int64) option {
	return quantity(name, field, 1, byDefault, "a size above zero, such as 512KiB or 32MiB", func(arg string) (int64, error) {
		bytes, err := humanize.ParseBytes(arg)
		if bytes > math.MaxInt64 {
			return 0, strconv.ErrRange
		}
		return int64(bytes), err
	})
}

// duration is an option with a duration above zero: no timeout of this module is endless.
func duration(name string, field *caddy.Duration, byDefault time.Duration) option {
	return quantity(name, field, 1, caddy.Duration(byDefault), "a duration above zero, such as 10s or 5m", parseDuration)
}

func parseDuration(arg string) (caddy.Duration, error) {
	value, err := caddy.ParseDuration(arg)
	return caddy.Duration(value), err
}

// orOff returns an option that may also be off. A negative value, also in JSON, is off.
func orOff[T int64 | caddy.Duration](o option, field *T) option {
	word, complete := o.word, o.complete
	o.word = func(arg string) error {
		if arg != "off" {
			return word(arg)
		}
		*field = -1
		return nil
	}
	o.complete = func() error {
		if *field < 0 {
			return nil
		}
		return complete()
	}
	return o
}

// orZero returns the option that with makes of a field that is nil if it is not set: its
// default is not the zero value, which is a value, too.
func orZero[T any](field **T, byDefault T, with func(value *T) option) option {
	value := new(T)
	o := with(value)
	word := o.word
	o.word = func(arg string) error {
		*field = value
		return word(arg)
	}
	o.complete = func() error {
		if *field == nil {
			*field = new(byDefault)
		}
		if complete := with(*field).complete; complete != nil {
			return complete()
		}
		return nil
	}
	return o
}

// text is an option with any text.
func text(name string, field *string) option {
	return option{name: name, word: func(arg string) error {
		*field = arg
		return nil
	}}
}

// filled is an option with a text that is not empty: in quotes, a {$VARIABLE} that is not set
// would stand for the default, such as no keys at all.
func filled(name string, field *string) option {
	return option{name: name, word: func(arg string) error {
		if arg == "" {
			return fmt.Errorf("%s must not be empty", name)
		}
		*field = arg
		return nil
	}}
}

// texts is an option with one text or more.
func texts(name string, field *[]string) option {
	return option{name: name, args: func(d *caddyfile.Dispenser) error {
		if *field = d.RemainingArgs(); len(*field) == 0 {
			return d.ArgErr()
		}
		return nil
	}}
}

// oneOf is an option with one of the allowed words.
func oneOf[T ~string](name string, field *T, byDefault T, allowed ...T) option {
	return option{
		name: name,
		word: func(arg string) error {
			*field = T(arg)
			return isOneOf(*field, allowed)
		},
		complete: func() error {
			*field = cmp.Or(*field, byDefault)
			return isOneOf(*field, allowed)
		},
	}
}

// isOneOf refuses a word that is not allowed.
func isOneOf[T ~string](word T, allowed []T) error {
	if slices.Contains(allowed, word) {
		return nil
	}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(allowed), " ", ", "), "[]")
	return fmt.Errorf("%q must be one of %s", word, list)
}

// offByDefault is an option that is on or off.
func offByDefault(name string, field *bool) option {
	return option{name: name, word: func(arg string) error {
		*field = arg == "on"
		return isOneOf(arg, []string{"on", "off"})
	}}
}

// onByDefault is an option that is on or off.
func onByDefault(name string, field **bool) option {
	return orZero(field, true, func(on *bool) option { return offByDefault(name, on) })
}
