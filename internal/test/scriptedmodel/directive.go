package scriptedmodel

import "strings"

type directive struct {
	name string // including its colon or equals sign
	arg  string
}

// directiveNames: one that ends with "=" is a setting, one that ends with a letter has no argument.
var directiveNames = []string{
	"say:", "verbatim:", "reason:", "tool:", "usetool:", "then",
	"http:", "limit:", "fail:", "incomplete:", "cutoff", "hang",
	"chunk=", "delay=", "firstdelay=", "usage:", "callid=", "price=",
}

const blank = " \t\r\n"

// isSetting reports whether the directive's argument ends at a space, as a question may follow it.
func isSetting(name string) bool {
	return strings.HasSuffix(name, "=") || name == "usage:"
}

// directiveAt returns the directive at the beginning of s.
func directiveAt(s string) (name string, ok bool) {
	for _, name := range directiveNames {
		rest, found := strings.CutPrefix(s, name)
		if !found {
			continue
		}
		if strings.HasSuffix(name, ":") || strings.HasSuffix(name, "=") {
			return name, true
		}
		// A word of ordinary text may look like a directive without argument.
		rest = strings.TrimLeft(rest, " \t\r")
		if rest == "" || rest[0] == '\n' || rest[0] == ';' {
			return name, true
		}
	}
	return "", false
}

// splitDirectives splits a prompt into its directives. plain is an ordinary question after
// settings, or the whole prompt if it does not begin with a directive.
func splitDirectives(prompt string) (directives []directive, plain string) {
	rest := strings.TrimLeft(prompt, blank)
	for rest != "" {
		name, ok := directiveAt(rest)
		if !ok {
			// This follows a setting: other directives extend to the next one.
			return directives, rest
		}
		rest = rest[len(name):]
		var arg string
		switch {
		case name == "verbatim:":
			arg, rest = rest, ""
		case isSetting(name):
			end := strings.IndexAny(rest+";", blank+";")
			arg, rest = rest[:end], strings.TrimLeft(rest[end:], blank+";")
		default:
			end := nextDirective(rest)
			arg, rest = strings.Trim(rest[:end], blank), strings.TrimLeft(rest[end:], blank+";")
		}
		directives = append(directives, directive{name, arg})
	}
	return directives, ""
}

// nextDirective returns the index of the line break or semicolon before the next directive, or the
// length of s. A semicolon at the end of a prompt is not part of a text.
func nextDirective(s string) int {
	for i := range len(s) {
		if s[i] != '\n' && s[i] != ';' {
			continue
		}
		rest := strings.TrimLeft(s[i+1:], blank)
		if _, ok := directiveAt(rest); ok || (s[i] == ';' && rest == "") {
			return i
		}
	}
	return len(s)
}
