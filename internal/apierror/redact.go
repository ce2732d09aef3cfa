package apierror

import (
	"regexp"
	"strings"
)

// maxShown bounds the text of a failure that a client gets, in bytes. A provider's
// answer may quote any amount.
const maxShown = 64 << 10

// The replacements of what is not for clients.
const (
	shownURL     = "[url]"
	shownAddress = "[address]"
	shownPath    = "[path]"
)

// anyURL matches a URL. Its slashes may be escaped as in JSON. Punctuation at its end
// belongs to the sentence around it.
const anyURL = `(?:[a-z][a-z0-9+.-]*)?:(?:\\?/){2}(?:(?:[^\s"'<>\\` + "`" + `]|\\/)*[^\s"'<>\\` + "`" + `.,;:!?)\]}])?`

// One match takes a time linear in the text. For all matches together to take a linear
// time, no alternative may look far ahead from a place that another one matches later.
var (
	// urlPhrase matches a URL with the words around it that mean nothing without it, as
	// Codex (", url: …") and its HTTP client (" for url (…)") write them.
	urlPhrase = regexp.MustCompile(`(?i),? url: ?` + anyURL + `| for url \(` + anyURL + `\)`)
	urls      = regexp.MustCompile(`(?i)` + anyURL)

	// hostPorts match the name of a host with a port. A name without a dot counts
	// only if it is localhost: "llama3:8" is a model.
	hostPorts = regexp.MustCompile(`(?i)\b(?:localhost|(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*):\d+\b`)
	// addresses match IP addresses, the longer ones in brackets.
	addresses = regexp.MustCompile(`(?i)\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+\b)?|\[[0-9a-f]*:[0-9a-f]*:[0-9a-f.:]*(?:%[^\]\s]+)?\](?::\d+\b)?`)

	// quotedPaths match paths in quotes, which may hold blanks, and barePaths
	// those that follow a blank or an opening mark.
	quotedPaths = regexp.MustCompile(`"(?:~?/|[A-Za-z]:\\|\\\\)[\w.][^"\n]*"|'(?:~?/|[A-Za-z]:\\|\\\\)[\w.][^'\n]*'|` +
		"`(?:~?/|[A-Za-z]:\\\\|\\\\\\\\)[\\w.][^`\\n]*`")
	barePaths = regexp.MustCompile(`(^|[\s"'` + "`" + `(\[{<=:,;|])(?:~?/|[A-Za-z]:\\|\\\\)[\w.](?:[^\s"'<>` + "`" + `]*[^\s"'<>` + "`" + `.,;:!?)\]}])?`)
)

// withoutURLs replaces URLs and network addresses. Codex names those of the model's
// provider.
func withoutURLs(text string) string {
	text = urlPhrase.ReplaceAllString(text, "")
	text = urls.ReplaceAllString(text, shownURL)
	text = hostPorts.ReplaceAllString(text, shownAddress)
	return addresses.ReplaceAllString(text, shownAddress)
}

// withoutPaths replaces the paths of files.
func withoutPaths(text string) string {
	text = quotedPaths.ReplaceAllStringFunc(text, func(quoted string) string {
		return quoted[:1] + shownPath + quoted[:1]
	})
	return barePaths.ReplaceAllString(text, "${1}"+shownPath)
}

// bounded cuts a text to maxShown bytes.
func bounded(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}
