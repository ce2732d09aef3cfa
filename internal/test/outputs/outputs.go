// Package outputs makes the outputs of turns with which the encoders of all APIs are tested, and checks
// that what a client has of an answer is the same, streamed or whole.
package outputs

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Usage is that of each turn.
var Usage = codexrpc.Usage{TotalTokens: 12, InputTokens: 7, CachedInputTokens: 3, CacheWriteInputTokens: 1, OutputTokens: 5, ReasoningOutputTokens: 2}

// Text returns a piece of text.
func Text(s string) turn.Output { return turn.Output{Kind: turn.OutputText, Text: s} }

// Reasoning returns a piece of an item of reasoning.
func Reasoning(id, s string) turn.Output {
	return turn.Output{Kind: turn.OutputReasoning, ID: id, Text: s}
}

// Call returns a call, the n-th of its turn.
func Call(n int, id, name, arguments string) turn.Output {
	return turn.Output{Kind: turn.OutputCall, Call: n, ID: id, Name: name, Text: arguments}
}

// Finish returns the end of a turn.
func Finish(reason turn.FinishReason) turn.Output {
	return turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: reason, Usage: Usage}}
}

// pieces are texts that have broken encoders.
var pieces = []string{
	"", "l", "l", "ll", "aa", " ", "\n", "\r\n", "\"", "\\", "\x00", "\x1f", "\x7f", "\u2028", "ü", "😀", "\xff", "\xf0\x9f",
	"<use_tool>", "</script>", "data: [DONE]", `{"a":1}`, `{"error":null}`, "{", "}", "\ufeff", "\ufffd", "a longer piece of quite ordinary text",
}

func randomText(r *rand.Rand) (s string) {
	for range r.IntN(4) {
		s += pieces[r.IntN(len(pieces))]
	}
	return s
}

// Random returns a turn that says anything that a turn may say, in any order. It calls the
// tools, if there are some; most arguments are objects.
func Random(r *rand.Rand, tools ...string) (outs []turn.Output) {
	calls := 0
	for range r.IntN(20) {
		id := "id_" + string(rune('a'+r.IntN(3)))
		switch r.IntN(10) {
		case 0, 1, 2:
			outs = append(outs, Text(randomText(r)))
		case 3:
			outs = append(outs, turn.Output{Kind: turn.OutputText, Gap: true})
		case 4:
			outs = append(outs, Reasoning(id, randomText(r)))
		case 5:
			outs = append(outs, turn.Output{Kind: turn.OutputReasoning, ID: id, Part: 1, Gap: true, Text: "\n\n"},
				turn.Output{Kind: turn.OutputReasoning, ID: id, Part: 1, Text: randomText(r)})
		case 6:
			outs = append(outs, turn.Output{Kind: turn.OutputReasoningEnd, ID: id, Text: strings.ToValidUTF8(randomText(r), "")})
		case 7:
			if len(tools) == 0 {
				continue
			}
			arguments := `{"input":"` + string(rune(0xa0+r.IntN(900))) + `"}`
			if r.IntN(8) == 0 {
				arguments = randomText(r)
			}
			outs = append(outs, Call(calls, fmt.Sprint("call_", calls), tools[r.IntN(len(tools))], arguments))
			calls++
		case 8:
			outs = append(outs, turn.Output{Kind: turn.OutputSearchStart, ID: id},
				turn.Output{Kind: turn.OutputSearchEnd, ID: id, Text: `{"type":"search","query":"q"}`})
		case 9:
			outs = append(outs, turn.Output{Kind: turn.OutputAnnotations, Text: `[{"type":"url_citation","start_index":0,"end_index":1,"url":"u","title":"t"}]`})
		}
	}
	reasons := []turn.FinishReason{turn.FinishStop, turn.FinishLength, turn.FinishToolCalls, turn.FinishContentFilter}
	return append(outs, Finish(reasons[r.IntN(len(reasons))]))
}

// Cut cuts the texts of outputs between characters, as a turn may do.
func Cut(r *rand.Rand, outs []turn.Output) (cut []turn.Output) {
	for _, o := range outs {
		rest := o.Text
		for (o.Kind == turn.OutputText || o.Kind == turn.OutputReasoning) && !o.Gap && rest != "" {
			n := 1 + r.IntN(len(rest))
			for n < len(rest) && rest[n]&0xc0 == 0x80 {
				n++
			}
			if o.Text, rest = rest[:n], rest[n:]; rest != "" {
				cut = append(cut, o)
			}
		}
		cut = append(cut, o)
	}
	return cut
}
