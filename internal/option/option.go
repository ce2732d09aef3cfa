// Package option reads and checks the options of this repository's Caddy modules. Each option is a
// field of a struct; the tags of the field describe the option.
package option

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// Option is an option of a block in the Caddyfile. It sets a field of a struct, and has the name that
// the field has in JSON. The field's tag `option` has the syntax of the value:
//
//	<n>, <size> or <duration>      above zero; also zero, if the tag default is "0" or the field is a pointer
//	<size>|off or <duration>|off   off sets the field to -1; in JSON any negative value means off
//	<text> or <name>               any text; an empty name, as an unset {$VARIABLE} gives, is refused
//	own|all                        one of these words; for a bool: on|off, or a single word such as force
//	max_queue [<duration>]         a value that may follow the value of max_queue, on the same line
//
// The field's tag `default` has the value for a field that is not set, written as in the Caddyfile.
type Option struct {
	Name     string
	Syntax   string // of the value
	LineName string // the name at the beginning of the line: Name, or the option whose value comes before this value

	defaultValue string
	field        reflect.Value
}

// Of returns the options of a struct and of the structs that it embeds.
func Of(block any) (options []Option) {
	for field, value := range reflect.Indirect(reflect.ValueOf(block)).Fields() {
		o := Option{Syntax: field.Tag.Get("option"), defaultValue: field.Tag.Get("default"), field: value}
		o.Name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
		o.LineName = o.Name
		if line, syntax, follows := strings.Cut(o.Syntax, " ["); follows {
			o.LineName, o.Syntax = line, strings.TrimSuffix(syntax, "]")
		}
		switch {
		case field.Anonymous:
			options = append(options, Of(value.Addr().Interface())...)
		case o.Syntax != "":
			options = append(options, o)
		}
	}
	return options
}

// Custom describes what the tags of an option cannot describe.
type Custom struct {
	Parse   func(d *caddyfile.Dispenser) error // reads the values after the name; nil: ParseLine reads them
	Check   func() error                       // refuses values that do not fit together; nil: no check
	Repeats bool                               // the option may be given several times
}

// formerOptions maps options of earlier releases to the errors that advise what to do instead.
var formerOptions = map[string]string{
	"ca": "ca is no longer an option: add the authority to those of the system, or name a file with all authorities " +
		"in SSL_CERT_FILE, in the environment of Caddy",
	"connect": noRemote,
	"token":   noRemote,
	"response_store": "response_store is called store now: " +
		"`store memory`, with `size 64MiB` in its block, for `response_store memory 64MiB`, `store disk` for one node and " +
		"`store redis <url>` for several instead of `response_store storage`, or `store off`",
	"start_timeout":    "start_timeout is no longer an option: a start that takes more than 10 seconds is tried again",
	"stop_timeout":     "stop_timeout is no longer an option: a process that has not stopped after 5 seconds is killed",
	"provider_retries": "provider_retries is no longer an option: " + noProvider,
	"provider_timeout": "provider_timeout is no longer an option: " + noProvider,
	"spares":           "spares is no longer an option: with `conversations off` no threads are started in advance",
	"dir": "dir is no longer an option of app_server: its working directory is a new, empty one; " +
		"for another one, let the command be a script that changes to it and passes on all arguments; record has a directory",
	"max_body_memory": "max_body_memory is no longer an option: it is four times max_body, at least 512MiB; set max_body",
}

// noProvider is the rest of the errors for the options about the model's provider.
const noProvider = "a request that the provider fails is repeated once, and a WebSocket may take 3 seconds to open; " +
	"for a provider in Codex's config.toml, set request_max_retries or websocket_connect_timeout_ms there"

// noRemote is the error for the options of an app-server that Caddy does not start.
const noRemote = "an app-server elsewhere is no longer supported: run a Caddy with this module beside it, and `reverse_proxy` to that Caddy here"

// ParseBlock reads the options of a block of the Caddyfile into a struct, to which the parameter
// block points. Errors have file and line.
func ParseBlock(d *caddyfile.Dispenser, block any, customOptions map[string]Custom) error {
	options, seen := Of(block), make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		custom, isCustom := customOptions[name]
		lineOptions := slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return o.LineName != name })
		if advice := formerOptions[name]; advice != "" {
			return d.Err(advice)
		}
		if !isCustom && len(lineOptions) == 0 {
			// The text after a = is not shown: it may be a key.
			before, _, found := strings.Cut(name, "=")
			if found {
				return d.Errf("unknown option %q; a value follows after a space, without =", before)
			}
			known := slices.Collect(maps.Keys(customOptions))
			for _, o := range options {
				known = append(known, o.LineName)
			}
			return d.Errf("unknown option %q%s", name, Suggestion(name, known))
		}
		if seen[name] && !custom.Repeats {
			return d.Errf("%s is given twice", name)
		}
		seen[name] = true
		parse := custom.Parse
		if parse == nil {
			parse = func(d *caddyfile.Dispenser) error { return ParseLine(d, lineOptions, custom.Check) }
		}
		if err := parse(d); err != nil {
			return err
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// Decode reads the JSON of a module with options into a struct. It refuses unknown options. For an
// option of an earlier release, the error advises what to do instead.
func Decode(data []byte, block any) error {
	err := caddy.StrictUnmarshalJSON(data, block)
	if err != nil {
		_, field, _ := strings.Cut(err.Error(), "unknown field ")
		if advice := formerOptions[strings.Trim(field, `"`)]; advice != "" {
			return errors.New(advice)
		}
	}
	return err
}

// Suggestion returns the part of an error that suggests the known name that is nearest to an unknown
// name. It returns "" if even that name differs in a third or more of its letters.
func Suggestion(name string, knownNames []string) string {
	nearest, leastDistance := "", len(name)
	for _, known := range knownNames {
		if d := editDistance(strings.ToLower(name), known); d*3 < len(known) && (d < leastDistance || d == leastDistance && known < nearest) {
			nearest, leastDistance = known, d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", nearest)
}

// editDistance returns how many bytes must be added, removed or replaced to turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance from the part of a that was read so far to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0] // in the loop: the distance from a[:i] to b[:j]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1, diagonal)
			if a[i] != b[j] {
				next = min(row[j], row[j+1], diagonal) + 1
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// ParseLine reads the values of a line into options, in their order. Only the first value is required.
// Then ParseLine calls check, if check is not nil.
func ParseLine(d *caddyfile.Dispenser, options []Option, check func() error) error {
	name, args := d.Val(), d.RemainingArgs()
	if len(args) == 0 || len(args) > len(options) {
		return d.ArgErr()
	}
	for i, arg := range args {
		if err := options[i].set(arg); err != nil {
			return d.WrapErr(fmt.Errorf("%s: %w", name, err))
		}
	}
	if check != nil {
		if err := check(); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

// quantity is a kind of number that an option can have as its value.
type quantity struct {
	parse                        func(string) (int64, error)
	description, zeroDescription string // the first describes a value that must be above zero, the second a value that may also be zero
}

var quantities = map[string]quantity{
	"<n>":        {parseNumber, "a number above zero", "a number from 0 up"},
	"<size>":     {parseSize, "a size above zero, such as 512KiB or 32MiB", ""},
	"<duration>": {parseDuration, "a duration above zero, such as 10s or 5m", "a duration from 0 up, such as 300ms or 1s"},
}

func parseNumber(arg string) (int64, error) { return strconv.ParseInt(arg, 10, strconv.IntSize) }

func parseSize(arg string) (int64, error) {
	bytes, err := humanize.ParseBytes(arg)
	if bytes > math.MaxInt64 {
		return 0, strconv.ErrRange
	}
	return int64(bytes), err
}

func parseDuration(arg string) (int64, error) {
	value, err := caddy.ParseDuration(arg)
	return int64(value), err
}

// quantity returns the kind of number that the option has as its value, and the least allowed number. ok is
// false if the value is not a number.
func (o *Option) quantity() (q quantity, least int64, ok bool) {
	q, ok = quantities[strings.TrimSuffix(o.Syntax, "|off")]
	if o.field.Kind() == reflect.Pointer || o.defaultValue == "0" {
		q.description = q.zeroDescription
		return q, 0, ok
	}
	return q, 1, ok
}

// set sets the field to a value that is written as in the Caddyfile.
func (o *Option) set(arg string) error {
	field := o.field
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	if q, least, ok := o.quantity(); ok {
		value, err := q.parse(arg)
		if arg == "off" && strings.HasSuffix(o.Syntax, arg) {
			value = -1
		} else if err != nil || value < least {
			return fmt.Errorf("%q is not %s", arg, q.description)
		}
		field.SetInt(value)
		return nil
	}
	if o.Syntax == "<name>" && arg == "" {
		return errors.New("must not be empty")
	}
	if field.Kind() == reflect.Bool {
		field.SetBool(arg != "off")
	} else {
		field.SetString(arg)
	}
	return CheckWord(arg, o.Syntax)
}

// CheckWord returns an error for a word that the syntax does not list. The syntax <text> or <name>
// allows any word.
func CheckWord(word, syntax string) error {
	allowed := strings.Split(syntax, "|")
	if strings.HasPrefix(syntax, "<") || slices.Contains(allowed, word) {
		return nil
	}
	return fmt.Errorf("%q must be one of %s", word, strings.Join(allowed, ", "))
}

// complete sets the option's default, or checks a value that is set: one from JSON was not checked yet.
func (o *Option) complete() error {
	if o.field.IsZero() && o.defaultValue != "" {
		return o.set(o.defaultValue)
	}
	field := reflect.Indirect(o.field)
	q, _, ok := o.quantity()
	switch {
	case !field.IsValid(): // the field is a nil pointer
		return nil
	// A number that is 0 here is allowed, or means that the option, which has no default, is not set.
	case ok && field.Int() < 0 && !strings.HasSuffix(o.Syntax, "|off"):
		return fmt.Errorf("must be %s", q.description)
	case field.Kind() == reflect.String && !field.IsZero():
		return CheckWord(field.String(), o.Syntax)
	}
	return nil
}

// Complete sets the defaults of a struct's options and checks their values.
func Complete(block any) error {
	for _, o := range Of(block) {
		if err := o.complete(); err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
	}
	return nil
}

// AbsolutePath replaces the placeholders in a path and makes it absolute. It leaves an empty path
// empty. A placeholder that is empty or unknown is an error.
func AbsolutePath(repl *caddy.Replacer, path string) (string, error) {
	path, err := repl.ReplaceOrErr(path, true, true)
	if path == "" || err != nil {
		return "", err
	}
	return caddy.FastAbs(path)
}
