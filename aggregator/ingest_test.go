package aggregator

import (
	"errors"
	"strings"
	"testing"
)

// TestErrors checks that a result says why a part of its input was ignored.
func TestErrors(t *testing.T) {
	for input, want := range map[string]struct {
		choice int
		err    error
	}{
		`[]`:           {0, ErrMalformed},
		`{"a"`:         {0, ErrMalformed},
		`{"type":"x"}`: {0, nil},
		`{"type":"response.output_text.delta","delta":"so"}`: {0, nil},
		`{"tool_calls":[1]}`:        {0, ErrMalformed},
		chatNext(0, "{"):            {0, nil}, // it may get a name
		chatHead(0, "c", "f", "{}"): {0, nil},
		chatHead(0, "c", strings.Repeat("n", maxNameBytes+1), ""):                 {0, ErrMalformed},
		chatHead(0, "d", "f", "{}"):                                               {-1, ErrMalformed},
		chatHead(0, "e", "f", "12345678"):                                         {0, ErrOverLimit},
		chatHead(0, "g", "f", "{"):                                                {MaxChoices, nil},
		`{"type":"response.function_call_arguments.delta"}`:                       {0, ErrMalformed},
		`{"tool_calls":[{"index":"0","function":{"name":"f","arguments":"{}"}}]}`: {0, ErrMalformed},
		`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":7}}]}`:      {0, ErrMalformed},
	} {
		a := New(Options{MaxArgumentBytes: 7})
		if r := a.Ingest(want.choice, []byte(input)); !errors.Is(r.Err, want.err) || want.err == nil && r.Err != nil {
			t.Errorf("%.80s: %v, want %v", input, r.Err, want.err)
		}
		stats := a.Stats()
		if (stats.Malformed > 0) != (want.err == ErrMalformed) || (stats.OverLimit > 0) != (want.err == ErrOverLimit) {
			t.Errorf("%.80s: %+v", input, stats)
		}
	}
	a := New(Options{MaxCalls: 1})
	for i, want := range []error{nil, ErrOverLimit} {
		if r := a.Ingest(0, []byte(rawItem([]string{"a", "b"}[i], "f", "{}"))); !errors.Is(r.Err, want) || want == nil && r.Err != nil {
			t.Errorf("call %d: %v", i, r.Err)
		}
	}
	for i := range MaxChoices {
		a.Ingest(i, []byte(chatHead(0, "c", "f", "")))
	}
	if r := a.Ingest(MaxChoices, []byte(chatHead(0, "c", "f", ""))); !errors.Is(r.Err, ErrOverLimit) {
		t.Errorf("a choice too many: %v", r.Err)
	}
}
