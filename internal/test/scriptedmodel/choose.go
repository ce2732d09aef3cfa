package scriptedmodel

import (
	"slices"
	"strings"
)

// SummaryText is the answer to a request to compact the conversation. It must
// never reach a client.
const SummaryText = "SCRIPTED SUMMARY of the conversation so far."

// script returns the script for req, with the server's settings where it has
// none of its own.
func (s *Server) script(req Request) Script {
	script := s.choose(req)
	if script.Chunk == 0 {
		script.Chunk = s.opts.Chunk
	}
	if script.Delay == 0 {
		script.Delay = s.opts.Delay
	}
	if script.FirstDelay == 0 {
		script.FirstDelay = s.opts.FirstDelay
	}
	return script
}

// choose asks in the order that the package comment tells.
func (s *Server) choose(req Request) Script {
	s.mu.Lock()
	writers := slices.Clone(s.writers)
	s.mu.Unlock()
	for _, w := range slices.Backward(writers) {
		if script, ok := w.script(req); ok {
			return script
		}
	}
	if req.IsCompaction() {
		return Script{Output: []Output{Say(SummaryText)}}
	}
	prompt := req.UserText()
	results := req.ToolResults()
	directives, plain := splitDirectives(prompt)
	if len(directives) == 0 {
		return Script{Output: demo(req, prompt)}
	}
	sections, err := build(directives, plain, req)
	if err != nil {
		return Script{End: badRequest(err.Error())}
	}
	if plain != "" {
		script := settings(sections[0])
		script.Output = demo(req, plain)
		return script
	}
	script, ok := section(sections, len(results))
	if !ok {
		script.Output = []Output{quote(results)}
	}
	return script
}

// section picks the section of a script that answers to so many results. Without
// one that does, ok is false and the script has the settings alone.
func section(sections []Script, results int) (script Script, ok bool) {
	calls := 0 // of the sections before
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

// settings returns the settings of s, without what it says and how it ends.
func settings(s Script) Script {
	return Script{Chunk: s.Chunk, Delay: s.Delay, FirstDelay: s.FirstDelay, Usage: s.Usage}
}

// quote tells what tools have answered.
func quote(results []Item) Say {
	const shown = 2000 // runes of each result
	texts := make([]string, len(results))
	for i, r := range results {
		texts[i] = abridge(r.Output.String(), shown)
	}
	if len(texts) == 1 {
		return Say("The tool said: " + texts[0])
	}
	return Say("The tools said:\n- " + strings.Join(texts, "\n- "))
}

// abridge cuts text after so many runes, and shows that it did.
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
