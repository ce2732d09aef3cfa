package turn_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// answer is what a client knows in the end, whatever the form of the answer.
type answer struct {
	Content   *string // nil: null
	Reasoning string
	Calls     []wireCall
	Finish    string
	Failure   string
}

type wireCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type wireMessage struct {
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content"`
	Calls     []wireCall `json:"tool_calls"`
}

type wireChoices struct {
	Choices []struct {
		Message wireMessage `json:"message"`
		Delta   wireMessage `json:"delta"`
		Finish  string      `json:"finish_reason"`
	} `json:"choices"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// streamed is what a client of the stream puts together. As the SDKs do, it
// takes a content without any text for null beside calls.
func streamed(t testing.TB, outputs []turn.Output) (a answer) {
	var content strings.Builder
	s := chat.NewEncoder(chat.Meta{})
	s.Begin(func(_ string, data []byte) error {
		var chunk wireChoices
		must.OK(t, json.Unmarshal(data, &chunk))
		if chunk.Error != nil {
			a.Failure = chunk.Error.Message
			return nil
		}
		choice := chunk.Choices[0]
		if choice.Delta.Content != nil {
			content.WriteString(*choice.Delta.Content)
		}
		a.Reasoning += choice.Delta.Reasoning
		a.Finish += choice.Finish
		for _, call := range choice.Delta.Calls {
			if call.Index == len(a.Calls) {
				a.Calls = append(a.Calls, call)
			} else {
				a.Calls[call.Index].Function.Arguments += call.Function.Arguments
			}
		}
		return nil
	})
	for _, o := range outputs {
		err := error(nil)
		if o.Kind == turn.OutputFailure {
			err = s.Fail(failures.APIError(o.Err))
		} else {
			err = s.Write(0, o)
		}
		must.OK(t, err)
	}
	if text := content.String(); text != "" || len(a.Calls) == 0 {
		a.Content = &text
	}
	return a
}

// notStreamed is what a client of the whole body reads.
func notStreamed(t testing.TB, outputs []turn.Output) (a answer) {
	b := chat.NewEncoder(chat.Meta{})
	b.Begin(nil)
	for _, o := range outputs {
		if o.Kind == turn.OutputFailure {
			return answer{Failure: failures.APIError(o.Err).Message}
		}
		_ = b.Write(0, o)
	}
	var body wireChoices
	must.OK(t, json.Unmarshal(b.JSON(), &body))
	m := body.Choices[0].Message
	for i := range m.Calls {
		m.Calls[i].Index = i
	}
	return answer{m.Content, m.Reasoning, m.Calls, body.Choices[0].Finish, ""}
}

// feed runs a machine over events, in batches of random size.
func feed(o turn.Options, events []codexrpc.Event, r *rand.Rand) ([]turn.Output, turn.Report) {
	m := turn.New(&o)
	var outputs []turn.Output
	for len(events) > 0 {
		n := 1 + r.IntN(min(len(events), 8))
		outputs = append(outputs, m.Feed(events[:n])...)
		events = events[n:]
	}
	return outputs, m.Report()
}

// recut cuts the deltas of text and reasoning elsewhere, down to characters.
func recut(events []codexrpc.Event, r *rand.Rand) []codexrpc.Event {
	var cut []codexrpc.Event
	small := r.IntN(2) == 0
	for _, e := range events {
		if last := len(cut) - 1; r.IntN(3) == 0 && last >= 0 && joins(cut[last], e) {
			e.Text = cut[last].Text + e.Text
			cut = cut[:last]
		}
		if e.Kind != codexrpc.EventTextDelta && e.Kind != codexrpc.EventReasoningDelta {
			cut = append(cut, e)
			continue
		}
		for rest := e.Text; rest != ""; {
			n := 1 + r.IntN(len(rest))
			if small {
				n = 1
			}
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			e.Text, rest = rest[:n], rest[n:]
			cut = append(cut, e)
		}
	}
	return cut
}

// joins reports whether b goes on where a ends.
func joins(a, b codexrpc.Event) bool {
	return a.Kind == b.Kind && a.ItemID == b.ItemID && a.Index == b.Index &&
		(a.Kind == codexrpc.EventTextDelta || a.Kind == codexrpc.EventReasoningDelta)
}

// checkTurn generates a turn and checks all that holds for every turn.
func checkTurn(t testing.TB, data []byte, r *rand.Rand) {
	options, events := generate(data)
	checkEvents(t, options, events, r)
}

func checkEvents(t testing.TB, options turn.Options, events []codexrpc.Event, r *rand.Rand) {
	outputs, report := feed(options, events, r)
	want := streamed(t, outputs)
	checkOutputs(t, options, events, outputs, report)
	checkContent(t, options, events, want)
	for range 4 {
		outputs, again := feed(options, recut(events, r), r)
		got := streamed(t, outputs)
		if options.MaxTokens == 0 && !reflect.DeepEqual(got, want) { // the place of a limit depends on the deltas
			t.Errorf("cut otherwise:\ngot  %s\nwant %s", show(got), show(want))
		}
		if options.MaxTokens == 0 && !reflect.DeepEqual(again, report) {
			t.Errorf("cut otherwise:\ngot  %+v\nwant %+v", again, report)
		}
		whole := notStreamed(t, outputs)
		if got.Failure != "" {
			whole.Content, whole.Reasoning, whole.Calls = got.Content, got.Reasoning, got.Calls // only streams have a part
		}
		if !reflect.DeepEqual(whole, got) {
			t.Errorf("not streamed %s\nstreamed %s", show(whole), show(got))
		}
	}
	if t.Failed() {
		t.Logf("options %+v", options)
		for _, e := range events {
			t.Logf("%+v", e)
		}
	}
}

func show(a answer) string {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings, all of it
	}
	return string(text)
}

// checkOutputs checks the order of outputs and the report.
func checkOutputs(t testing.TB, o turn.Options, events []codexrpc.Event, outputs []turn.Output, report turn.Report) {
	written := make(map[string]int) // blocks that the model wrote, and how often
	for _, block := range blocksOf(events) {
		written[withoutAttributes(block)]++
	}
	calls, ends := 0, 0
	for i, out := range outputs {
		switch out.Kind {
		case turn.OutputFinish, turn.OutputFailure:
			ends++
			if i != len(outputs)-1 {
				t.Error("an output after the end")
			}
		case turn.OutputCall:
			if calls++; o.OutputMode == turn.ModeXML {
				if !strings.HasPrefix(outputs[i-1].Text, "<use_tool>") && !strings.HasPrefix(outputs[i-1].Text, "[") {
					t.Errorf("a client does not find %q", outputs[i-1].Text)
				}
				checkBlock(t, outputs[i-1], written)
			}
		}
	}
	aborted := 0
	for _, n := range report.Aborted {
		aborted += n
	}
	switch {
	case ends != 1:
		t.Errorf("%d ends", ends)
	case report.Started != report.Flushed+aborted:
		t.Errorf("begun blocks that did not end: %+v", report)
	case report.Calls != calls || o.ToolBlockMax > 0 && calls > o.ToolBlockMax:
		t.Errorf("%d calls of %d: %+v", calls, o.ToolBlockMax, report)
	}
}

// checkBlock wants a call's block in a text of its own: made of a structured call, or the model's,
// each of which is used once. Instead of a block that cannot be there is a text that nobody runs.
func checkBlock(t testing.TB, before turn.Output, written map[string]int) {
	text := before.Text
	if strings.HasPrefix(text, "[The call of ") && !strings.Contains(text, "<") {
		return
	}
	if before.Kind != turn.OutputText || !strings.HasPrefix(text, "<use_tool") || !strings.HasSuffix(text, "</use_tool>") {
		t.Errorf("before a call: %+v", before)
	}
	made := strings.HasPrefix(text, "<use_tool>\n<name>find</name>\n")
	if written[text]--; written[text] < 0 && !made {
		t.Errorf("the model wrote no such block, or not so often: %q", text)
	}
}

// checkContent checks when content is null, and that where nothing is filtered
// out in obsidian-xml, it is what the model wrote.
func checkContent(t testing.TB, o turn.Options, events []codexrpc.Event, a answer) {
	if a.Content == nil && o.OutputMode == turn.ModeXML {
		t.Error("content is null in obsidian-xml")
	}
	unfiltered := o.StopAfterTools == turn.StopOff && !*o.SuppressTailAfterTools && o.ToolBlockMax == 0 && !o.ToolBlockDedup && o.ToolBlockDelimiter == ""
	uncut := len(o.StopSequences) == 0 && o.MaxTokens == 0
	asWritten := len(o.Patterns) == 0 // blocks of other forms become <use_tool> blocks
	if o.OutputMode != turn.ModeXML || !unfiltered || !uncut || !asWritten {
		return
	}
	for _, e := range events {
		if e.Kind == codexrpc.EventFunctionCall {
			return
		}
	}
	if text := textOf(events); withoutAttributes(*a.Content) != withoutAttributes(text) {
		t.Errorf("content %q\nwritten %q", *a.Content, text)
	}
}

// withoutAttributes is a text without the attributes of <use_tool>, which calls in obsidian-xml do not
// have.
func withoutAttributes(text string) string {
	return strings.ReplaceAll(text, `<use_tool id="1">`, "<use_tool>")
}

// textOf is what the model wrote, with an empty line between messages.
func textOf(events []codexrpc.Event) string { return strings.Join(messagesOf(events), "\n\n") }

// messagesOf are the texts of the messages, told in the simplest way: the text of each is that of its
// deltas, and more if the whole knows more.
func messagesOf(events []codexrpc.Event) []string {
	var all []string
	said := make(map[string]string)
	done := make(map[string]bool)
	last := ""
	add := func(item, text string) {
		if text == "" {
			return
		}
		if last != item {
			all = append(all, "")
		}
		last = item
		said[item] += text
		all[len(all)-1] += text
	}
	for _, e := range events {
		switch e.Kind {
		case codexrpc.EventTextDelta:
			if !done[e.ItemID] {
				add(e.ItemID, e.Text)
			}
		case codexrpc.EventItemCompleted:
			if rest, ok := strings.CutPrefix(e.Text, said[e.ItemID]); ok && !done[e.ItemID] {
				add(e.ItemID, rest)
			}
			done[e.ItemID] = true
		}
	}
	return all
}

// blocksOf are the blocks in what the model wrote, message by message.
func blocksOf(events []codexrpc.Event) []string {
	var blocks []string
	for _, message := range messagesOf(events) {
		for _, b := range aggregator.New(aggregator.Options{}).ExtractBlocks(message) {
			blocks = append(blocks, message[b.Start:b.End])
		}
	}
	return blocks
}

// randomTurns checks the turns that random bytes make, until one fails.
func randomTurns(t *testing.T, few, many int, check func(t testing.TB, data []byte, r *rand.Rand)) {
	r := draw.Random(t)
	for range draw.Cases(few, many) {
		data := make([]byte, r.IntN(120))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if check(t, data, r); t.Failed() {
			t.Fatalf("%q", data)
		}
	}
}

func TestStreamedEqualsWhole(t *testing.T) { randomTurns(t, 50, 200, checkTurn) }

// FuzzTurn lets the fuzzer choose the turn, and how it is cut.
func FuzzTurn(f *testing.F) {
	f.Add(uint64(1), []byte("\x01\x00\x00\x01\x00\x00\x00\x00\x00\x08\x00\x0a"))
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		checkTurn(t, data, rand.New(rand.NewPCG(seed, 1)))
	})
}
