package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// script is the model's answer to a request, of which each choice and attempt is a performance.
type script struct {
	Reasoning int // bytes of the summary, in up to two parts
	Texts     []int
	Calls     []int // approximate bytes of arguments
	End       end
	EndAt     int           // number of messages of the answer before a failure
	Delta     int           // maximum bytes of a delta
	Pause     time.Duration // maximum pause between deltas
	Noise     bool          // there are messages that do not matter to a client
}

type end string

const (
	endWell    end = "well"
	endFailed  end = "failed" // with an error of the provider
	endLength  end = "length" // at the provider's limit
	endSilent  end = "silent" // never
	endOutside end = "interrupted by another"
	endTooLong end = "too long"   // for the model's window
	endNothing end = "no summary" // although it was asked for one
	endAlone   end = "alone"      // the answer was to be a summary
)

// said is the content of one performance of a script.
type said struct {
	who       string // token and number of the performance
	reasoning []string
	texts     []string
	calls     []apiclient.Call
	usage     usage
}

type usage apiclient.Usage

// performance returns the content of the n-th performance.
func (s *script) performance(token string, n int) *said {
	a := &said{who: fmt.Sprintf("%s/%d", token, n)}
	random := randomOf(a.who)
	if s.Reasoning > 0 {
		parts := 1 + random.IntN(2)
		for i := range parts {
			a.reasoning = append(a.reasoning, text(fmt.Sprintf("%s.thought%d", a.who, i), max(1, s.Reasoning/parts)))
		}
	}
	for i, n := range s.Texts {
		a.texts = append(a.texts, text(fmt.Sprintf("%s.text%d", a.who, i), n))
	}
	for i, n := range s.Calls {
		a.calls = append(a.calls, apiclient.Call{
			ID:        fmt.Sprintf("call-%s-%d", a.who, i),
			Name:      toolNames[random.IntN(len(toolNames))],
			Arguments: fmt.Sprintf(`{"n": %d, "a": %s}`, i, quote(text(fmt.Sprintf("%s.call%d", a.who, i), n))),
		})
	}
	a.usage = usage{Input: 10 + random.IntN(1000), Output: 10 + random.IntN(1000)}
	a.usage.Cached, a.usage.Reasoned = random.IntN(a.usage.Input), random.IntN(a.usage.Output)
	return a
}

// toolNames are the tools of all requests with calls.
var toolNames = []string{"search", "read_file", "write_file"}

// randomScript draws a script.
func randomScript(random *rand.Rand, calm bool) *script {
	s := &script{Delta: 1 << random.IntN(9), End: endWell, Noise: random.IntN(2) == 0}
	if random.IntN(3) == 0 {
		s.Reasoning = 1 + random.IntN(300)
	}
	for range random.IntN(3) {
		s.Texts = append(s.Texts, randomSize(random))
	}
	if random.IntN(3) == 0 {
		for range 1 + random.IntN(4) {
			s.Calls = append(s.Calls, random.IntN(400))
		}
	}
	if len(s.Texts)+len(s.Calls) == 0 {
		s.Texts = []int{1 + random.IntN(100)}
	}
	for _, n := range s.Texts {
		s.Delta = max(s.Delta, n/maxDeltas)
	}
	if random.IntN(2) == 0 {
		s.Pause = time.Duration(1+random.IntN(800)) * time.Millisecond
	}
	if calm || random.IntN(3) > 0 {
		return s
	}
	s.End = []end{endFailed, endLength, endSilent, endOutside}[random.IntN(4)]
	s.EndAt = random.IntN(20)
	return s
}

// maxDeltas bounds the deltas of a text, approximately, to keep runs short.
const maxDeltas = 100

// randomSize returns a text's length, mostly short, sometimes beyond the network's buffers.
func randomSize(random *rand.Rand) int {
	switch random.IntN(20) {
	case 0:
		return 20_000 + random.IntN(100_000)
	case 1, 2, 3:
		return 2000 + random.IntN(6000)
	}
	return 1 + random.IntN(600)
}
