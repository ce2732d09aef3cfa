package conversations

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestFollowUpsAtOnce streams many conversations side by side, each of which sends its next
// request as soon as it has read the end of the answer, and expects that they go on in
// their threads, though Codex has not always completed the turn by then.
func TestFollowUpsAtOnce(t *testing.T) {
	s := e2e.NewSite(t, "")
	const talks, turns = 12, 6
	var all sync.WaitGroup
	for i := range talks {
		all.Go(func() {
			params := e2e.UserSays("")
			params.Messages = nil
			params.Tools = []openai.ChatCompletionToolUnionParam{e2e.SearchTool("localSearch")}
			for turn := range turns {
				prompt := fmt.Sprintf("say:answer %d in talk %d.", turn, i)
				if turn%3 == 1 {
					prompt += `; tool:localSearch {"query":"a"}; then; say:Found.`
				}
				params.Messages = append(params.Messages, openai.UserMessage(prompt))
				if err := streamTurn(s, &params); err != nil {
					t.Errorf("talk %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	threads := make(map[string]bool)
	for _, one := range s.Prompts() {
		threads[one.Key] = true
	}
	// A busy machine may take longer than a request waits.
	const tolerated = 8
	if len(threads) > talks+tolerated {
		t.Errorf("%d conversations took %d threads", talks, len(threads))
	}
}

// streamTurn streams answers, and answers their calls, until there are none.
func streamTurn(s *e2e.Site, params *openai.ChatCompletionNewParams) error {
	for {
		answer, err := s.NewStreaming(*params)
		if err != nil {
			return err
		}
		message := answer.Choices[0].Message
		params.Messages = append(params.Messages, message.ToParam())
		if len(message.ToolCalls) == 0 {
			return nil
		}
		for _, call := range message.ToolCalls {
			params.Messages = append(params.Messages, openai.ToolMessage("found: "+strings.ToUpper(call.Function.Arguments), call.ID))
		}
	}
}
