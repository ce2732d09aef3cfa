package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
)

// TestNothingCrosses runs concurrent requests with different answers, and checks that no
// client gets a byte of another's.
func TestNothingCrosses(t *testing.T) {
	s := newSite(t, "max_concurrent 300")
	const pairs = 100
	var wg sync.WaitGroup
	start := make(chan struct{})
	inFlight := make(chan struct{}, 24) // 48 turns at once keep a small machine busy
	for i := range pairs {
		wg.Go(func() {
			<-start
			inFlight <- struct{}{}
			defer func() { <-inFlight }()
			var pair sync.WaitGroup
			pair.Go(func() { s.askText(i) })
			pair.Go(func() { s.askCalls(i) })
			pair.Wait()
		})
	}
	close(start)
	wg.Wait()
}

// askText requests a text that is unique to this caller.
func (s *site) askText(i int) {
	own := strings.Repeat(fmt.Sprintf("<%d> ünï ", i), 20) + "."
	ask := s.complete
	if i%2 == 0 {
		ask = s.stream
	}
	got, err := ask(userSays("chunk=5; verbatim:" + own))
	if err != nil || got.content != own || len(got.calls) != 0 {
		s.t.Errorf("caller %d: %+v, %v", i, got, err)
	}
}

// askCalls requests calls that are unique to this caller.
func (s *site) askCalls(i int) {
	params := userSays(fmt.Sprintf(`tool:2 search_%d {"query":"%d of %%d"}`, i, i))
	params.Tools = []openai.ChatCompletionToolUnionParam{searchTool(fmt.Sprintf("search_%d", i))}
	ask := s.stream
	if i%2 == 0 {
		ask = s.complete
	}
	got, err := ask(params)
	if err != nil || len(got.calls) != 2 || got.content != "" {
		s.t.Errorf("caller %d: %+v, %v", i, got, err)
		return
	}
	for n, call := range got.calls {
		if want := fmt.Sprintf(`{"query":"%d of %d"}`, i, n+1); call.Function.Arguments != want {
			s.t.Errorf("caller %d got the arguments %s", i, call.Function.Arguments)
		}
	}
}
