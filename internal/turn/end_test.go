package turn_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// The reference of what becomes of the text of a turn. A turn is made of tokens of which it is known what
// they are, so that the reference neither scans nor waits: it looks at all of them at once.

// tokenKind says what a token is.
type tokenKind int

const (
	tokenText    tokenKind = iota
	tokenGivenUp           // a block, or the beginning of one, that is no call
	tokenBlock             // a block that is a call
	tokenCall              // a structured call
	tokenEnd               // the end of a message
)

type token struct {
	kind tokenKind
	text string // as the model wrote it; the arguments of a structured call
	open bool   // a block without an end at the end of its message
}

// block reports whether the token is a call in either form.
func (k token) call() bool { return k.kind == tokenBlock || k.kind == tokenCall }

// Texts that are no blocks, and blocks that are no calls. What opens a block and
// does not close it must be followed by another block or the end of the message.
var (
	plainTokens  = []string{"so ", " ", "\n", "l", "ll", "Grüße 👋 ", "</use_tool>", "<use_tools>", "a < b"}
	closedTokens = []string{
		"<use_tool></use_tool>", "<use_tool><q>x</q></use_tool>", "<use_tool><name> </name></use_tool>", "<use_tool/>",
		"<use_tool><name>a<b</name></use_tool>", "<use_tool><name>find</name><args>{</use_tool>",
	}
	openTokens = []string{"<use_tool>", "<use_tool><name>find</name><q>x</q>", `<use_tool id="1"><name>fi`, "<use_tool><name>find</name><q>see "}
)

const undeclared = "<use_tool><name>note</name><q>1</q></use_tool>"

// someTokens makes a turn. The calls differ, unless dedup is to find some that do not.
func someTokens(c *choices, accepting, dedup bool) []token {
	var all []token
	serial := 10
	next := func() int {
		if dedup && c.next(2) == 0 {
			return c.next(3)
		}
		serial++
		return serial
	}
	for len(c.data) > 0 && len(all) < 40 {
		switch kind := c.next(12); kind {
		case 0, 1:
			all = append(all, token{kind: tokenBlock, text: find(next())})
		case 2:
			all = append(all, token{kind: tokenGivenUp, text: closedTokens[c.next(len(closedTokens))]})
		case 3:
			open := openTokens[c.next(len(openTokens))]
			all = append(all, token{kind: tokenGivenUp, text: open, open: true}, token{kind: tokenEnd})
		case 4:
			all = append(all, token{kind: tokenGivenUp, text: openTokens[c.next(len(openTokens))]}, token{kind: tokenBlock, text: find(next())})
		case 5:
			all = append(all, token{kind: tokenEnd})
		case 6:
			serial++
			all = append(all, token{kind: tokenEnd}, token{kind: tokenCall, text: `{"q":"ü ` + strconv.Itoa(serial) + `"}`})
		case 7:
			if accepting {
				all = append(all, token{kind: tokenGivenUp, text: undeclared})
			}
		default:
			all = append(all, token{kind: tokenText, text: plainTokens[c.next(len(plainTokens))]})
		}
	}
	return append(all, token{kind: tokenEnd})
}

func eventsOf(all []token) []codexrpc.Event {
	w := &writer{}
	for _, k := range all {
		switch k.kind {
		case tokenEnd:
			w.whole()
			w.item++
			w.message.Reset()
		case tokenCall:
			w.call("c"+strconv.Itoa(w.calls), k.text)
		default:
			w.say(k.text)
		}
	}
	w.add(codexrpc.Event{Kind: codexrpc.EventResponseCompleted})
	w.add(codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted})
	return w.events
}

// withGaps puts the empty lines between messages in the place of their ends, and
// takes out the calls that dedup drops.
func withGaps(all []token, dedup bool) []token {
	var shown []token
	said, ended := false, false
	seen := make(map[string]bool)
	for _, k := range all {
		switch {
		case k.kind == tokenEnd:
			ended = said
			continue
		case k.kind != tokenCall:
			if ended {
				shown = append(shown, token{kind: tokenText, text: "\n\n"})
			}
			said, ended = true, false
		}
		if k.kind == tokenBlock && dedup {
			if seen[k.text] {
				continue
			}
			seen[k.text] = true
		}
		shown = append(shown, k)
	}
	return shown
}

// upToLimit cuts tokens off behind the last one that the client may get. What an Obsidian client would
// run counts in both modes, but only such a client does not get it.
func upToLimit(all []token, o turn.Options) (left []token, truncated bool) {
	first := o.StopAfterTools == turn.StopFirst
	limit := o.ToolBlockMax
	if first {
		limit = 1
	}
	calls, given := 0, len(all)
	content := "" // as an Obsidian client reads it
	for i, k := range all {
		next := content + k.text
		if k.kind == tokenCall {
			if strings.LastIndex(content, "<use_tool>") > strings.LastIndex(content, "</use_tool>") {
				content += "</use_tool>"
			}
			next = content + blockOf(k)
		}
		switch isCall := k.call() && calls == limit; {
		case limit == 0:
		case isCall, o.OutputMode == turn.ModeXML && runBy(next) > limit:
			return all[:min(i, given)], true
		case runBy(next) > limit:
			truncated = true
		}
		content = next
		if k.call() {
			if calls++; first {
				given = i + 1
			}
		}
	}
	return all[:given], truncated
}

var (
	runBlock = regexp.MustCompile(`(?s)<use_tool>(.*?)(?:</use_tool>|$)`)
	runName  = regexp.MustCompile(`(?s)<name>(.*?)</name>`)
)

// runBy counts the blocks of a text that an Obsidian client runs.
func runBy(text string) (n int) {
	for _, block := range runBlock.FindAllStringSubmatch(text, -1) {
		if name := runName.FindStringSubmatch(block[1]); name != nil && strings.TrimSpace(name[1]) != "" {
			n++
		}
	}
	return n
}

// expected is the content and the number of calls of a turn.
func expected(all []token, o turn.Options) (content string, calls int, truncated bool) {
	all, truncated = upToLimit(withGaps(all, o.ToolBlockDedup), o)
	var b strings.Builder
	for len(all) > 0 {
		// A stretch reaches to the next call, or to the end.
		n := 0
		var stretch strings.Builder
		open, kept := false, 0
		for n < len(all) && !all[n].call() {
			if all[n].kind == tokenGivenUp {
				open = all[n].open
			}
			stretch.WriteString(all[n].text)
			if all[n].kind == tokenGivenUp {
				kept = stretch.Len()
			}
			n++
		}
		last := n == len(all)
		text := stretch.String()
		blank := strings.TrimSpace(text) == ""
		switch {
		case o.OutputMode == turn.ModeJSON && blank && (calls > 0 || !last):
			text = "" // it parts nothing but calls
		case last && calls > 0 && *o.SuppressTailAfterTools:
			text = text[:kept]
		}
		b.WriteString(text)
		if last {
			break
		}
		if o.OutputMode == turn.ModeXML {
			if blank && calls > 0 {
				b.WriteString(o.ToolBlockDelimiter)
			}
			if open && all[n].kind == tokenCall {
				b.WriteString("</use_tool>")
			}
			b.WriteString(blockOf(all[n]))
		}
		calls++
		all = all[n+1:]
	}
	return b.String(), calls, truncated
}

func blockOf(k token) string {
	if k.kind == tokenBlock {
		return k.text
	}
	q := strings.TrimSuffix(strings.TrimPrefix(k.text, `{"q":"`), `"}`)
	return "<use_tool>\n<name>find</name>\n<q>" + q + "</q>\n</use_tool>"
}

// checkGivenUp makes a turn of bytes and compares it with the reference, however it is cut.
func checkGivenUp(t testing.TB, data []byte, r *rand.Rand) {
	c := &choices{data}
	o := c.options()
	o.TextualTools = turn.TextualOn
	all := someTokens(c, o.AcceptTextual != nil, o.ToolBlockDedup)
	events := eventsOf(all)
	checkEvents(t, o, events, r)
	want, calls, truncated := expected(all, o)
	outputs, report := feed(o, recut(events, r), r)
	got := streamed(t, outputs)
	content := ""
	if got.Content != nil {
		content = *got.Content
	}
	if content != want || report.Calls != calls || report.Truncated != truncated {
		t.Errorf("%+v of %+v:\ngot  %q, %+v\nwant %q, %d calls, truncated %t", o, all, content, report, want, calls, truncated)
	}
	checkNothingLost(t, o, all, content)
}

// checkNothingLost wants each block that is no call in the content, in order, of
// a turn that was not ended early.
func checkNothingLost(t testing.TB, o turn.Options, all []token, content string) {
	if o.StopAfterTools == turn.StopFirst || o.ToolBlockMax > 0 {
		return
	}
	for _, k := range all {
		if k.kind != tokenGivenUp {
			continue
		}
		_, rest, ok := strings.Cut(content, k.text)
		if !ok {
			t.Errorf("%q is lost", k.text)
			return
		}
		content = rest
	}
}

func TestGivenUpBlocks(t *testing.T) { randomTurns(t, 80, 400, checkGivenUp) }

// FuzzGivenUp lets the fuzzer choose the turn.
func FuzzGivenUp(f *testing.F) {
	f.Add(uint64(1), []byte("\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03\x01"))
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		checkGivenUp(t, data, rand.New(rand.NewPCG(seed, 1)))
	})
}
