package aggregator_test

import (
	"encoding/json"
	"fmt"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// A streaming handler hands each event over and sends the deltas that come of it.
func ExampleAggregator_Ingest() {
	agg := aggregator.New(aggregator.Options{})
	for _, event := range []string{
		`{"type":"response.output_item.added","output_index":0,"sequence_number":1,
		  "item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"webSearch","arguments":""}}`,
		`{"type":"response.output_text.delta","delta":"not a call"}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","sequence_number":2,"delta":"{\"q\":"}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","sequence_number":3,"delta":"1}"}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","sequence_number":3,"delta":"1}"}`,
	} {
		for _, d := range agg.Ingest(0, []byte(event)).Deltas {
			fmt.Printf("%d %s %s first=%v fragment=%s arguments=%s\n", d.Index, d.ID, d.Name, d.First, d.Fragment, d.Arguments)
		}
	}
	// Output:
	// 0 tool_0_0 webSearch first=true fragment= arguments=
	// 0 tool_0_0 webSearch first=false fragment={"q": arguments={"q":
	// 0 tool_0_0 webSearch first=false fragment=1} arguments={"q":1}
}

// A Choice takes what is known of the calls already, structured and textual, and has no JSON and no
// lock.
func ExampleChoice() {
	choice := aggregator.NewChoice(aggregator.ChoiceOptions{Scanner: &aggregator.ScannerOptions{}})
	parts := choice.Call(aggregator.Input{ID: "call_1", Name: "webSearch"}, nil)
	parts = append(parts, choice.Call(aggregator.Input{ID: "call_1", Text: `{"q":1}`, Source: aggregator.SourceFragment}, nil)...)
	parts = append(parts, choice.Text("I look. <use_tool><name>getFileTree</name></use_tool>", nil)...)
	for _, part := range choice.EndMessage("", parts) {
		if part.Kind == aggregator.PartText {
			fmt.Printf("text %q\n", part.Text)
		}
	}
	for _, call := range choice.Calls() {
		fmt.Println(call.ID, call.Function.Name, call.Function.Arguments)
	}
	// Output:
	// text "I look. "
	// tool_0_0 webSearch {"q":1}
	// tool_0_1 getFileTree {}
}

// A non-streaming handler takes the message and builds tool_calls, or the older
// function_call, of the snapshot.
func ExampleAggregator_IngestMessage() {
	agg := aggregator.New(aggregator.Options{})
	agg.IngestMessage(0, []byte(`{"role":"assistant","content":null,
		"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]}`))
	records := agg.Snapshot(0)
	toolCalls, _ := json.Marshal(records)
	functionCall, _ := json.Marshal(records[0].Function)
	fmt.Println(string(toolCalls))
	fmt.Println(string(functionCall))
	// Output:
	// [{"id":"tool_0_0","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]
	// {"name":"f","arguments":"{\"a\": 1}"}
}

// Text makes calls only where that is asked for.
func ExampleAggregator_SynthesizeCalls() {
	agg := aggregator.New(aggregator.Options{})
	message := []byte(`{"role":"assistant","content":
		"I look. <use_tool><name>webSearch</name><args>{\"q\":\"caddy\",\"k\":8}</args></use_tool>"}`)
	agg.IngestMessage(0, message)
	fmt.Println(agg.HasCalls(0))
	agg.SynthesizeCalls(0, message)
	fmt.Println(agg.HasCalls(0), agg.Snapshot(0)[0].Function)
	// Output:
	// false
	// true {webSearch {"q":"caddy","k":8}}
}

// ping is the textual form @ping of a call without arguments.
type ping struct{}

func (ping) Opener() string                       { return "@ping" }
func (ping) Begin() aggregator.BlockReader        { return pingEnd{} }
func (ping) Parse(string) (string, string, error) { return "ping", "{}", nil }

// pingEnd ends the block with an exclamation mark and breaks it with anything else.
type pingEnd struct{}

func (pingEnd) Next(b byte) aggregator.BlockState {
	if b == '!' {
		return aggregator.BlockComplete
	}
	return aggregator.BlockBroken
}

// A pattern of one's own stands beside <use_tool> everywhere.
func ExampleAggregator_RegisterTextPattern() {
	agg := aggregator.New(aggregator.Options{})
	fmt.Println(agg.RegisterTextPattern("ping", ping{}))
	text := "first @ping, then @ping! and <use_tool><name>getFileTree</name></use_tool> and a tail"
	for _, b := range agg.ExtractBlocks(text) {
		fmt.Printf("%s %s %s %q\n", b.Pattern, b.Name, b.Arguments, text[b.Start:b.End])
	}
	// Output:
	// <nil>
	// ping ping {} "@ping!"
	// use_tool getFileTree {} "<use_tool><name>getFileTree</name></use_tool>"
}

// A Scanner takes the blocks out of a text that comes in pieces.
func ExampleScanner() {
	scanner := aggregator.NewScanner(aggregator.ScannerOptions{
		Patterns: []aggregator.NamedPattern{{Name: "ping", Pattern: ping{}}},
	})
	var segments []usetool.Segment
	for _, piece := range []string{"I look. @pi", "ng! And <use_tool><name>readNote</name><pa", "th>a.md</path></use_tool>"} {
		segments = scanner.Feed(piece, segments)
	}
	for _, s := range scanner.Finish("", segments) {
		if s.Kind == usetool.SegmentBlock {
			fmt.Println(s.Pattern, s.Name, s.Arguments)
		}
	}
	// Output:
	// ping ping {}
	//  readNote {"path":"a.md"}
}
