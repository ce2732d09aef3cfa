package responses

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	sdk "github.com/openai/openai-go/v3/responses"
)

const (
	trigger     = `{"type":"compaction_trigger"}`
	sealedItem  = `{"type":"compaction","id":"cmp_1","encrypted_content":"codex-sealed-1.AAAA"}`
	anyQuestion = `{"role":"user","content":"q"}`
)

// TestShorteningFields reads what requests say about the length of their conversations.
func TestShorteningFields(t *testing.T) {
	for body, want := range map[string]prompt.Shortening{
		withMember(`"context_management":null`):                                                                     {},
		withMember(`"context_management":[]`):                                                                       {},
		withMember(`"context_management":[{"type":"compaction"}]`):                                                  {Above: prompt.FullWindow},
		withMember(`"context_management":[{"type":"compaction","compact_threshold":null}]`):                         {Above: prompt.FullWindow},
		withMember(`"context_management":[{"type":"compaction","compact_threshold":1000}]`):                         {Above: 1000},
		withMember(`"truncation":"auto"`):                                                                           {Above: prompt.FullWindow},
		withMember(`"truncation":"disabled"`):                                                                       {},
		withMember(`"truncation":"auto","context_management":[{"type":"compaction","compact_threshold":1000}]`):     {Above: 1000},
		withMember(`"context_management":[{"type":"compaction","compact_threshold":1000}],"truncation":"auto"`):     {Above: 1000},
		withMember(`"context_management":[{"type":"compaction","compact_threshold":1000}],"truncation":"disabled"`): {Above: 1000},
		withInput(anyQuestion + "," + trigger):                                                                      {Summary: true, UsersStay: true},
		withInput(trigger):                                                                                          {Summary: true, UsersStay: true},
		`{"model":"m","previous_response_id":"resp_1","input":[{"type":"compaction_trigger","id":"x"}]}`:            {Summary: true, UsersStay: true},
	} {
		if r, apiErr := Decode([]byte(body)); apiErr != nil || r.Shortening != want {
			t.Errorf("%s\n%+v %v", body, r, apiErr)
		}
	}
	for body, want := range map[string]string{
		withInput(trigger + "," + anyQuestion):                                                "input[0] invalid_value",
		withInput(trigger + "," + trigger):                                                    "input[0] invalid_value",
		withInput(`{"type":"compaction"}`):                                                    "input[0].encrypted_content missing_required_parameter",
		withInput(`{"type":"compaction","encrypted_content":""}`):                             "input[0].encrypted_content invalid_value",
		withInput(`{"type":"compaction","encrypted_content":7}`):                              "input[0].encrypted_content invalid_type",
		withMember(`"context_management":{}`):                                                 "context_management invalid_type",
		withMember(`"context_management":[{}]`):                                               "context_management[0].type missing_required_parameter",
		withMember(`"context_management":[{"type":"other"}]`):                                 "context_management[0].type invalid_value",
		withMember(`"context_management":[{"type":"compaction"},{"type":"compaction"}]`):      "context_management invalid_value",
		withMember(`"context_management":[{"type":"compaction","compact_threshold":0}]`):      "context_management[0].compact_threshold invalid_value",
		withMember(`"context_management":[{"type":"compaction","compact_threshold":"much"}]`): "context_management[0].compact_threshold invalid_type",
	} {
		apiErr := decodeAll(body)
		if apiErr == nil || apiErr.Param+" "+string(apiErr.Code) != want {
			t.Errorf("%s\n%+v, want %s", body, apiErr, want)
		}
	}
}

// TestDecodeCompact reads bodies of POST /v1/responses/compact.
func TestDecodeCompact(t *testing.T) {
	for body, model := range map[string]string{
		`{"model":"m","input":"q"}`:                                 "m",
		`{"model":null,"input":"q"}`:                                prompt.DefaultModel,
		`{"input":"q"}`:                                             prompt.DefaultModel,
		`{"input":null,"previous_response_id":"resp_1"}`:            prompt.DefaultModel,
		`{"model":"m","input":"q","stream":true,"background":true}`: "m",
		withInput(anyQuestion + "," + trigger):                      "m",
	} {
		r, apiErr := DecodeCompact([]byte(body))
		if apiErr != nil || r.Model != model || r.Stream || r.Store || r.Background || r.Shortening != (prompt.Shortening{Summary: true, UsersStay: true}) {
			t.Errorf("%s: %+v %v", body, r, apiErr)
		}
	}
	for _, body := range []string{`{}`, `{"model":"m"}`, `{"model":7,"input":"q"}`, `{"model":"m","input":7}`, `[]`} {
		if _, apiErr := DecodeCompact([]byte(body)); apiErr == nil || apiErr.Status != http.StatusBadRequest {
			t.Errorf("%s: %+v", body, apiErr)
		}
	}
}

// TestTriggerIsNotStored: a stored response does not ask for a summary again.
func TestTriggerIsNotStored(t *testing.T) {
	r := responseOf(t, withInput(anyQuestion+","+sealedItem+","+anyQuestion+","+trigger))
	items := r.InputItems(testSuffix)
	if len(items) != 3 || !strings.Contains(string(items[1]), "codex-sealed-1.AAAA") || strings.Contains(string(slices.Concat(items...)), "trigger") {
		t.Errorf("%s", items)
	}
	if i, sealed := LastSummary(items); i != 1 || sealed != "codex-sealed-1.AAAA" {
		t.Errorf("the newest summary is %d, %q", i, sealed)
	}
	for _, none := range []string{anyQuestion, `{"type":"compaction","id":"cmp_2","encrypted_content":"theirs"}`} {
		if i, _ := LastSummary(responseOf(t, withInput(none)).InputItems(testSuffix)); i != -1 {
			t.Errorf("%s: %d", none, i)
		}
	}
}

// TestSummaryItem: a summary is an item of the output, whole at once, alone or before the answer.
func TestSummaryItem(t *testing.T) {
	summary := []turn.Output{{Kind: turn.OutputSummary, Text: "never shown", Name: "codex-sealed-1.BBBB"}}
	none := []turn.Output{{Kind: turn.OutputSummary}}
	text := []turn.Output{{Kind: turn.OutputText, Text: "Hello"}}
	finish := []turn.Output{{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}}}
	for want, outs := range map[string][]turn.Output{
		"created in_progress output_item.added output_item.done completed": slices.Concat(summary, finish),
		"created in_progress completed":                                    slices.Concat(none, finish),
		"created in_progress output_item.added output_item.done output_item.added " +
			"content_part.added output_text.delta output_text.done content_part.done output_item.done completed": slices.Concat(summary, text, finish),
	} {
		meta := metaOf(t, withMember(`"include":["reasoning.encrypted_content"]`))
		events, e := streamOf(t, meta, outs)
		if got := strings.Join(types(events), " "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		for _, e := range events {
			if strings.Contains(e.raw, "never shown") {
				t.Errorf("the text is shown: %s", e.raw)
			}
		}
		checkResponseFold(t, meta, outs)
		again := &Request{}
		if f := again.readInput([]byte("[" + strings.Join(keptItems(t, e), ",") + "]")); f != nil {
			t.Errorf("%s cannot be read again: %+v", keptItems(t, e), f)
		}
	}
}

// TestCompactedBody checks the answer to POST /v1/responses/compact as OpenAI's schema and SDK do.
func TestCompactedBody(t *testing.T) {
	const messages = `{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"` + pngURL + `"}]},` +
		`{"role":"assistant","content":"b"},{"role":"developer","content":"c"},{"role":"user","content":"d"}`
	const calls = `,{"type":"function_call","call_id":"one","name":"f","arguments":"{}"},{"type":"function_call","call_id":"two","name":"f","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"one","output":"1"}`
	for input, items := range map[string]int{messages: 4, messages + calls: 5} {
		r, apiErr := DecodeCompact([]byte(withInput(input)))
		if apiErr != nil || r.Resolve(nil, nil) != nil {
			t.Fatal(apiErr)
		}
		e := newStream(r.Meta(testSuffix), nil)
		must.OK(t, e.Write(0, turn.Output{Kind: turn.OutputSummary, Name: "codex-sealed-1.BBBB"}))
		must.OK(t, e.Write(0, turn.Output{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}}))
		if err := apischema.Check("CompactResource", e.JSON()); err != nil && items == 4 {
			t.Errorf("%s\n%v", e.JSON(), err)
		}
		var read sdk.CompactedResponse
		if err := json.Unmarshal(e.JSON(), &read); err != nil || len(read.Output) != items || read.Output[3].AsCompaction().EncryptedContent != "codex-sealed-1.BBBB" ||
			items == 5 && read.Output[4].AsFunctionCall().CallID != "two" { // its output may follow
			t.Errorf("%s %v", e.JSON(), err)
		}
	}
}

// TestFailedSummary: a failed summary is the client's error, since Codex repeats others many times. A failed answer
// keeps its status.
func TestFailedSummary(t *testing.T) {
	failure := &apierror.Error{Status: http.StatusBadGateway, Type: apierror.TypeServer, Code: "c", Message: "It broke."}
	for body, status := range map[string]int{withInput(anyQuestion + "," + trigger): http.StatusBadRequest, withInput(anyQuestion): http.StatusBadGateway} {
		events, e := []readEvent{}, NewEncoder(metaOf(t, body))
		e.Begin(func(name string, data []byte) error {
			events = append(events, eventOf(t, len(events), name, data))
			return nil
		})
		named := e.NameFields(failure)
		if named.Status != status || !strings.Contains(named.Message, "It broke.") || failure.Status != http.StatusBadGateway {
			t.Errorf("%s: %+v", body, named)
		}
		must.OK(t, e.Open())
		must.OK(t, e.Fail(named))
		code := map[bool]string{true: "invalid_prompt", false: "server_error"}[status == http.StatusBadRequest]
		if last := events[len(events)-1]; last.Type != "response.failed" || !strings.Contains(string(last.Response), `"code":"`+code+`"`) {
			t.Errorf("%s: %s", body, last.raw)
		}
	}
}
