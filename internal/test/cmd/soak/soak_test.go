package main

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// TestJudge checks which answers are faults.
func TestJudge(t *testing.T) {
	calls := []apiclient.Call{{Name: "f", Arguments: `{"a":1}`}}
	want := []said{{Text: "so it is", Calls: calls, Finish: "tool_calls"}}
	part := []said{{Text: "so it", Calls: []apiclient.Call{{Name: "f", Arguments: `{"a"`}}}}
	for name, c := range map[string]struct {
		got     apiclient.Answer
		err     error
		trouble bool
		fault   bool
	}{
		"the wanted one":             {got: apiclient.Answer{Choices: want}},
		"another text":               {got: apiclient.Answer{Choices: []said{{Text: "so it was", Calls: calls, Finish: "tool_calls"}}}, fault: true},
		"a part":                     {got: apiclient.Answer{Choices: part}, fault: true},
		"one choice too many":        {got: apiclient.Answer{Choices: append(want, want...)}, fault: true},
		"no proper end":              {got: apiclient.Answer{Choices: want}, err: io.ErrUnexpectedEOF, trouble: true, fault: true},
		"a failure in trouble":       {got: apiclient.Answer{Failed: true, Code: "codex_exited", Choices: part}, trouble: true},
		"a failure with other words": {got: apiclient.Answer{Failed: true, Code: "codex_exited", Choices: []said{{Text: "no"}}}, trouble: true, fault: true},
		"a failure without trouble":  {got: apiclient.Answer{Failed: true, Code: "codex_exited"}, fault: true},
		"another failure in trouble": {got: apiclient.Answer{Failed: true, Code: "upstream_error"}, trouble: true, fault: true},
	} {
		c2 := &client{soak: &soak{}}
		began := time.Now()
		if c.trouble {
			n := 0
			c2.trouble.begin(time.Minute, inTrouble, &n)
		}
		c2.judge(query{what: name, want: want}, began, &c.got, c.err)
		if got := c2.counts.faults > 0; got != c.fault {
			t.Errorf("%s: a fault is %t", name, got)
		}
	}
}

// TestTrouble checks that only requests during trouble may fail.
func TestTrouble(t *testing.T) {
	var tr trouble
	tr.begin(time.Minute, map[string]bool{"a": true}, &tr.kills)
	now := time.Now()
	for _, c := range []struct {
		from, to time.Duration
		want     bool
	}{{-time.Hour, -time.Second, false}, {-time.Second, time.Second, true}, {time.Second, time.Hour, true}, {2 * time.Minute, time.Hour, false}} {
		if got := tr.allows("a", now.Add(c.from), now.Add(c.to)); got != c.want {
			t.Errorf("from %s to %s: %t", c.from, c.to, got)
		}
	}
	if tr.allows("b", now, now) {
		t.Error("a request may fail with any code")
	}
}

// TestOutages checks what is counted of requests in an outage and after it.
func TestOutages(t *testing.T) {
	var o outages
	o.answered(true, time.Now())
	o.begin(2)
	for _, whole := range []bool{true, false, false} {
		o.answered(whole, time.Now())
	}
	o.end()
	o.answered(false, time.Now())
	if got := o.kinds[2]; got.times != 1 || got.whole != 1 || got.failed != 2 || got.longest == 0 {
		t.Errorf("%+v", got)
	}
	o.answered(true, time.Now())
	back := o.kinds[2].back
	o.answered(true, time.Now())
	if back == 0 || o.kinds[2].back != back || o.last != nil {
		t.Errorf("%+v", o.kinds[2])
	}
}

// TestGrowth: growth from the first third to the last is found; the warm-up before does not count.
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
