package responses

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/outputs"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
	sdk "github.com/openai/openai-go/v3/responses"
)

func summaryOut(id string, part int, text string) turn.Output {
	return turn.Output{Kind: turn.OutputReasoning, ID: id, Part: part, Text: text}
}

func thoughtOut(id, encrypted string) turn.Output {
	return turn.Output{Kind: turn.OutputReasoningEnd, ID: id, Text: encrypted}
}

var (
	messageGapOut = turn.Output{Kind: turn.OutputText, Gap: true}
	summaryGapOut = turn.Output{Kind: turn.OutputReasoning, Text: "\n\n", Gap: true}
)

// responseOf decodes a request for a response, without anything before it.
func responseOf(t testing.TB, body string) *Request {
	t.Helper()
	r, apiErr := Decode([]byte(body))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if apiErr := r.Resolve(nil, nil); apiErr != nil {
		t.Fatal(apiErr)
	}
	return r
}

const testSuffix = "abcdefghijklmnopqrstuvwxyz"

// everyTool is a request with a tool of each form.
const everyTool = `{"model":"m","input":"q","include":["reasoning.encrypted_content"],"tools":[
	{"type":"function","name":"f","parameters":{"type":"object"}},
	{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: A"}},
	{"type":"namespace","name":"ns","description":"d","tools":[{"type":"function","name":"g"}]},
	{"type":"tool_search","execution":"client","description":"d","parameters":{"type":"object"}}]}`

func metaOf(t testing.TB, body string) Meta {
	meta := responseOf(t, body).Meta(testSuffix)
	meta.Created, meta.Now = 1700000000, func() int64 { return 1700000009 }
	return meta
}

type readEvent struct {
	Type     string          `json:"type"`
	Sequence int             `json:"sequence_number"`
	Item     string          `json:"item_id"`
	Index    int             `json:"output_index"`
	Part     int             `json:"summary_index"`
	Delta    string          `json:"delta"`
	Text     string          `json:"text"`
	Response json.RawMessage `json:"response"`
	Whole    json.RawMessage `json:"item"`
	raw      string
}

// newStream returns an encoder of events. If emit is nil, it makes a body.
func newStream(meta Meta, emit func(event string, data []byte) error) *Encoder {
	e := NewEncoder(meta)
	e.Begin(emit)
	return e
}

// eventOf reads an event as OpenAI's schema and SDK do.
func eventOf(t *testing.T, number int, name string, data []byte) (e readEvent) {
	t.Helper()
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s\n%v", data, err)
	}
	if e.Type != name || e.Sequence != number {
		t.Fatalf("event %d, %s: %s", number, name, data)
	}
	if err := apischema.CheckEvent(data); err != nil {
		t.Errorf("%s\n%v", data, err)
	}
	var union sdk.ResponseStreamEventUnion
	if err := json.Unmarshal(data, &union); err != nil || union.AsAny() == nil {
		t.Errorf("the SDK does not read %s: %v", data, err)
	}
	e.raw = string(data)
	return e
}

// streamOf encodes outputs and checks what holds for every stream.
func streamOf(t *testing.T, meta Meta, outs []turn.Output) ([]readEvent, *Encoder) {
	t.Helper()
	var events []readEvent
	s := streamInto(t, meta, &events, outs)
	return events, s
}

// streamInto is streamOf for a test that goes on with the stream.
func streamInto(t *testing.T, meta Meta, events *[]readEvent, outs []turn.Output) *Encoder {
	t.Helper()
	s := newStream(meta, func(name string, data []byte) error {
		*events = append(*events, eventOf(t, len(*events), name, data))
		return nil
	})
	must.OK(t, s.Open())
	for _, o := range outs {
		err := error(nil)
		if o.Kind == turn.OutputFailure {
			err = s.Fail(failures.APIError(o.Err))
		} else {
			err = s.Write(0, o)
		}
		must.OK(t, err)
	}
	return s
}

func bodyOfResponse(meta Meta, outs []turn.Output) *Encoder {
	b := newStream(meta, nil)
	for _, o := range outs {
		if o.Kind == turn.OutputFailure {
			_ = b.Fail(failures.APIError(o.Err)) // no client gets the body then
			continue
		}
		_ = b.Write(0, o)
	}
	return b
}

func types(events []readEvent) (all []string) {
	for _, e := range events {
		all = append(all, strings.TrimPrefix(e.Type, "response."))
	}
	return all
}

// keptItems are the items of a response as the next one gets them.
func keptItems(t *testing.T, r *Encoder) (items []string) {
	t.Helper()
	r.meta.Keep = func(record api.Record) bool {
		for k, item := range record.Output {
			if want := wirejson.Append(nil, r.items[k].asJSON(true)); string(item) != string(want) {
				t.Errorf("item %d is kept as %s, not as %s", k, item, want)
			}
			items = append(items, string(item))
		}
		return true
	}
	r.keepResponse()
	return items
}

// answered is what a client has of a response, and what the next one gets of it.
type answered struct {
	response string
	kept     []string
}

// client reads answers strictly.
func client(t *testing.T, meta Meta) outputs.Client[answered] {
	var e *Encoder
	return outputs.Client[answered]{
		Encoder: func() api.Encoder { e = NewEncoder(meta); return e },
		Stream: func(all []outputs.Event) (answered, error) {
			events := make([]readEvent, len(all))
			for i := range all {
				events[i] = eventOf(t, i, all[i].Type, all[i].Data)
			}
			response := events[len(events)-1].Response
			checkDeltas(t, events, response)
			return answered{string(response), keptItems(t, e)}, nil
		},
		Whole: func(body []byte) (answered, error) {
			return answered{string(body), keptItems(t, e)}, apischema.Check("Response", body)
		},
	}
}

// checkResponseFold compares what a stream ends with, and what its deltas add up to, with the body.
func checkResponseFold(t *testing.T, meta Meta, outs []turn.Output) {
	t.Helper()
	client(t, meta).Check(t, outs)
}

// checkDeltas is a client: it puts items together and compares them with the Response in the end.
func checkDeltas(t *testing.T, events []readEvent, response []byte) {
	t.Helper()
	var whole struct {
		Output []json.RawMessage `json:"output"`
	}
	must.OK(t, json.Unmarshal(response, &whole))
	added, done, texts := 0, 0, map[string]string{}
	for _, e := range events {
		key := fmt.Sprint(e.Item, e.Part)
		switch {
		case strings.HasSuffix(e.Type, "output_item.added"):
			if e.Index != added || added != done {
				t.Errorf("item %d begins as %d while %d are done", added, e.Index, done)
			}
			added++
		case strings.HasSuffix(e.Type, "output_item.done"):
			if e.Index != done || string(e.Whole) != string(whole.Output[e.Index]) {
				t.Errorf("item %s, in the response %s", e.Whole, whole.Output[e.Index])
			}
			done++
		case strings.HasSuffix(e.Type, ".delta"):
			texts[key] += e.Delta
		case strings.HasSuffix(e.Type, "text.done"):
			if texts[key] != e.Text {
				t.Errorf("deltas %q, text %q", texts[key], e.Text)
			}
		}
	}
	if added != done || done != len(whole.Output) {
		t.Errorf("%d items begun, %d done, %d in the response", added, done, len(whole.Output))
	}
}

func TestResponseStreamEvents(t *testing.T) {
	usage := turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop, Usage: codexrpc.Usage{InputTokens: 3, CachedInputTokens: 1, CacheWriteInputTokens: 2, OutputTokens: 2, ReasoningOutputTokens: 1, TotalTokens: 5}}}
	message := []string{"output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"}
	call := []string{"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"}
	custom := []string{"output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done"}
	thought := []string{"output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"}
	for name, test := range map[string]struct {
		outs  []turn.Output
		want  []string // between response.in_progress and the last one
		last  string
		holds []string // in the last event
	}{
		"nothing": {[]turn.Output{usage}, nil, "completed", []string{`"output":[]`, `"status":"completed","completed_at":1700000009`,
			`"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":2},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":5}`}},
		"estimated": {[]turn.Output{{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop, Estimated: true}}}, nil, "completed",
			[]string{`"total_tokens":0,"estimated":true}`}},
		"text": {[]turn.Output{textOut("Hi"), usage}, message, "completed",
			[]string{`[{"id":"msg_SUFFIX_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}]`}},
		"two messages": {[]turn.Output{textOut("a"), messageGapOut, textOut("b"), usage}, slices.Concat(message, message), "completed", nil},
		"phases": {[]turn.Output{textOut("a"), {Kind: turn.OutputText, Gap: true, Phase: "commentary"}, messageGapOut, textOut("b"), {Kind: turn.OutputText, Gap: true, Phase: "unheard-of"}, usage},
			slices.Concat(message, message), "completed", []string{`"id":"msg_SUFFIX_0","type":"message","status":"completed","phase":"commentary"`, `"id":"msg_SUFFIX_1","type":"message","status":"completed","role"`}},
		"burst": {[]turn.Output{callOut(0, "c0", "f", "{}"), callOut(1, "c1", "f", `{"a":1}`), finishOut(turn.FinishToolCalls)},
			slices.Concat(call, call), "completed",
			[]string{`{"id":"fc_SUFFIX_1","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"a\":1}"}`}},
		"text after a call": {[]turn.Output{textOut("a"), callOut(0, "c", "f", "{}"), textOut("b"), usage}, slices.Concat(message, call, message), "completed", nil},
		"custom": {[]turn.Output{callOut(0, "c", "patch", `{"input":"*** a"}`), finishOut(turn.FinishToolCalls)}, custom, "completed",
			[]string{`{"id":"ctc_SUFFIX_0","type":"custom_tool_call","status":"completed","call_id":"c","name":"patch","input":"*** a"}`}},
		"custom with odd arguments": {[]turn.Output{callOut(0, "c", "patch", `{"patch":"x"}`), finishOut(turn.FinishToolCalls)}, custom, "completed",
			[]string{`"input":"{\"patch\":\"x\"}"`}},
		"namespace": {[]turn.Output{callOut(0, "c", "ns__g", `{}`), finishOut(turn.FinishToolCalls)}, call, "completed", []string{`"namespace":"ns","name":"g"`}},
		"search": {[]turn.Output{callOut(0, "c", "tool_search", `{"query": "x"}`), finishOut(turn.FinishToolCalls)}, []string{"output_item.added", "output_item.done"}, "completed",
			[]string{`"type":"tool_search_call","status":"completed","call_id":"c","execution":"client","arguments":{"query":"x"}`}},
		"reasoning": {[]turn.Output{summaryOut("rs_1", 0, "a"), thoughtOut("rs_1", "E"), usage}, thought, "completed",
			[]string{`{"id":"rs_SUFFIX_0_rs_1","type":"reasoning","status":"completed","summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"E"}`}},
		"two parts": {[]turn.Output{summaryOut("rs_1", 0, "a"), summaryGapOut, summaryOut("rs_1", 1, "b"), usage},
			slices.Concat(thought[:5], thought[1:]), "completed", []string{`"summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}]`}},
		"two items":            {[]turn.Output{summaryOut("rs_1", 0, "a"), summaryGapOut, summaryOut("rs_2", 0, "b"), usage}, slices.Concat(thought, thought), "completed", nil},
		"reasoning and text":   {[]turn.Output{summaryOut("rs_1", 0, "a"), thoughtOut("rs_1", ""), textOut("x"), usage}, slices.Concat(thought, message), "completed", nil},
		"no summary":           {[]turn.Output{thoughtOut("rs_1", "E"), textOut("x"), usage}, slices.Concat([]string{"output_item.added", "output_item.done"}, message), "completed", []string{`"summary":[],"encrypted_content":"E"`}},
		"neither summary, nor": {[]turn.Output{thoughtOut("rs_1", ""), textOut("x"), usage}, message, "completed", nil},
		"length": {[]turn.Output{textOut("Hi"), finishOut(turn.FinishLength)}, message, "incomplete",
			[]string{`"status":"incomplete","completed_at":null`, `"incomplete_details":{"reason":"max_output_tokens"}`, `"id":"msg_SUFFIX_0","type":"message","status":"incomplete"`}},
		"filter": {[]turn.Output{finishOut(turn.FinishContentFilter)}, nil, "incomplete", []string{`"incomplete_details":{"reason":"content_filter"}`}},
		"failure": {[]turn.Output{textOut("Hi"), failureOut(&codexrpc.TurnError{Code: "rateLimitExceeded", Message: "slow down"})}, message, "failed",
			[]string{`"status":"failed"`, `"error":{"code":"rate_limit_exceeded","message":"slow down"}`, `"usage":{"input_tokens":0,`, `"status":"incomplete","role"`}},
		"lost": {[]turn.Output{failureOut(codexrpc.ErrClosed)}, nil, "failed", []string{`"error":{"code":"server_error"`}},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metaOf(t, everyTool)
			events, _ := streamOf(t, meta, test.outs)
			want := slices.Concat([]string{"created", "in_progress"}, test.want, []string{test.last})
			if got := types(events); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			for _, part := range test.holds {
				part = strings.ReplaceAll(part, "SUFFIX", testSuffix)
				if last := events[len(events)-1].raw; !strings.Contains(last, part) {
					t.Errorf("%s\nlacks %s", last, part)
				}
			}
			checkResponseFold(t, meta, test.outs)
		})
	}
}

// TestResponseHidesReasoning asks for no encrypted content: it is kept, not shown.
func TestResponseHidesReasoning(t *testing.T) {
	meta := metaOf(t, `{"model":"m","input":"q"}`)
	outs := []turn.Output{thoughtOut("rs_1", "E"), textOut("x"), summaryOut("rs_2", 0, "s"), thoughtOut("rs_2", "F"), finishOut(turn.FinishStop)}
	checkResponseFold(t, meta, outs)
	body := bodyOfResponse(meta, outs)
	if text := string(body.JSON()); strings.Contains(text, "encrypted") || strings.Contains(text, "rs_1") || !strings.Contains(text, "rs_2") {
		t.Error(text)
	}
	kept := keptItems(t, body)
	if len(kept) != 3 || !strings.Contains(kept[0], `"encrypted_content":"E"`) || !strings.Contains(kept[2], `"encrypted_content":"F"`) {
		t.Errorf("%s", kept)
	}
}

// TestResponseCallsInText has calls that stand in the text, for a client that reads them there.
func TestResponseCallsInText(t *testing.T) {
	meta := metaOf(t, `{"model":"m","input":"q"}`)
	meta.CallsInText = true
	outs := []turn.Output{textOut("a<use_tool>"), callOut(0, "c", "f", "{}"), textOut("b"), finishOut(turn.FinishToolCalls)}
	checkResponseFold(t, meta, outs)
	if text := string(bodyOfResponse(meta, outs).JSON()); !strings.Contains(text, `"text":"a\u003cuse_tool\u003eb"`) && !strings.Contains(text, `"text":"a<use_tool>b"`) {
		t.Error(text)
	}
}

func TestResponseCancel(t *testing.T) {
	meta := metaOf(t, `{"model":"m","input":"q"}`)
	kept := ""
	meta.Keep = func(r api.Record) bool { kept += string(r.Response); return true }
	var events []readEvent
	s := streamInto(t, meta, &events, []turn.Output{textOut("a")})
	if err := s.Fail(apierror.ErrCancelled); err != nil || !s.Done() {
		t.Fatal(err, s.Done())
	}
	last := events[len(events)-1]
	if kept == "" || kept != string(last.Response) || !strings.Contains(kept, `"status":"cancelled"`) {
		t.Errorf("%d events, kept %s, last %s", len(events), kept, last.raw)
	}
	if err := s.Write(0, textOut("late")); err != nil || s.Fail(apierror.ErrCancelled) != nil || len(events) != 9 {
		t.Errorf("something came after the end: %v, %q", err, types(events))
	}
}

func TestStreamedEqualsWhole(t *testing.T) {
	c := client(t, metaOf(t, everyTool))
	outputs.StreamedEqualsWhole(t, 60, func(*rand.Rand) outputs.Client[answered] { return c }, "f", "patch", "ns__g", "tool_search", "other")
}

// TestResponseStreamEmitFails: nothing more is written, but all of it is kept when the response is
// cancelled.
func TestResponseStreamEmitFails(t *testing.T) {
	gone, calls := errors.New("gone"), 0
	meta, kept := metaOf(t, everyTool), ""
	meta.Keep = func(r api.Record) bool { kept += string(r.Response); return true }
	s := newStream(meta, func(string, []byte) error {
		if calls++; calls > 3 {
			return gone
		}
		return nil
	})
	must.OK(t, s.Open())
	for range 3 {
		if err := s.Write(0, textOut("x")); !errors.Is(err, gone) {
			t.Fatal(err)
		}
	}
	if err := s.Fail(apierror.ErrCancelled); calls != 4 || s.Done() || !errors.Is(err, gone) {
		t.Errorf("%d calls, done %t, %v", calls, s.Done(), err)
	}
	if !strings.Contains(kept, `"text":"xxx"`) || strings.Count(kept, `"status":"cancelled"`) != 1 {
		t.Errorf("kept %s", kept)
	}
}

// BenchmarkResponseTextDelta encodes deltas of responses of 32 KiB each: a
// response keeps its text, for the events at the end.
func BenchmarkResponseTextDelta(b *testing.B) {
	meta := metaOf(b, everyTool)
	out := textOut(" words..")
	var s *Encoder
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if n%4096 == 0 {
			s = newStream(meta, func(string, []byte) error { return nil })
		}
		n++
		if err := s.Write(0, out); err != nil { // not must.OK, which would be counted as well
			b.Fatal(err)
		}
	}
}

// TestLost checks that a Response whose server has ended is one that has failed.
func TestLost(t *testing.T) {
	meta := metaOf(t, everyTool)
	response, _ := objects.Lost(meta.InProgress(), 0)
	var got struct {
		Status string
		Error  struct{ Code, Message string }
	}
	if err := json.Unmarshal(response, &got); err != nil || got.Status != "failed" || got.Error.Code != "server_error" || got.Error.Message == "" {
		t.Errorf("%v %s", err, response)
	}
	if err := apischema.Check("Response", response); err != nil {
		t.Error(err)
	}
}

const pngURL = "data:image/png;base64,iVBORw0KGgo="

var textOut, callOut, finishOut = outputs.Text, outputs.Call, outputs.Finish

func failureOut(err error) turn.Output { return turn.Output{Kind: turn.OutputFailure, Err: err} }
