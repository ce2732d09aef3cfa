package faults

import (
	"net/http"
	"strings"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// streaming is a stream whose first text was read.
type streaming struct {
	*http.Response
	begun string
}

// openStreams opens n streams whose text begins with Half, and reads that of each.
func openStreams(s *e2e.Site, n int, prompt string) []streaming {
	s.T.Helper()
	opened := make([]streaming, n)
	var all sync.WaitGroup
	for i := range opened {
		all.Go(func() {
			response := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.ChatBody(prompt, map[string]any{"stream": true})), nil)
			opened[i] = streaming{response, e2e.ReadUntil(s.T, response.Body, "Half")}
		})
	}
	all.Wait()
	return opened
}

// rest reads the rest of a stream and returns all of it.
func rest(s *e2e.Site, of streaming) string { return of.begun + s.Read(of.Response) }

// isWhole reports whether a stream is complete.
func isWhole(text string) bool {
	return strings.Contains(text, `"finish_reason":"stop"`) && strings.HasSuffix(text, "data: [DONE]\n\n")
}

// half is a prompt for a stream that continues for some seconds after "Half".
var half = "chunk=4; delay=50ms; say:Half" + strings.Repeat(".", 240)
