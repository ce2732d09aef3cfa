package scriptedmodel

import "strings"

// directive is one directive as it stands in the prompt.
type directive struct {
	name string // with the colon or the equals sign that belongs to it
	arg  string
}

// directiveNames are all directives. A name that ends with "=" is a setting, one
// that ends with a letter takes no argument.
var directiveNames = []string{
	"say:", "verbatim:", "reason:", "tool:", "usetool:", "then",
	"http:", "limit:", "fail:", "incomplete:", "cutoff", "hang",
	"chunk=", "delay=", "firstdelay=", "usage:", "callid=",
}

const blank = " \t\r\n"

// isSetting reports whether the argument of the directive ends at a space, so
// that an ordinary question may follow.
func isSetting(name string) bool {
	return strings.HasSuffix(name, "=") || name == "usage:"
}

// directiveAt returns the directive with which s begins.
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

// splitDirectives splits a prompt into its directives. plain is an ordinary
// question that follows settings. A prompt that does not begin with a directive
// has none.
func splitDirectives(prompt string) (directives []directive, plain string) {
	rest := strings.TrimLeft(prompt, blank)
	for rest != "" {
		name, ok := directiveAt(rest)
		if !ok {
			// Only after settings can something else come: all other
			// directives take what is before the next one.
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

// nextDirective returns the index of the line break or semicolon before the next
// directive, or the length of s. A semicolon or a space at the very end of a
// prompt belongs to no text.
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
