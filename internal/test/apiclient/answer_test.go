package apiclient

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestReadChat checks the reading of streams of chunks, and the error for one without a
// valid form.
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
		if got, err := Read([]byte(stream), false, true, 1); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s is %+v, %v", stream, got, err)
		}
	}
	for _, stream := range []string{
		text, begin + begin, begin + done, begin + end + done + text, begin + end + text + done, begin + end + end, "data: {\n\n",
		begin + failed + text, `data: {"error":{"code":"x"}}` + "\n\n", begin + more, begin + first + first, begin + end + "\n\n" + done,
		strings.Replace(begin, `"index":0`, `"index":1`, 1), "event: x\n" + begin, begin + strings.Replace(text, `"c"`, `"d"`, 1),
	} {
		if got, err := Read([]byte(stream), false, true, 1); err == nil {
			t.Errorf("%s is %+v", stream, got)
		}
	}
}

// TestReadResponse checks that the events have the right numbers and types, and that
// deltas must match the last one.
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
	got, err := Read(stream(created, progress, added, delta, "completed "+whole), true, true, 1)
	if err != nil || got.ID != "r" || !got.Ended || !reflect.DeepEqual(got.Choices, []Choice{{Text: "so", Finish: "stop"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = Read(stream(created, progress, added, delta), true, true, 1)
	if err != nil || got.Ended || got.Choices[0].Text != "so" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, events := range [][]string{
		{progress}, {created, added}, {created, progress, delta}, {created, progress, added, added},
		{created, progress, added, "completed " + whole}, {created, progress, added, delta, delta, "completed " + whole},
		{created, progress, added, delta, "completed " + whole, delta}, {created, progress, "completed " + strings.Replace(whole, "completed", "queued", 1)},
		{created, progress, "failed " + strings.Replace(whole, "completed", "failed", 1)},
	} {
		if got, err := Read(stream(events...), true, true, 1); err == nil {
			t.Errorf("%q is %+v", events, got)
		}
	}
}
