package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadStream checks the reading of streams, and the error for one without a valid
// form or end.
func TestReadStream(t *testing.T) {
	const (
		text = `data: {"choices":[{"index":0,"delta":{"content":"so "}}]}` + "\n\n"
		call = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}` + "\n\n"
		end    = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		failed = `data: {"error":{"message":"m","type":"t","param":null,"code":"codex_exited"}}` + "\n\n"
		done   = "data: [DONE]\n\n"
	)
	q := query{path: pathChat, stream: true}
	for stream, want := range map[string]struct {
		said   said
		failed string
	}{
		text + text + end + done: {said: said{Text: "so so ", Finish: "stop"}},
		text + call + end + done: {said: said{Text: "so ", Calls: []string{"f({})"}, Finish: "stop"}},
		text + failed + done:     {said{Text: "so "}, "codex_exited"},
		": hm\n\n" + text + done: {said: said{Text: "so "}},
		call + text + end + done: {said: said{Text: "so ", Calls: []string{"f({})"}, Finish: "stop"}},
	} {
		got, err := readAnswer(strings.NewReader(stream), http.StatusOK, q)
		if err != nil || got.failed != want.failed || !equal(got.choices, []said{want.said}) {
			t.Errorf("%s is %+v, %v", stream, got, err)
		}
	}
	for _, stream := range []string{
		"", text, text + end, text + end + done + text, text + end + text + done, end + end + done, "data: {\n\n" + done,
		failed + text + done, `data: {"error":{"code":"x"}}` + "\n\n" + done, text + "data: [DO",
		text + end + "\n\n" + done,
	} {
		if got, err := readAnswer(strings.NewReader(stream), http.StatusOK, q); err == nil {
			t.Errorf("%s is %+v", stream, got)
		}
	}
}

// TestReadResponseStream checks that deltas must match the last event.
func TestReadResponseStream(t *testing.T) {
	event := func(number, kind, rest string) string {
		return "event: response." + kind + "\ndata: {\"sequence_number\":" + number + "," + rest + "}\n\n"
	}
	last := func(number, kind, status, text string) string {
		return event(number, kind, `"response":{"id":"r","status":"`+status+`","output":[{"type":"message","content":[{"text":"`+text+`"}]}]}`)
	}
	created, delta := event("0", "created", `"response":{}`), event("1", "output_text.delta", `"delta":"so"`)
	q := query{path: pathResponses, stream: true}
	got, err := readAnswer(strings.NewReader(created+delta+last("2", "completed", "completed", "so")), http.StatusOK, q)
	if err != nil || got.id != "r" || !equal(got.choices, []said{{Text: "so", Finish: "completed"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, stream := range []string{
		"", created + delta, created + delta + last("2", "completed", "completed", "no"), created + last("2", "completed", "completed", ""),
		created + delta + last("2", "completed", "completed", "so") + event("3", "created", `"response":{}`),
	} {
		if got, err := readAnswer(strings.NewReader(stream), http.StatusOK, q); err == nil {
			t.Errorf("%s is %+v", stream, got)
		}
	}
}

// TestJudge checks which answers are faults.
func TestJudge(t *testing.T) {
	want := []said{{Text: "so it is", Calls: []string{`f({"a":1})`}, Finish: "tool_calls"}}
	part := []said{{Text: "so it", Calls: []string{`f({"a")`}}}
	for name, c := range map[string]struct {
		got     answer
		err     error
		trouble bool
		fault   bool
	}{
		"the wanted one":             {got: answer{choices: want}},
		"another text":               {got: answer{choices: []said{{Text: "so it was", Calls: want[0].Calls, Finish: "tool_calls"}}}, fault: true},
		"a part":                     {got: answer{choices: part}, fault: true},
		"one choice too many":        {got: answer{choices: append(want, want...)}, fault: true},
		"no proper end":              {got: answer{choices: want}, err: io.ErrUnexpectedEOF, trouble: true, fault: true},
		"a failure in trouble":       {got: answer{failed: "codex_exited", choices: part}, trouble: true},
		"a failure with other words": {got: answer{failed: "codex_exited", choices: []said{{Text: "no"}}}, trouble: true, fault: true},
		"a failure without trouble":  {got: answer{failed: "codex_exited"}, fault: true},
		"another failure in trouble": {got: answer{failed: "upstream_error"}, trouble: true, fault: true},
	} {
		c2 := &client{soak: &soak{}}
		began := time.Now()
		if c.trouble {
			n := 0
			c2.trouble.begin(time.Minute, &n)
		}
		c2.judge(query{what: name, want: want}, began, c.got, c.err)
		if got := c2.counts.faults > 0; got != c.fault {
			t.Errorf("%s: a fault is %t", name, got)
		}
	}
}

// TestTrouble checks that only requests during trouble may fail.
func TestTrouble(t *testing.T) {
	var tr trouble
	tr.begin(time.Minute, &tr.kills)
	now := time.Now()
	for _, c := range []struct {
		from, to time.Duration
		want     bool
	}{{-time.Hour, -time.Second, false}, {-time.Second, time.Second, true}, {time.Second, time.Hour, true}, {2 * time.Minute, time.Hour, false}} {
		if got := tr.during(now.Add(c.from), now.Add(c.to)); got != c.want {
			t.Errorf("from %s to %s: %t", c.from, c.to, got)
		}
	}
}

// TestGrowth checks that growth from the first third to the last is found, and that
// the warm-up before does not count.
func TestGrowth(t *testing.T) {
	m := measure{"heap", func(s sample) float64 { return s.heap }, 4}
	for name, c := range map[string]struct {
		of   func(i int) float64
		flat bool
	}{
		"flat":           {func(int) float64 { return 50 }, true},
		"warming up":     {func(i int) float64 { return min(float64(i), 20) }, true},
		"growing":        {func(i int) float64 { return 50 + float64(i)/5 }, false},
		"a single spike": {func(i int) float64 { return map[bool]float64{true: 1000, false: 50}[i == 119] }, true},
	} {
		var s samples
		for i := range 120 {
			s.all = append(s.all, sample{at: time.Duration(i) * lookEvery, heap: c.of(i)})
		}
		if first, last, flat := s.growth(m); flat != c.flat {
			t.Errorf("%s: from %v to %v is flat: %t", name, first, last, flat)
		}
	}
	if _, _, flat := new(samples).growth(m); flat {
		t.Error("a run without samples is flat")
	}
}

// TestLost checks which errors count as lost with a listener.
func TestLost(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ECONNRESET: true, io.EOF: true, syscall.ECONNREFUSED: false, io.ErrUnexpectedEOF: false,
		errors.New("http2: server sent GOAWAY and closed the connection"): true,
	} {
		if lost(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}
