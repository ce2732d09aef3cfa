package turn_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
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
	checkCut(t, options, events, r)
	for range 2 {
		checkCut(t, options, recut(events, r), r)
	}
}

// checkCut compares a turn with the reference.
func checkCut(t testing.TB, options turn.Options, events []codexrpc.Event, r *rand.Rand) {
	t.Helper()
	outputs, report := feed(options, events, r)
	got := streamed(t, outputs)
	uncut, before := cutEvents(options, events)
	outputs, wantReport := feed(uncut, before, r)
	want := streamed(t, outputs)
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

func TestCuts(t *testing.T) {
	randomTurns(t, 50, 200, func(t testing.TB, data []byte, r *rand.Rand) {
		checkCuts(t, data, byte(r.Uint32()), byte(r.Uint32()), r)
	})
}

// FuzzCuts lets the fuzzer choose the turn, its stop sequences and its limit.
func FuzzCuts(f *testing.F) {
	f.Add(uint64(1), []byte("\x01\x00\x00\x01\x00\x00\x00\x00\x00\x08\x00\x0a"), byte(3), byte(20))
	f.Fuzz(func(t *testing.T, seed uint64, data []byte, stops, tokens byte) {
		checkCuts(t, data, stops, tokens, rand.New(rand.NewPCG(seed, 1)))
	})
}

// The reference of stop sequences and of the limit of tokens: the events of the turn are cut beforehand,
// in the simplest way, and a machine that knows of neither is told that the model ended there. Which
// tokens a piece of text has, and so where the limit cuts it, is what the tests of tokens check.

// cutter cuts a turn's events. A stretch is text that is looked at in one
// piece: what a message says up to its end or to a structured call.
type cutter struct {
	options turn.Options // without the cuts
	stops   []string
	limit   *tokens.Limit // nil: there is none

	events  []codexrpc.Event  // up to the cut
	stretch []int             // those of the stretch
	counted int               // bytes of the stretch that the limit has seen
	last    string            // the message that spoke last
	said    map[string]string // by message
	done    map[string]bool   // messages
	seen    map[string]bool   // calls
}

// The ends of a turn that is cut.
var (
	cutByStop  = &codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted}
	cutByLimit = &codexrpc.Event{
		Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusFailed,
		Err: &codexrpc.TurnError{Message: "Incomplete response returned, reason: max_output_tokens"},
	}
)

// cutEvents returns the events up to the cut, and then the end of the turn.
func cutEvents(o turn.Options, events []codexrpc.Event) (turn.Options, []codexrpc.Event) {
	c := &cutter{
		options: o, stops: o.StopSequences,
		said: make(map[string]string), done: make(map[string]bool), seen: make(map[string]bool),
	}
	c.options.StopSequences, c.options.MaxTokens = nil, 0
	if o.MaxTokens > 0 {
		c.limit = tokens.NewLimit(o.MaxTokens)
	}
	for _, e := range events {
		if end := c.add(e); end != nil {
			return c.options, append(c.events, *end)
		}
	}
	return c.options, c.events
}

// add takes the next event. The end is not nil if the turn is cut there.
func (c *cutter) add(e codexrpc.Event) (end *codexrpc.Event) {
	switch e.Kind {
	case codexrpc.EventTextDelta:
		if c.done[e.ItemID] {
			return nil
		}
		return c.text(e.ItemID, e.Text)
	case codexrpc.EventItemCompleted:
		if rest, ok := strings.CutPrefix(e.Text, c.said[e.ItemID]); ok && !c.done[e.ItemID] {
			if end := c.text(e.ItemID, rest); end != nil {
				return end
			}
		}
		c.done[e.ItemID] = true
		e.Text = c.said[e.ItemID] // its rest has become a delta
		if c.last == e.ItemID {
			end = c.close()
		}
	case codexrpc.EventFunctionCall:
		if !c.seen[told(e)] {
			return c.call(e)
		}
	case codexrpc.EventResponseCompleted, codexrpc.EventTurnCompleted:
		end = c.close()
	}
	if end == nil {
		c.events = append(c.events, e)
	}
	return end
}

// told is what an event tells of a call.
func told(e codexrpc.Event) string { return fmt.Sprintf("%q %q %q", e.CallID, e.Name, e.Text) }

func (c *cutter) text(item, text string) *codexrpc.Event {
	if text == "" {
		return nil
	}
	if c.last != "" && c.last != item {
		if end := c.close(); end != nil {
			return end
		}
		if c.limit != nil && !c.limit.Fits(1) {
			return cutByLimit
		}
	}
	c.last = item
	c.said[item] += text
	c.stretch = append(c.stretch, len(c.events))
	c.events = append(c.events, codexrpc.Event{Kind: codexrpc.EventTextDelta, ItemID: item, Text: text})
	all := c.stretchText()
	if _, found := turn.UntilFirst(all, c.stops); found {
		return c.close()
	}
	return c.count(all[:len(all)-overlap(all, c.stops)])
}

// overlap is how many bytes at the end of a text may begin a stop sequence.
func overlap(text string, stops []string) (n int) {
	for _, s := range stops {
		for k := range s {
			if strings.HasSuffix(text, s[:k]) {
				n = max(n, k)
			}
		}
	}
	return n
}

// count shows the limit what is new in the text of the stretch, and cuts the stretch if that is too much.
func (c *cutter) count(text string) (end *codexrpc.Event) {
	piece := text[c.counted:]
	if c.limit == nil || piece == "" {
		return nil
	}
	within, exceeded := c.limit.Add(piece)
	if exceeded {
		c.cutAt(c.counted + len(within))
		return cutByLimit
	}
	c.counted = len(text)
	return nil
}

func (c *cutter) stretchText() string {
	var b strings.Builder
	for _, i := range c.stretch {
		b.WriteString(c.events[i].Text)
	}
	return b.String()
}

// close ends the stretch, and cuts it if it has to be.
func (c *cutter) close() (end *codexrpc.Event) {
	text, found := turn.UntilFirst(c.stretchText(), c.stops)
	if end = c.count(text); end == nil && found {
		c.cutAt(len(text))
		end = cutByStop
	}
	if c.limit != nil {
		c.limit.End()
	}
	c.stretch, c.counted = nil, 0
	return end
}

// cutAt leaves so many bytes of the stretch, and no event after them.
func (c *cutter) cutAt(rest int) {
	for _, i := range c.stretch {
		e := &c.events[i]
		e.Text = e.Text[:min(rest, len(e.Text))]
		if rest -= len(e.Text); rest == 0 {
			c.events = c.events[:i+1]
			return
		}
	}
}

func (c *cutter) call(e codexrpc.Event) *codexrpc.Event {
	c.seen[told(e)] = true
	if end := c.close(); end != nil {
		return end
	}
	if c.limit != nil && !c.limit.Fits(1) {
		return cutByLimit
	}
	before := c.calls()
	c.events = append(c.events, e)
	if c.limit != nil && c.calls() > before {
		c.limit.Whole(e.Name)
		if c.limit.Whole(e.Text); !c.limit.Fits(0) {
			return cutByLimit
		}
	}
	return nil
}

func (c *cutter) calls() int {
	m := turn.New(&c.options)
	m.Feed(c.events)
	return m.Report().Calls
}
