package messages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// smallRequest is what an assistant in an editor sends first.
var smallRequest = []byte(`{"model":"claude-x","max_tokens":1000,"stream":true,"temperature":0.2,"system":"You help with notes.\nBe brief.",` +
	`"messages":[{"role":"user","content":"What is in \"Inbox\"?"}],` +
	`"tools":[{"name":"readNote","description":"Read a note","input_schema":{"type":"object","properties":{"notePath":{"type":"string"}},"required":["notePath"]}}]}`)

// longRequest is a conversation of about 1 MB with calls, results and escapes.
func longRequest() []byte {
	paragraph := strings.Repeat(`A line of a note, with \"quotes\" and an end.\n`, 40)
	var b strings.Builder
	b.WriteString(`{"model":"claude-x","max_tokens":1000,"system":"You help with notes.","messages":[`)
	for i := 0; b.Len() < 1_000_000; i++ {
		fmt.Fprintf(&b, `{"role":"user","content":"%s"},{"role":"assistant","content":[{"type":"tool_use","id":"call_%d","name":"readNote","input":{"notePath":"a.md"}}]},`, paragraph, i)
		fmt.Fprintf(&b, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_%d","content":"%s"}]},{"role":"assistant","content":[{"type":"text","text":"%s"}]},`, i, paragraph, paragraph)
	}
	b.WriteString(`{"role":"user","content":"And now?"}],"tools":[{"name":"readNote","input_schema":{}}]}`)
	return []byte(b.String())
}

func benchmarkRequest(b *testing.B, body []byte) {
	plancheck.Benchmark(b, body, func() (*prompt.Plan, *apierror.Error) {
		r, apiErr := Decode(body)
		if apiErr != nil {
			return nil, apiErr
		}
		_ = r.Meta("msg_1")
		return r.Plan(prompt.Options{})
	})
}

func BenchmarkRequestSmall(b *testing.B) { benchmarkRequest(b, smallRequest) }

func BenchmarkRequestLong(b *testing.B) { benchmarkRequest(b, longRequest()) }

func BenchmarkStreamDelta(b *testing.B) {
	s := begun(testMeta, func(string, []byte) error { return nil })
	out := turn.Output{Kind: turn.OutputText, Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Write(0, out); err != nil {
			b.Fatal(err)
		}
	}
}
