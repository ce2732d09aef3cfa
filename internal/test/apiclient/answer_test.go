package apiclient

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestReadChat checks the reading of streams of chunks, and the error for one without a valid form.
func TestReadChat(t *testing.T) {
	chunk := func(delta, finish string) string {
		return `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n"
	}
	call := func(index, rest string) string {
		return chunk(`{"tool_calls":[{"index":`+index+`,`+rest+`}]}`, "null")
	}
	const (
		failed = `data: {"error":{"message":"m","type":"t","param":null,"code":"codex_exited"}}` + "\n\n"
		done   = "data: [DONE]\n\n"
	)
	begin, text, end := chunk(`{"role":"assistant","content":"so "}`, "null"), chunk(`{"content":"it"}`, "null"), chunk(`{}`, `"stop"`)
	first, more := call("0", `"id":"a","function":{"name":"f","arguments":""}`), call("0", `"function":{"arguments":"{}"}`)
	for stream, want := range map[string]Answer{
		begin + text + end + done:         {Choices: []Choice{{Text: "so it", Finish: "stop"}}, Ended: true},
		begin + first + more + end + done: {Choices: []Choice{{Text: "so ", Calls: []Call{{"a", "f", "{}"}}, Finish: "stop"}}, Ended: true},
		begin + failed + done:             {Choices: []Choice{{Text: "so "}}, Failed: true, Code: "codex_exited", Ended: true},
		": hm\n\n" + begin:                {Choices: []Choice{{Text: "so "}}},
		begin + text + "data: [DO":        {Choices: []Choice{{Text: "so it"}}},
		begin + text[:9]:                  {Choices: []Choice{{Text: "so "}}},
	} {
		want.ID, want.Choices[0].Opened = "c", true
		if got, err := Read([]byte(stream), Chat, true, 1); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s is %+v, %v", stream, got, err)
		}
	}
	for _, stream := range []string{
		text, begin + begin, begin + done, begin + end + done + text, begin + end + text + done, begin + end + end, "data: {\n\n",
		begin + failed + text, `data: {"error":{"code":"x"}}` + "\n\n", begin + more, begin + first + first,
		strings.Replace(begin, `"index":0`, `"index":1`, 1), "event: x\n" + begin, begin + strings.Replace(text, `"c"`, `"d"`, 1),
	} {
		if got, err := Read([]byte(stream), Chat, true, 1); err == nil {
			t.Errorf("%s is %+v", stream, got)
		}
	}
}

// TestReadResponse checks the numbers and types of events, and that deltas match the last event.
func TestReadResponse(t *testing.T) {
	stream := func(events ...string) []byte {
		var b strings.Builder
		for i, e := range events {
			kind, rest, _ := strings.Cut(e, " ")
			fmt.Fprintf(&b, "event: response.%s\ndata: {\"type\":\"response.%[1]s\",\"sequence_number\":%d%s}\n\n", kind, i, rest)
		}
		return []byte(b.String())
	}
	const (
		created, progress = `created ,"response":{"id":"r"}`, "in_progress"
		added, delta      = `output_item.added ,"output_index":0,"item":{"type":"message"}`, `output_text.delta ,"output_index":0,"delta":"so"`
		whole             = `,"response":{"id":"r","status":"completed","output":[{"type":"message","content":[{"text":"so"}]}]}`
	)
	got, err := Read(stream(created, progress, added, delta, "completed "+whole), Responses, true, 1)
	if err != nil || got.ID != "r" || !got.Ended || !reflect.DeepEqual(got.Choices, []Choice{{Text: "so", Finish: "stop"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = Read(stream(created, progress, added, delta), Responses, true, 1)
	if err != nil || got.Ended || got.Choices[0].Text != "so" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, events := range [][]string{
		{progress}, {created, added}, {created, progress, delta}, {created, progress, added, added},
		{created, progress, added, "completed " + whole}, {created, progress, added, delta, delta, "completed " + whole},
		{created, progress, added, delta, "completed " + whole, delta}, {created, progress, "completed " + strings.Replace(whole, "completed", "queued", 1)},
		{created, progress, "failed " + strings.Replace(whole, "completed", "failed", 1)},
	} {
		if got, err := Read(stream(events...), Responses, true, 1); err == nil {
			t.Errorf("%q is %+v", events, got)
		}
	}
}

// TestReadMessage checks the reading of messages, and what is no valid stream of one.
func TestReadMessage(t *testing.T) {
	event := func(data string) string {
		kind, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
		return "event: " + kind + "\ndata: " + data + "\n\n"
	}
	const usage = `"usage":{"input_tokens":3,"cache_creation_input_tokens":1,"cache_read_input_tokens":2,"output_tokens":5,"output_tokens_details":{"thinking_tokens":4}}`
	begin := event(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,` + usage + `}}`)
	block := func(index, start string, deltas ...string) string {
		text := event(`{"type":"content_block_start","index":` + index + `,"content_block":` + start + `}`)
		for _, delta := range deltas {
			text += event(`{"type":"content_block_delta","index":` + index + `,"delta":` + delta + `}`)
		}
		return text
	}
	stop := func(index string) string { return event(`{"type":"content_block_stop","index":` + index + `}`) }
	think := block("0", `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"hm"}`, `{"type":"signature_delta","signature":"s"}`) + stop("0")
	text := block("1", `{"type":"text","text":""}`, `{"type":"text_delta","text":"so "}`, `{"type":"text_delta","text":"it"}`)
	call := block("2", `{"type":"tool_use","id":"a","name":"f","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"x\": 1}"}`) + stop("2")
	delta, last, failed := event(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},`+usage+`}`), event(`{"type":"message_stop"}`), event(`{"type":"error","error":{"type":"api_error","message":"m"}}`)
	thought := Choice{Text: "so it", Reasoning: "hm", Opened: true}
	called := Choice{Text: "so it", Reasoning: "hm", Opened: true, Finish: "tool_calls", Calls: []Call{{"a", "f", `{"x":1}`}}}
	used := &Usage{Input: 6, Output: 5, Cached: 2, Reasoned: 4}
	whole := `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"so it"},` +
		`{"type":"tool_use","id":"a","name":"f","input":{"x":1}}],"stop_reason":"tool_use",` + usage + `}`
	for answer, want := range map[string]Answer{
		begin + think + text + stop("1") + call + delta + last: {Choices: []Choice{called}, Usage: used, Ended: true},
		whole: {Choices: []Choice{called}, Usage: used, Ended: true},
		begin + event(`{"type":"ping"}`) + think + text:    {Choices: []Choice{thought}},
		begin + think + text + "event: content_block_stop": {Choices: []Choice{thought}},
		begin + think + text + failed:                      {Choices: []Choice{thought}, Failed: true, Code: "api_error", Ended: true},
	} {
		got, err := Read([]byte(answer), Messages, answer != whole, 1)
		if want.ID, want.Message = "msg_1", got.Message; err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s is %+v, %v", answer, got, err)
		}
	}
	for _, stream := range []string{
		think, begin + begin, begin + text, begin + think + delta + last + last, begin + think + text + delta, begin + think + last, begin + delta + last + think, begin + think + stop("0"),
		begin + think + text + stop("1") + call + call, begin + strings.Replace(think, "event: content_block_start", "event: ping", 1), begin + failed + last,
		begin + strings.Replace(think, `"thinking_delta"`, `"text_delta"`, 1), strings.Replace(begin, `"output_tokens":5,`, "", 1), begin + strings.Replace(think, `"signature":"s"`, `"thinking":"s"`, 1) + delta + last,
		begin + block("0", `{"type":"tool_use","id":"a","name":"f","input":{"x":1}}`), begin + block("0", `{"type":"tool_use","id":"a","name":"f","input":{}}`, `{"type":"input_json_delta","partial_json":"{}"}`) + stop("0"),
		begin + block("0", `{"type":"tool_use","id":"a","name":"f","input":{}}`, `{"type":"input_json_delta","partial_json":"{"}`) + stop("0"),
	} {
		if got, err := Read([]byte(stream), Messages, true, 1); err == nil {
			t.Errorf("%s is %+v", stream, got)
		}
	}
	if e, err := ReadError([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"r"}`), Messages); err != nil || !e.Failed || e.Code != "overloaded_error" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := ReadError([]byte(`{"error":{"type":"x","message":"m"}}`), Messages); err == nil {
		t.Errorf("%+v", e)
	}
}
