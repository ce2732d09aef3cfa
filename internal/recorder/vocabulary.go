package recorder

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed vocabulary.txt
var vocabularyText string

// The paragraphs of vocabulary.txt.
const (
	word = 1 << iota
	failureWord
	tag
)

// vocabulary has the words that may stay, with their paragraphs.
var vocabulary = func() map[string]int {
	all := make(map[string]int)
	for i, paragraph := range strings.Split(vocabularyText, "\n\n") {
		_, words, _ := strings.Cut(paragraph, "\n") // after the title
		for w := range strings.FieldsSeq(words) {
			all[w] |= 1 << i
		}
	}
	return all
}()

var (
	modelNames = regexp.MustCompile(`^(?:gpt|o\d|codex)[a-z0-9.-]{0,40}$`)
	// machineParts matches the parts of a message that may be an address or a path, which a client does not get.
	machineParts = regexp.MustCompile(`(?:^|[\s"'(=])/[^\s"'()]*|[^\s"'()]*(?:[@~]|:\\?/|\d\.\d+\.\d|[a-z\]]:\d|\\\\)[^\s"'()]*`)
	// privateKeys matches keys whose strings are masked even if texts are recorded.
	privateKeys = regexp.MustCompile(`(?i)authorization|cookie|api[-_]?key|secret|passw|credential|private[-_]?key|token$|e-?mail|` +
		`^(?:cwd|codex_?home|(?:base|server)_?url)$`)
	// pictures matches the beginning of a picture's base64, with the size of a PNG.
	pictures    = regexp.MustCompile(`^(?:iVBORw0KGgo[\w+/]{33}|/9j/[\w+/]{12}|R0lGOD[\w+/]{10}|UklGR[\w+/]{11})`)
	calls       = regexp.MustCompile(`"(?:arguments|input)": *\{$`)
	tokenCounts = regexp.MustCompile(`("[a-z_]*(?:tokens|eval_count)":)\d+`)
)
