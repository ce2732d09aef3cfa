package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Each of these differs between two runs of one program.
var (
	randomIDs = regexp.MustCompile(`\b[a-z]{2,8}[_-][A-Za-z0-9_-]*[A-Za-z0-9]{16,}[A-Za-z0-9_-]*|\bcall_\d+_\d+\b|\btool_\d+_\d+_[a-z0-9]{8}|` +
		`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	changing = []struct {
		is *regexp.Regexp
		as string
	}{
		{regexp.MustCompile(`"(created|created_at|completed_at|expires_at|total_duration|load_duration|prompt_eval_duration|eval_duration|sequence_number)":\d+`), `"$1":0`},
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
		{regexp.MustCompile(`"(encrypted_content|signature|obfuscation)":"[^"]{20,}"`), `"$1":"SECRET"`},
		{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
		{regexp.MustCompile(`\bfp_[0-9a-f]+`), "fp_"},
		// On purpose:
		{regexp.MustCompile(` /v1/completions,|, and perhaps pictures|(, refusal or image_url| or refusal) in a message of the role assistant`), ""},
	}
	// textPaths are where a text is in the events of a stream that belong together.
	textPaths = []string{
		"delta", "choices.0.delta.content", "choices.0.delta.reasoning_content", "choices.0.delta.tool_calls.0.function.arguments",
		"delta.text", "delta.thinking", "delta.partial_json", "message.content", "message.thinking", "response", "thinking",
	}
	// skippedHeaders depend on time, or say nothing about the answer.
	skippedHeaders = []string{"Date", "Content-Length", "Sec-Websocket-Accept", "Openai-Processing-Ms", "Retry-After-Ms", "X-Ratelimit-Reset-Requests"}
)

// names gives each random id the number of its first use.
type names map[string]string

func (n names) normal(text string) string {
	text = randomIDs.ReplaceAllStringFunc(text, func(id string) string {
		if _, ok := n[id]; !ok {
			kind, _, _ := strings.Cut(strings.ReplaceAll(id, "-", "_"), "_")
			if len(kind) == 8 && !strings.HasPrefix(id, "chatcmpl") {
				kind = "uuid"
			}
			n[id] = fmt.Sprintf("%s#%d", kind, len(n))
		}
		return n[id]
	})
	for _, c := range changing {
		text = c.is.ReplaceAllString(text, c.as)
	}
	return text
}

// normal returns the lines by which an answer is compared.
func (a answer) normal(n names) (lines []string) {
	lines = append(lines, fmt.Sprint(a.status, " ", http.StatusText(a.status)))
	for name, values := range a.header {
		if !slices.Contains(skippedHeaders, name) {
			lines = append(lines, name+": "+n.normal(strings.Join(values, ", ")))
		}
	}
	slices.Sort(lines[1:])
	body := strings.Split(strings.TrimSuffix(string(a.body), "\n"), "\n")
	// The choices of a stream run in parallel.
	slices.SortStableFunc(body, func(a, b string) int { return choice(a) - choice(b) })
	body = slices.DeleteFunc(body, func(line string) bool { return line == "" || strings.HasPrefix(line, "event: ping") })
	for _, line := range joinDeltas(body) {
		lines = append(lines, n.normal(line))
	}
	return lines
}

// choice orders the events of a stream by their choices: those that all share are the last.
func choice(line string) int {
	data, ok := strings.CutPrefix(line, "data: ")
	index := gjson.Get(data, "choices.0.index")
	if ok && index.Exists() {
		return int(index.Int())
	}
	return 1 << 10
}

// sequence is what also differs between such events.
var sequence = regexp.MustCompile(`"(sequence_number|created_at)":("[^"]*"|\d+)`)

// joinDeltas joins the texts of successive, otherwise equal events: a delta's size depends on time.
func joinDeltas(lines []string) (joined []string) {
	var last, text, event string
	for _, line := range lines {
		if strings.HasPrefix(line, "event: ") {
			event = line + " "
			continue
		}
		prefix, data, isData := event, line, strings.HasPrefix(line, "data: ")
		if isData {
			prefix, data = event+"data: ", line[len("data: "):]
		}
		event = ""
		v := deltaOf(data)
		if !v.Exists() || len(lines) == 1 {
			joined, last = append(joined, prefix+data), ""
			continue
		}
		before, after := sequence.ReplaceAllString(data[:v.Index], `"$1":0`), sequence.ReplaceAllString(data[v.Index+len(v.Raw):], `"$1":0`)
		if before+after != last {
			last, text, joined = before+after, "", append(joined, "")
		}
		text += v.Str
		joined[len(joined)-1] = fmt.Sprintf("%s%s%q%s", prefix, before, text, after)
	}
	return joined
}

// deltaOf returns the text of an event which may be joined with the next one.
func deltaOf(data string) gjson.Result {
	if strings.HasPrefix(data, "{") {
		for _, path := range textPaths {
			if v := gjson.Get(data, path); v.Type == gjson.String && v.Str != "" {
				return v
			}
		}
	}
	return gjson.Result{}
}
