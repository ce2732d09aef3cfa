package scriptedmodel

import (
	"cmp"
	"slices"
	"strings"
)

// SummaryText begins each summary. Clients must never get one that they have not asked for.
const SummaryText = "SCRIPTED SUMMARY of the conversation so far."

// script returns the script for req, with the defaults for settings that it lacks.
func (s *Server) script(req Request) Script {
	script := counted(req, s.choose(req))
	script.Chunk = cmp.Or(script.Chunk, 16)
	script.Delay = cmp.Or(script.Delay, s.opts.Delay)
	return script
}

// choose returns the script for req, in the order of the package comment.
func (s *Server) choose(req Request) Script {
	s.mu.Lock()
	writers := slices.Clone(s.writers)
	s.mu.Unlock()
	for _, w := range slices.Backward(writers) {
		if script, ok := w.script(req); ok {
			return script
		}
	}
	if req.IsCompaction() || req.AsksForSummary() {
		return Script{Output: []Output{summary(req)}}
	}
	prompt := leadingReminders.ReplaceAllString(req.UserText(), "")
	if answer, ok := recall(req, prompt); ok {
		return Script{Output: []Output{answer}}
	}
	results := req.ToolResults()
	directives, plain := splitDirectives(prompt)
	if len(directives) == 0 {
		return s.opts.Answer(req, prompt)
	}
	sections, err := build(directives, plain)
	switch {
	case err != nil && s.opts.AnswersInvalid:
		return s.opts.Answer(req, prompt)
	case err != nil:
		return Script{End: badRequest(err.Error())}
	case plain != "":
		return settings(sections[0]).over(s.opts.Answer(req, plain))
	}
	script, ok := section(sections, len(results))
	if !ok {
		script.Output = []Output{quote(results)}
	}
	return script
}

// section returns the section that answers so many results, or, if none does, settings and false.
func section(sections []Script, results int) (script Script, ok bool) {
	calls := 0 // calls of the sections before
	for _, s := range sections {
		if results <= calls {
			return s, true
		}
		for _, out := range s.Output {
			if _, isCall := out.(Call); isCall {
				calls++
			}
		}
	}
	return settings(sections[len(sections)-1]), false
}

// over returns a script with the settings of s instead of its own, where s has any.
func (s Script) over(other Script) Script {
	other.Chunk, other.Delay, other.FirstDelay = cmp.Or(s.Chunk, other.Chunk), cmp.Or(s.Delay, other.Delay), cmp.Or(s.FirstDelay, other.FirstDelay)
	other.Usage, other.Price = cmp.Or(s.Usage, other.Usage), cmp.Or(s.Price, other.Price)
	return other
}

// settings returns the settings of s, without its output and end.
func settings(s Script) Script {
	return Script{Chunk: s.Chunk, Delay: s.Delay, FirstDelay: s.FirstDelay, Usage: s.Usage, Price: s.Price}
}

// quote returns a message with the results of tools.
func quote(results []Item) Say {
	const shown = 2000 // runes per result
	texts := make([]string, len(results))
	for i, r := range results {
		texts[i] = abridge(r.Output.String(), shown)
	}
	if len(texts) == 1 {
		return Say("The tool said: " + texts[0])
	}
	return Say("The tools said:\n- " + strings.Join(texts, "\n- "))
}

// abridge cuts text after this number of runes and then adds an ellipsis.
func abridge(text string, runes int) string {
	n := 0
	for i := range text {
		if n == runes {
			return text[:i] + "…"
		}
		n++
	}
	return text
}
