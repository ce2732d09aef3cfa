package turn_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// stopSets are stop sequences for the texts that are generated.
var stopSets = [][]string{
	nil, {"\n\n"}, {"aa"}, {"ll", "l <"}, {"look.", "so"}, {"</use_tool>"}, {"<use_tool><", "</name>"}, {"_tool>\n"},
	{"ü 2", "好 👋", "\u00a0", "\r\n"}, {"</q>\n</use_tool>l", "<use_tool><use"}, {"find"}, {"the rest", "```\n"}, {" "},
}

// checkCuts checks all that holds for every turn, and compares with the
// reference. The two bytes choose the stop sequences and the limit.
func checkCuts(t testing.TB, data []byte, stops, tokens byte, r *rand.Rand) {
	options, events := generate(data)
	options.StopSequences = stopSets[int(stops)%len(stopSets)]
	options.MaxTokens = int(tokens) % 160
	checkEvents(t, options, events, r)
	checkCut(t, options, events, streamed, r)
	for range 2 {
		checkCut(t, options, recut(events, r), streamed, r)
	}
}

// checkCut compares a turn with the reference. read reads the answer.
func checkCut(t testing.TB, options turn.Options, events []codexrpc.Event, read func(testing.TB, []turn.Output) answer, r *rand.Rand) {
	t.Helper()
	outputs, report := feed(options, events, r)
	got := read(t, outputs)
	uncut, before := cutEvents(options, events)
	outputs, wantReport := feed(uncut, before, r)
	want := read(t, outputs)
	want.Reasoning = got.Reasoning              // more of it may come before the cut is seen
	wantReport.TextDiffers = report.TextDiffers // what the cut turn says at its end was cut off
	// A call that was told again before the cut was seen counts, though it is behind the cut.
	wantReport.Duplicates = max(wantReport.Duplicates, report.Duplicates)
	if reflect.DeepEqual(got, want) && reflect.DeepEqual(report, wantReport) {
		return
	}
	t.Errorf("got  %s %+v\nwant %s %+v", show(got), report, show(want), wantReport)
	t.Logf("options %+v", options)
	for _, e := range events {
		t.Logf("%+v", e)
	}
	t.Log("cut:")
	for _, e := range before {
		t.Logf("%+v", e)
	}
}

// TestCuts runs many random turns with stop sequences and limits.
func TestCuts(t *testing.T) {
	r := draw.Random(t)
	for range draw.Cases(50, 200) {
		data := make([]byte, r.IntN(120))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		stops, tokens := byte(r.Uint32()), byte(r.Uint32())
		if checkCuts(t, data, stops, tokens, r); t.Failed() {
			t.Fatalf("%q %d %d", data, stops, tokens)
		}
	}
}

// TestHardTextsCut: each of the texts with a limit in each mode, cut at any
// byte.
func TestHardTextsCut(t *testing.T) {
	for name, text := range hardTexts {
		t.Run(name, func(t *testing.T) {
			random := draw.Random(t)
			for mode, tokens := range map[turn.Mode]int{turn.ModeJSON: 9, turn.ModeXML: 4} {
				o := turn.Options{MaxTokens: tokens, StopSequences: []string{"so", "/q><", "\n\n"}, IDSuffix: "xy", ToolOptions: turn.ToolOptions{OutputMode: mode, TextualTools: turn.TextualOn, SuppressTailAfterTools: new(false)}}
				checkHardText(t, random, o, text, 64) // behind these bytes, nine tokens have ended
			}
		})
	}
}

// FuzzCuts lets the fuzzer choose the turn, its stop sequences and its limit.
func FuzzCuts(f *testing.F) {
	f.Add(uint64(1), []byte("\x01\x00\x00\x01\x00\x00\x00\x00\x00\x08\x00\x0a"), byte(3), byte(20))
	f.Fuzz(func(t *testing.T, seed uint64, data []byte, stops, tokens byte) {
		checkCuts(t, data, stops, tokens, rand.New(rand.NewPCG(seed, 1)))
	})
}
