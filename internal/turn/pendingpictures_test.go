package turn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// forPicture returns the events of a picture with an id.
func forPicture(id string, e codexrpc.Event) codexrpc.Event {
	if e.Kind == codexrpc.EventFunctionCall || e.Kind == codexrpc.EventCallOutput {
		e.CallID = id
	} else {
		e.ItemID = id
	}
	return e
}

// saidWithPictures writes outputs in a line.
func saidWithPictures(outputs []Output) string {
	var said []string
	for _, o := range outputs {
		switch failed, _ := errors.AsType[*PictureError](o.Err); {
		case o.Kind == OutputPictureStart:
			said = append(said, "begun:"+o.ID)
		case o.Kind == OutputPicture && failed != nil:
			said = append(said, fmt.Sprintf("none:%s:%d", o.ID, failed.Status))
		case o.Kind == OutputPicture && o.Err != nil:
			said = append(said, fmt.Sprintf("none:%s:%v", o.ID, errors.Is(o.Err, ErrNoPictures)))
		case o.Kind == OutputPicture && o.Text == onePNG && o.Name == "a cat" && o.Transparent:
			said = append(said, "made:"+o.ID)
		case o.Kind == OutputText:
			said = append(said, fmt.Sprintf("%.12q", o.Text))
		case o.Kind == OutputCall:
			said = append(said, "call:"+o.Name)
		case o.Kind == OutputFinish:
			said = append(said, fmt.Sprintf("%s:%d", o.End.Finish, o.End.Usage.TotalTokens))
		case o.Kind == OutputFailure:
			said = append(said, "failed")
		}
	}
	return strings.Join(said, " ")
}

// callStarted means that Codex waits for the result of a client's call.
var callStarted = codexrpc.Event{Kind: codexrpc.EventItemStarted, ItemType: codexrpc.ItemToolCall, ItemID: "x"}

// TestPicturesWithin feeds turns in which the model may make pictures besides. Each is shown before
// the text that follows the calls, in the order in which Codex makes them, and always ends.
func TestPicturesWithin(t *testing.T) {
	other := func(e codexrpc.Event) codexrpc.Event { return forPicture("d", e) }
	after := []codexrpc.Event{delta("m", "There."), whole("m", "There."), response(2), ended(codexrpc.StatusCompleted, nil)}
	with := func(events ...codexrpc.Event) []codexrpc.Event { return append(events, after...) }
	limited := Options{Budget: &purse{left: 5}, MaxTokens: 1000}
	for name, test := range map[string]struct {
		opts   Options
		events []codexrpc.Event
		want   string
	}{
		"one":                        {Options{}, with(delta("a", "See: "), whole("a", "See: "), pictureCall, response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", "")), "\"See: \" begun:c made:c \"\\n\\n\" \"There.\" stop:5"},
		"two":                        {Options{}, with(pictureCall, other(pictureCall), response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", ""), other(pictureStarted), other(pictureMade(onePNG)), other(pictureAnswer("", ""))), "begun:c made:c begun:d made:d \"There.\" stop:5"},
		"two in another order":       {Options{}, with(pictureCall, other(pictureCall), delta("a", "Wait."), whole("a", "Wait."), response(3), other(pictureStarted), other(pictureMade(onePNG)), pictureStarted, pictureMade(onePNG), other(pictureAnswer("", "")), pictureAnswer("", "")), "begun:d made:d begun:c made:c \"Wait.\" \"\\n\\n\" \"There.\" stop:5"},
		"text between two":           {Options{}, with(delta("a", "One."), whole("a", "One."), pictureCall, delta("b", "Two."), whole("b", "Two."), other(pictureCall), delta("e", "End."), whole("e", "End."), response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", ""), other(pictureStarted), other(pictureMade(onePNG)), other(pictureAnswer("", ""))), "\"One.\" begun:c made:c \"\\n\\n\" \"Two.\" begun:d made:d \"\\n\\n\" \"End.\" \"\\n\\n\" \"There.\" stop:5"},
		"text between, at once":      {Options{}, with(pictureCall, delta("b", "Two."), whole("b", "Two."), other(pictureCall), response(3), pictureStarted, other(pictureStarted), other(pictureMade(onePNG)), pictureMade(onePNG), other(pictureAnswer("", "")), pictureAnswer("", "")), "begun:c made:c \"Two.\" begun:d made:d \"\\n\\n\" \"There.\" stop:5"},
		"text between, second first": {Options{}, with(pictureCall, delta("b", "Two."), whole("b", "Two."), other(pictureCall), response(3), other(pictureStarted), other(pictureMade(onePNG)), pictureStarted, pictureMade(onePNG)), "begun:d made:d begun:c made:c \"Two.\" \"\\n\\n\" \"There.\" stop:5"},
		"text between, first fails":  {Options{}, with(pictureCall, delta("b", "Two."), whole("b", "Two."), other(pictureCall), response(3), pictureStarted, pictureFailed, pictureAnswer(`image generation failed: http 502 Bad Gateway: None`, "")), "begun:c none:c:502 \"Two.\" begun:d none:d:0 \"\\n\\n\" \"There.\" stop:5"},
		"two at once":                {Options{}, with(pictureCall, other(pictureCall), response(3), pictureStarted, other(pictureStarted), other(pictureMade(onePNG)), pictureMade(onePNG), other(pictureAnswer("", "")), pictureAnswer("", "")), "begun:c made:c begun:d made:d \"There.\" stop:5"},
		"text behind the call":       {Options{}, with(pictureCall, delta("a", "Wait."), whole("a", "Wait."), response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", "")), "begun:c made:c \"Wait.\" \"\\n\\n\" \"There.\" stop:5"},
		"a failed one":               {Options{}, with(pictureCall, response(3), pictureStarted, pictureFailed, pictureAnswer(`image generation failed: http 502 Bad Gateway: None`, "")), "begun:c none:c:502 \"There.\" stop:5"},
		"no base64":                  {Options{}, with(pictureCall, response(3), pictureStarted, pictureMade("%"), pictureAnswer("", "")), "begun:c none:c:0 \"There.\" stop:5"},
		"no result":                  {Options{}, with(pictureCall, response(3), pictureStarted, pictureMade(""), pictureAnswer("", "")), "begun:c none:c:0 \"There.\" stop:5"},
		"two results":                {Options{}, with(pictureCall, response(3), pictureStarted, pictureMade(onePNG), pictureMade(onePNG), pictureAnswer("", "")), "begun:c made:c \"There.\" stop:5"},
		"not called for":             {Options{}, with(other(pictureStarted), other(pictureMade(onePNG)), other(pictureAnswer("", ""))), "\"There.\" stop:2"},
		"not offered":                {Options{}, with(pictureCall, response(3), pictureAnswer("", codexrpc.StatusFailed)), "begun:c none:c:true \"There.\" stop:5"},
		"never there":                {Options{}, with(pictureCall, response(3)), "begun:c none:c:0 \"There.\" stop:5"},
		"the turn fails":             {Options{}, []codexrpc.Event{pictureCall, delta("a", "Wait."), whole("a", "Wait."), ended(codexrpc.StatusFailed, nil)}, "begun:c none:c:0 \"Wait.\" failed"},
		"before a client's call": {Options{}, []codexrpc.Event{pictureCall, findCall("x", "1"), response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", "")},
			"begun:c made:c call:find tool_calls:3"},
		"held by a client's call": {Options{}, []codexrpc.Event{pictureCall, findCall("x", "1"), callStarted, response(3)}, "begun:c none:c:0 call:find tool_calls:3"},
		"held later":              {Options{}, []codexrpc.Event{pictureCall, findCall("x", "1"), response(3), callStarted}, "begun:c none:c:0 call:find tool_calls:3"},
		"beside a client's call": {Options{}, []codexrpc.Event{pictureCall, findCall("x", "1"), pictureStarted, callStarted, response(3), pictureMade(onePNG), pictureAnswer("", "")},
			"begun:c made:c call:find tool_calls:3"},
		"behind a client's call": {Options{}, []codexrpc.Event{findCall("x", "1"), pictureCall, response(3)}, "call:find tool_calls:3"},
		"beyond the budget":      {limited, []codexrpc.Event{pictureCall, response(9), pictureStarted, pictureMade(onePNG), pictureAnswer("", "")}, "begun:c made:c length:9"},
		"a retry behind it": {Options{}, with(pictureCall, response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", ""), complaint("broke off", true)),
			"begun:c made:c \"There.\" stop:5"},
		"a retry behind it and its text": {Options{}, with(pictureCall, delta("a", "Wait."), whole("a", "Wait."), response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", ""), complaint("broke off", true)),
			"begun:c made:c \"Wait.\" \"\\n\\n\" \"There.\" stop:5"},
		"a retry within":  {Options{}, with(pictureCall, complaint("broke off", true)), "failed"},
		"too much behind": {Options{}, with(pictureCall, delta("a", strings.Repeat("x", maxDelayedBytes)), whole("a", strings.Repeat("x", maxDelayedBytes)), response(3), pictureStarted, pictureMade(onePNG), pictureAnswer("", "")), "begun:c none:c:0 \"xxxxxxxxxxxx\" \"\\n\\n\" \"There.\" stop:5"},
		"a client's own":  {Options{}, []codexrpc.Event{call("x", "imagegen", "{}"), response(3)}, "call:imagegen tool_calls:3"},
	} {
		t.Run(name, func(t *testing.T) {
			test.opts.Pictures = true
			test.opts.ClientName = func(name string) (string, bool) { return name, name == "find" || name == "imagegen" }
			m := New(&test.opts)
			var got []Output
			for i := range test.events {
				got = append(got, m.Feed(test.events[i:i+1])...)
			}
			if said := saidWithPictures(got); said != test.want || !m.Done() {
				t.Errorf("done %t: %s", m.Done(), said)
			}
			if len(test.events) > len(after) && m.ThreadState().InSync && name != "not called for" && name != "a client's own" {
				t.Error("the thread would go on, whose history is another one than the client's")
			}
		})
	}
}

// TestAbandonedPicture checks that text behind a picture which has not come is returned when the client
// leaves.
func TestAbandonedPicture(t *testing.T) {
	opts := Options{Pictures: true, ClientName: func(string) (string, bool) { return "", false }}
	m := New(&opts)
	got := m.Feed([]codexrpc.Event{pictureCall, delta("a", "Wait.")})
	if len(got) != 0 {
		t.Fatal(saidWithPictures(got))
	}
	if said := saidWithPictures(m.Abandon()); said != `begun:c none:c:0 "Wait."` {
		t.Error(said)
	}
}
