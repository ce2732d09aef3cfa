package chat

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestNothingCrosses runs concurrent requests with different answers, and checks that no
// client gets a byte of another's.
func TestNothingCrosses(t *testing.T) {
	s := e2e.NewSite(t, "max_concurrent 300")
	const pairs = 36
	var wg sync.WaitGroup
	start := make(chan struct{})
	inFlight := make(chan struct{}, 12) // 24 turns at once keep a small machine busy
	for i := range pairs {
		wg.Go(func() {
			<-start
			inFlight <- struct{}{}
			defer func() { <-inFlight }()
			var pair sync.WaitGroup
			pair.Go(func() { askText(s, i) })
			pair.Go(func() { askCalls(s, i) })
			pair.Wait()
		})
	}
	close(start)
	wg.Wait()
}

// askText requests a text that is unique to this caller.
func askText(s *e2e.Site, i int) {
	own := strings.Repeat(fmt.Sprintf("<%d> ünï ", i), 20) + "."
	ask := s.Complete
	if i%2 == 0 {
		ask = s.Stream
	}
	got, err := ask(e2e.UserSays("chunk=5; verbatim:" + own))
	if err != nil || got.Content != own || len(got.Calls) != 0 {
		s.T.Errorf("caller %d: %+v, %v", i, got, err)
	}
}

// askCalls requests calls that are unique to this caller.
func askCalls(s *e2e.Site, i int) {
	params := e2e.UserSays(fmt.Sprintf(`tool:2 search_%d {"query":"%d of %%d"}`, i, i))
	params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool(fmt.Sprintf("search_%d", i))}
	ask := s.Stream
	if i%2 == 0 {
		ask = s.Complete
	}
	got, err := ask(params)
	if err != nil || len(got.Calls) != 2 || got.Content != "" {
		s.T.Errorf("caller %d: %+v, %v", i, got, err)
		return
	}
	for n, call := range got.Calls {
		if want := fmt.Sprintf(`{"query":"%d of %d"}`, i, n+1); call.Function.Arguments != want {
			s.T.Errorf("caller %d got the arguments %s", i, call.Function.Arguments)
		}
	}
}
