package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// script is what the model says to a request. Each choice, and each try, is
// another performance of it.
type script struct {
	Reasoning int // bytes of its summary, in up to two parts
	Texts     []int
	Calls     []int // bytes of their arguments, about
	End       end
	EndAt     int           // failures: how many messages of the answer come before
	Delta     int           // bytes of a delta at most
	Pause     time.Duration // now and then between two of them, at most
	Noise     bool          // messages that mean nothing to a client are between
}

// end is how a turn ends.
type end string

const (
	endWell    end = "well"
	endFailed  end = "failed" // with an error of the provider's
	endLength  end = "length" // at the provider's limit
	endSilent  end = "silent" // not at all
	endOutside end = "interrupted by another"
)

// said is what one performance of a script says.
type said struct {
	who       string // token and performance
	reasoning []string
	texts     []string
	calls     []toolCall
	usage     usage
}

type toolCall struct{ id, name, arguments string }

type usage struct{ input, output, cached, reasoned int }

// performance is what the script says for the n-th time.
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
		a.calls = append(a.calls, toolCall{
			id:        fmt.Sprintf("call-%s-%d", a.who, i),
			name:      toolNames[random.IntN(len(toolNames))],
			arguments: fmt.Sprintf(`{"n": %d, "a": %s}`, i, quote(text(fmt.Sprintf("%s.call%d", a.who, i), n))),
		})
	}
	a.usage = usage{input: 10 + random.IntN(1000), output: 10 + random.IntN(1000)}
	a.usage.cached, a.usage.reasoned = random.IntN(a.usage.input), random.IntN(a.usage.output)
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

// maxDeltas bounds the deltas of a text, about: a run is to be short.
const maxDeltas = 100

// randomSize is the length of a text: mostly short, at times longer than the
// buffers of the network.
func randomSize(random *rand.Rand) int {
	switch random.IntN(20) {
	case 0:
		return 20_000 + random.IntN(100_000)
	case 1, 2, 3:
		return 2000 + random.IntN(6000)
	}
	return 1 + random.IntN(600)
}
