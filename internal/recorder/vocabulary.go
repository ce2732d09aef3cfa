package recorder

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

//go:embed vocabulary.txt
var vocabularyText string

// uses says where a word may stay, and what may be the value of a key.
type uses uint32

// The sections of vocabulary.txt, in their order.
const (
	structural uses = 1 << iota
	identity
	model
	plainText
	plainString
	failureText
	deltaText
	binary
	opaque
	opaqueObject
	schema
	propertyNames
	tokenCount
	header
	route
	own
	structure
	word // not a key, as the ones below
	failureWord
	canonWord // a tag, tool or parameter of a <use_tool> block: what this server does with a block depends on it
)

// vocabulary has all that may stay of a recording without texts.
var vocabulary = func() map[string]uses {
	all, section := map[string]uses{"name": canonWord, "args": canonWord, "item": canonWord}, structural
	lines := strings.Split(vocabularyText[strings.Index(vocabularyText, "\n[")+2:], "\n")
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, "[") {
			section <<= 1
			continue
		}
		for word := range strings.FieldsSeq(line) {
			all[word] |= section
		}
	}
	for _, tool := range usetool.Canon() {
		all[tool.Name] |= word | canonWord
		for _, p := range tool.Params {
			all[p.Name] |= word | canonWord
			all[p.Alias] |= canonWord
		}
	}
	delete(all, "")
	return all
}()

var (
	modelNames = regexp.MustCompile(`^(?:gpt|o\d|codex)[a-z0-9.-]{0,40}$`)
	// retryHints matches when a client may try again, which stays in a message about a failure.
	retryHints = regexp.MustCompile(`(?i)try again in [0-9.hms]{1,16}\b`)
	// machineParts matches the parts of a message that may be an address or a path, which a client does not get.
	machineParts = regexp.MustCompile(`(?:^|[\s"'(=])/[^\s"'()]*|[^\s"'()]*(?:[@~]|:\\?/|\d\.\d+\.\d|[a-z\]]:\d|\\\\)[^\s"'()]*`)
	// privateKeys matches keys whose values are left out even if texts are recorded.
	privateKeys = regexp.MustCompile(`(?i)authorization|cookie|api[-_]?key|secret|passw|credential|private[-_]?key|token$|e-?mail|` +
		`^(?:headers?|env|cwd|config|codex_?home|(?:base|server)_?url)$`)
)
