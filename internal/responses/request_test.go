package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func withInput(items string) string { return `{"model":"m","input":[` + items + `]}` }

func withMember(member string) string { return `{"model":"m","input":"q",` + member + `}` }

func TestDecodeResponseRefuses(t *testing.T) {
	const call = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	images := "" // one more than are fetched
	for i := range prompt.MaxRemoteImages + 1 {
		images += fmt.Sprintf(`,{"type":"input_image","image_url":"https://example.com/%d.png"}`, i)
	}
	for body, want := range map[string]string{ // the param and the code
		withInput(`{"role":"user","content":[` + images[1:] + `]}`): "input invalid_value",
		``:                                " invalid_json",
		`[]`:                              " invalid_json",
		`{"input":"q"}`:                   "model missing_required_parameter",
		`{"model":"m"}`:                   "input missing_required_parameter",
		withInput(``):                     "input invalid_value",
		withInput(`1`):                    "input[0] invalid_type",
		withInput(`{}`):                   "input[0].type missing_required_parameter",
		withInput(`{"type":"new_thing"}`): "input[0].type unsupported_parameter",
		withInput(`{"type":3}`):           "input[0].type invalid_type",
		withInput(`{"type":"message","content":"x"}`):                                                             "input[0].role missing_required_parameter",
		withInput(`{"role":"tool","content":"x"}`):                                                                "input[0].role invalid_value",
		withInput(`{"role":"user"}`):                                                                              "input[0].content missing_required_parameter",
		withInput(`{"role":"user","content":[{"type":"text","text":"x"}]}`):                                       "input[0].content[0].type invalid_value",
		withInput(`{"role":"user","content":[{"type":"output_text","text":"x"}]}`):                                "input[0].content[0].type invalid_value",
		withInput(`{"role":"user","content":[{"type":"input_text"}]}`):                                            "input[0].content[0].text missing_required_parameter",
		withInput(`{"role":"system","content":[{"type":"input_image","image_url":"x"}]}`):                         "input[0].content[0].type invalid_value",
		withInput(`{"role":"user","content":[{"type":"input_image","image_url":"x"}]}`):                           "input[0].content[0].image_url invalid_value",
		withInput(`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`):                             "input[0].content[0].file_id unsupported_parameter",
		withInput(`{"role":"user","content":[{"type":"input_image","image_url":"` + pngURL + `","detail":"x"}]}`): "input[0].content[0].detail invalid_value",
		withInput(`{"role":"user","content":[{"type":"input_file"}]}`):                                            "input[0].content[0].type unsupported_parameter",
		withInput(`{"type":"function_call","call_id":"c","name":"f"}`):                                            "input[0].arguments missing_required_parameter",
		withInput(`{"type":"function_call","call_id":"","name":"f","arguments":""}`):                              "input[0].call_id invalid_value",
		withInput(`{"type":"function_call","call_id":"c","name":"","arguments":""}`):                              "input[0].name invalid_value",
		withInput(`{"type":"custom_tool_call","call_id":"c","name":"f"}`):                                         "input[0].input missing_required_parameter",
		withInput(`{"type":"tool_search_call","call_id":"c","arguments":"x"}`):                                    "input[0].arguments invalid_type",
		withInput(call):              "input[0].call_id invalid_value",
		withInput(call + `,` + call): "input[1].call_id invalid_value",
		withInput(call + `,{"type":"function_call_output","call_id":"d","output":"x"}`):                                                            "input[1].call_id invalid_value",
		withInput(call + `,{"type":"function_call_output","call_id":"c"}`):                                                                         "input[1].output missing_required_parameter",
		withInput(call + `,{"type":"function_call_output","call_id":"c","output":"x"},{"type":"function_call_output","call_id":"c","output":"x"}`): "input[2].call_id invalid_value",
		withInput(`{"type":"reasoning","encrypted_content":3}`):                                                                                    "input[0].encrypted_content invalid_type",
		withInput(`{"type":"reasoning","encrypted_content":"E"}`):                                                                                  "input[0].summary missing_required_parameter",
		withInput(`{"type":"item_reference","id":"msg_1"}`):                                                                                        "input[0].id not_found",
		withInput(`{"type":"configuration_update","reasoning":{"effort":"huge"}}`):                                                                 "input[0].reasoning.effort invalid_value",
		withInput(`{"type":"configuration_update","reasoning":"low"}`):                                                                             "input[0].reasoning invalid_type",
		withInput(`{"type":"additional_tools","tools":[{"type":"web_search"}]}`):                                                                   "input[0].tools[0].type unsupported_parameter",

		withMember(`"tools":[{"type":"web_search"}]`):                                                                "tools[0].type unsupported_parameter",
		withMember(`"tools":[{"type":"tool_search"}]`):                                                               "tools[0].type unsupported_parameter",
		withMember(`"tools":[{"type":"function","function":{"name":"f"}}]`):                                          "tools[0].name missing_required_parameter",
		withMember(`"tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}]`):                          "tools[1].name invalid_value",
		withMember(`"tools":[{"type":"custom","name":"f","format":{"type":"x"}}]`):                                   "tools[0].format.type invalid_value",
		withMember(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]`):                        "tools[0].tools[0].name missing_required_parameter",
		withMember(`"tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"x","tools":[]}]}]`): "tools[0].tools[0].type unsupported_parameter",
		withMember(`"tool_choice":"required"`):                                                                       "tool_choice invalid_value",
		withMember(`"tool_choice":{"type":"web_search"}`):                                                            "tool_choice invalid_value",
		withMember(`"tool_choice":{"type":"file_search"}`):                                                           "tool_choice.type unsupported_parameter",
		withMember(`"tool_choice":{"type":"function","name":"g"},"tools":[{"type":"function","name":"f"}]`):          "tool_choice invalid_value",
		withMember(`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}`):                                "tool_choice.tools invalid_value",
		withMember(`"text":{"format":{"type":"json_schema","name":"n"}}`):                                            "text.format.schema missing_required_parameter",
		withMember(`"text":{"format":{"type":"xml"}}`):                                                               "text.format.type invalid_value",
		withMember(`"service_tier":"slow"`):                                                                          "service_tier invalid_value",
		withMember(`"text":{"verbosity":"huge"}`):                                                                    "text.verbosity invalid_value",
		withMember(`"reasoning":{"effort":"huge"}`):                                                                  "reasoning.effort invalid_value",
		withMember(`"reasoning":{"summary":"none"}`):                                                                 "reasoning.summary invalid_value",
		withMember(`"include":["x"]`):                                                                                "include[0] invalid_value",
		withMember(`"include":["message.output_text.logprobs"]`):                                                     "include[0] unsupported_parameter",
		withMember(`"metadata":{"k":1}`):                                                                             "metadata.k invalid_type",
		withMember(`"metadata":{"k":"` + strings.Repeat("x", 513) + `"}`):                                            "metadata.k invalid_value",
		withMember(`"max_output_tokens":3`):                                                                          "max_output_tokens invalid_value",
		withMember(`"max_output_tokens":16.5`):                                                                       "max_output_tokens invalid_value",
		withMember(`"truncation":"some"`):                                                                            "truncation invalid_value",
		withMember(`"background":true,"store":false`):                                                                "background unsupported_parameter",
		withMember(`"conversation":5`):                                                                               "conversation invalid_type",
		withMember(`"prompt":{"id":"p"}`):                                                                            "prompt unsupported_parameter",
		withMember(`"messages":[]`):                                                                                  "messages unsupported_parameter",
		withMember(`"top_logprobs":2`):                                                                               "top_logprobs unsupported_parameter",
		withMember(`"previous_response_id":""`):                                                                      "previous_response_id invalid_value",
		withMember(`"store":"yes"`):                                                                                  "store invalid_type",
		withMember(`"temperature":"hot"`):                                                                            "temperature invalid_type",
	} {
		apiErr := decodeAll(body)
		if apiErr == nil {
			t.Errorf("accepted: %s", body)
			continue
		}
		if got := apiErr.Param + " " + string(apiErr.Code); got != want || apiErr.Status != http.StatusBadRequest {
			t.Errorf("%s\ngot  %s: %s\nwant %s", body, got, apiErr.Message, want)
		}
	}
}

func decodeAll(body string) *apierror.Error {
	r, apiErr := Decode([]byte(body))
	if apiErr == nil {
		apiErr = r.WithoutSearch()
	}
	if apiErr != nil {
		return apiErr
	}
	return r.Resolve(nil, nil)
}

func TestResponsePlan(t *testing.T) {
	for name, test := range map[string]struct {
		body    string
		history []string
		input   string
		instr   string
	}{
		"text":         {`{"model":"m","input":"hi"}`, nil, `[{"type":"text","text":"hi","text_elements":[]}]`, "You are a helpful assistant."},
		"instructions": {`{"model":"m","instructions":"I","input":[{"role":"developer","content":"D"},{"role":"user","content":"q"}]}`, nil, `[{"type":"text","text":"q","text_elements":[]}]`, "I\n\nD"},
		"calls": {withInput(`{"role":"user","content":"q"},{"type":"function_call","id":"fc_1","call_id":"c","name":"exec","arguments":"{\"a\":1}","status":"completed"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"t","annotations":[]}]},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"}]}`),
			[]string{
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}`,
				`{"type":"function_call","call_id":"c","name":"client_exec","arguments":"{\"a\":1}"}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"t"}]}`,
				`{"type":"function_call_output","call_id":"c","output":"r"}`,
			}, `[]`, "You are a helpful assistant."},
		"forms": {withInput(`{"type":"custom_tool_call","call_id":"c","name":"patch","input":"a\n\"b\""},{"type":"custom_tool_call_output","call_id":"c","output":""},{"type":"function_call","call_id":"d","namespace":"ns","name":"g","arguments":""},{"type":"function_call_output","call_id":"d","output":"x"}`),
			[]string{
				`{"type":"function_call","call_id":"c","name":"patch","arguments":"{\"input\":\"a\\n\\\"b\\\"\"}"}`,
				`{"type":"function_call_output","call_id":"c","output":""}`,
				`{"type":"function_call","call_id":"d","name":"ns__g","arguments":"{}"}`,
				`{"type":"function_call_output","call_id":"d","output":"x"}`,
			}, `[]`, "You are a helpful assistant."},
		"odd name": {withInput(`{"type":"function_call","call_id":"c","name":"my tööl.x","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":""}`),
			[]string{
				`{"type":"function_call","call_id":"c","name":"my_t__l_x","arguments":"{}"}`,
				`{"type":"function_call_output","call_id":"c","output":""}`,
			}, `[]`, "You are a helpful assistant."},
		"odd namespace": {withInput(`{"type":"function_call","call_id":"c","name":"f","namespace":"a\",\"call_id\":\"d\\","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":""},{"type":"custom_tool_call","call_id":"c","name":"f","namespace":"\u0000","input":""},{"type":"custom_tool_call_output","call_id":"c","output":""}`),
			[]string{
				`{"type":"function_call","call_id":"c","name":"a___call_id___d___f","arguments":"{}"}`,
				`{"type":"function_call_output","call_id":"c","output":""}`,
				`{"type":"function_call","call_id":"c","name":"___f","arguments":"{\"input\":\"\"}"}`,
				`{"type":"function_call_output","call_id":"c","output":""}`,
			}, `[]`, "You are a helpful assistant."},
		"phase": {withInput(`{"role":"assistant","phase":"commentary","content":"a"},{"role":"assistant","phase":null,"content":"b"}`),
			[]string{
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}],"phase":"commentary"}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}`,
			}, `[]`, "You are a helpful assistant."},
		"passed on": {withInput(`{"type":"reasoning","id":"rs_1","summary":[ ],"encrypted_content":"E"},{"type":"reasoning","id":"rs_` + testSuffix + `_2_rs_9","summary":[],"encrypted_content":"F"},{"type":"reasoning","id":"rs_2","summary":[]},{"type":"web_search_call","id":"ws","status":"completed"},{"role":"user","content":[]},{"role":"assistant","content":""}`),
			[]string{
				`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"E"}`,
				`{"id":"rs_9","type":"reasoning","summary":[],"encrypted_content":"F"}`,
				`{"type":"web_search_call","id":"ws","status":"completed"}`,
			}, `[]`, "You are a helpful assistant."},
	} {
		t.Run(name, func(t *testing.T) {
			p, apiErr := responseOf(t, test.body).Plan(prompt.Options{})
			if apiErr != nil {
				t.Fatal(apiErr)
			}
			var history []string
			for _, item := range p.History {
				history = append(history, string(item))
			}
			if !slices.Equal(history, test.history) {
				t.Errorf("history\n%s\nwant\n%s", strings.Join(history, "\n"), strings.Join(test.history, "\n"))
			}
			if input, _ := json.Marshal(p.Turn.Input); string(input) != test.input {
				t.Errorf("input %s", input)
			}
			if *p.Thread.BaseInstructions != test.instr {
				t.Errorf("instructions %q", *p.Thread.BaseInstructions)
			}
			plancheck.Check(t, p)
		})
	}
}

func TestResponsePlanTools(t *testing.T) {
	r := responseOf(t, everyTool)
	p, _ := r.Plan(prompt.Options{})
	var names []string
	for _, tool := range p.Thread.DynamicTools {
		names = append(names, tool.Name)
	}
	if want := []string{"f", "patch", "ns__g", "tool_search"}; !slices.Equal(names, want) {
		t.Errorf("offered %q, want %q", names, want)
	}
	if patch := p.Thread.DynamicTools[1]; !strings.Contains(patch.Description, "start: A") || string(patch.InputSchema) != string(prompt.CustomSchema) {
		t.Errorf("%+v", patch)
	}
	if p.Thread.Config.Own["model_reasoning_summary"] != "none" {
		t.Errorf("%v", p.Thread.Config)
	}
}

// TestResponseMoreTools: tools that stand in the input count as well, once.
func TestResponseMoreTools(t *testing.T) {
	r := responseOf(t, `{"model":"m","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"},"input":[
		{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","description":"","tools":[{"type":"custom","name":"g"},{"type":"function","name":"f"}]}]},
		{"type":"tool_search_call","call_id":"c","arguments":{"query":"x"}},
		{"type":"tool_search_output","call_id":"c","tools":[{"type":"function","name":"h"}]}]}`)
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"f", "g", "h"}) || r.originalTools["g"].callType != typeCustomCall || r.originalTools["g"].namespace != "functions" {
		t.Errorf("%q %+v", names, r.originalTools)
	}
}

// TestResponseOfCodex: a Codex may bring hosted tools, which are left out.
func TestResponseOfCodex(t *testing.T) {
	const tools = `"tools":[{"type":"function","name":"f"},{"type":"web_search","external_web_access":false}]`
	r := responseOf(t, withMember(tools+`,"client_metadata":{"x-codex-installation-id":"i"}`))
	if apiErr := r.WithoutSearch(); apiErr != nil {
		t.Fatal(apiErr)
	}
	if len(r.Tools) != 1 || !slices.Equal(r.Ignored, []string{"tools[1]"}) {
		t.Errorf("%+v, ignored %q", r.Tools, r.Ignored)
	}
	if echo := string(r.Meta(testSuffix).settingsJSON); strings.Contains(echo, "web_search") {
		t.Error(echo)
	}
	if apiErr := decodeAll(withMember(tools + `,"client_metadata":{"k":"v"}`)); apiErr == nil {
		t.Error("another client may bring them, too")
	}
}

// TestResponseManyHostedTools: hosted tools count as others do, and a list that
// stands again replaces the one before, also what is told of it.
func TestResponseManyHostedTools(t *testing.T) {
	const codex = `,"client_metadata":{"x-codex-installation-id":"i"}`
	list := func(n int) string { return `"tools":[` + strings.Repeat(`{"type":"x"},`, n-1) + `{"type":"x"}]` }
	if r := responseOf(t, withMember(list(3)+","+list(prompt.MaxTools)+codex)); len(r.Ignored) != prompt.MaxTools {
		t.Errorf("%d ignored", len(r.Ignored))
	}
	if apiErr := decodeAll(withMember(list(prompt.MaxTools+1) + codex)); apiErr == nil || apiErr.Param != "tools" {
		t.Error("one more:", apiErr)
	}
}

// TestResponseResolve joins a request to what it refers to.
func TestResponseResolve(t *testing.T) {
	earlier := []json.RawMessage{
		json.RawMessage(`{"id":"msg_1","type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}`),
		json.RawMessage(`{"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"{}","status":"completed"}`),
	}
	const previous = `{"model":"m","instructions":"I","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"c","output":"r"},{"id":"msg_9"}]}`
	found := map[string]json.RawMessage{
		"msg_9": json.RawMessage(`{"id":"msg_9","type":"message","role":"assistant","content":[{"type":"output_text","text":"found","annotations":[],"logprobs":[]}]}`),
	}
	r, apiErr := Decode([]byte(previous))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if ids := r.References(); !slices.Equal(ids, []string{"msg_9"}) {
		t.Errorf("it refers to %q", ids)
	}
	if apiErr := r.Resolve(earlier, found); apiErr != nil {
		t.Fatal(apiErr)
	}
	p, _ := r.Plan(prompt.Options{})
	want := `[{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]} {"type":"function_call","call_id":"c","name":"f","arguments":"{}"} {"type":"function_call_output","call_id":"c","output":"r"} {"type":"message","role":"assistant","content":[{"type":"output_text","text":"found"}]}]`
	if got := fmt.Sprintf("%s", p.History); got != want || *p.Thread.BaseInstructions != "I" {
		t.Errorf("%s\n%s", *p.Thread.BaseInstructions, got)
	}
	if items := r.InputItems(testSuffix); len(items) != 2 || objects.ItemID(items[0]) != "fco_"+testSuffix+"_i0" || objects.ItemID(items[1]) != "msg_9" {
		t.Errorf("%s", items)
	}

	for body, param := range map[string]string{
		`{"model":"m","previous_response_id":"resp_1"}`:                                                                      "input",
		`{"model":"m","previous_response_id":"resp_1","input":"q"}`:                                                          "input",
		`{"model":"m","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"d","output":"r"}]}`: "input[0].call_id",
		withInput(`{"id":"msg_9"},{"type":"item_reference","id":"msg_none"}`):                                                "input[1].id",
	} {
		r, apiErr := Decode([]byte(body))
		if apiErr == nil {
			apiErr = r.Resolve(earlier, found)
		}
		if apiErr == nil || apiErr.Param != param {
			t.Errorf("%s: %v", body, apiErr)
		}
	}
}

// TestConfigurationUpdate: the last effort that an item sets applies. The model does not get the item.
func TestConfigurationUpdate(t *testing.T) {
	update := func(effort string) string {
		return `{"type":"configuration_update","reasoning":` + effort + `,"new":1}`
	}
	low, high := update(`{"effort":"low","new":1}`), update(`{"effort":"high"}`)
	const own, hi = `,"reasoning":{"effort":"medium"}}`, `{"role":"user","content":"hi"}`
	for _, c := range []struct{ earlier, body, want string }{
		{"", withInput(hi + "," + low), "low"},
		{"", withInput(low + "," + hi + "," + high + "," + update(`{}`) + "," + update("null")), "high"},
		{"", withInput(hi + "," + low)[:len(withInput(hi+","+low))-1] + own, "low"},
		{high, withInput(hi + "," + low), "low"},
		{high, withInput(hi), "high"},
		{high, withInput(hi)[:len(withInput(hi))-1] + own, "medium"},
	} {
		r, apiErr := Decode([]byte(c.body))
		var earlier []json.RawMessage
		if c.earlier != "" {
			earlier = append(earlier, json.RawMessage(c.earlier))
		}
		if apiErr == nil {
			apiErr = r.Resolve(earlier, nil)
		}
		if apiErr != nil {
			t.Errorf("%s: %v", c.body, apiErr)
			continue
		}
		p, _ := r.Plan(prompt.Options{})
		if p.Thread.Config.Effort() != c.want || len(p.History) != 0 || len(p.Turn.Input) != 1 {
			t.Errorf("after %s, %s: effort %q, history %s, input %v", c.earlier, c.body, p.Thread.Config.Effort(), p.History, p.Turn.Input)
		}
		plancheck.Check(t, p)
	}
	r := responseOf(t, withInput(hi+","+low))
	if items := r.InputItems(testSuffix); len(items) != 2 || string(items[1]) != `{"id":"cu_`+testSuffix+`_i1",`+low[1:] {
		t.Errorf("it is stored as %s", items)
	}
}

// TestResponseRefusal: an item that Codex cannot read is named as the client counts.
func TestResponseRefusal(t *testing.T) {
	refused := &codexrpc.CallError{Code: -32600, Message: "items[1] is not a valid response item: missing field `x`"}
	const web = `{"type":"web_search_call","action":5}`
	for body, param := range map[string]string{
		withInput(`{"role":"user","content":"a"},` + web + `,{"role":"user","content":"q"}`):                                   "input[1]",
		withInput(`{"role":"developer","content":"I"},{"role":"user","content":"a"},{"role":"user","content":[]},` + web):      "input[3]",
		withInput(`{"role":"developer","content":"I"},{"type":"reasoning","summary":[]},{"role":"user","content":"a"},` + web): "input[3]",
		`{"model":"m","instructions":"I","input":[{"role":"user","content":"a"},` + web + `]}`:                                 "input[1]",
	} {
		if e := responseOf(t, body).nameFields(failures.APIError(refused)); e.Param != param || e.Message != param+" is not a valid response item: missing field `x`" || e.Status != http.StatusBadRequest {
			t.Errorf("%s: %+v, want %s", body, e, param)
		}
	}
	r, _ := Decode([]byte(`{"model":"m","previous_response_id":"resp_1","input":"q"}`))
	if apiErr := r.Resolve([]json.RawMessage{json.RawMessage(`{"role":"user","content":"a"}`), json.RawMessage(web)}, nil); apiErr != nil {
		t.Fatal(apiErr)
	}
	if e := r.nameFields(failures.APIError(refused)); e.Param != "previous_response_id" {
		t.Errorf("%+v", e)
	}
	if e := r.nameFields(failures.APIError(&codexrpc.CallError{Code: -32600, Message: "no such thread"})); e.Param != "" || e.Message != "no such thread" {
		t.Errorf("%+v", e)
	}
	if e := r.nameFields(failures.APIError(turn.ErrCompacted)); e.Param != "input" {
		t.Errorf("%+v", e)
	}
}

// TestResponseRepeatedInput: of a member that stands twice the last one counts,
// with all that it brings.
func TestResponseRepeatedInput(t *testing.T) {
	r := responseOf(t, `{"model":"m","input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]}],"input":"q"}`)
	if len(r.Tools) != 0 {
		t.Errorf("%+v", r.Tools)
	}
}

// TestInputItems holds what is listed to OpenAI's description, and reads it again.
func TestInputItems(t *testing.T) {
	for schema, body := range map[string]string{
		"InputMessage":                   `{"model":"m","input":"q"}`,
		"OutputMessage":                  withInput(`{"role":"assistant","content":"a"}`),
		"FunctionToolCall":               withInput(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}`),
		"FunctionToolCallOutputResource": withInput(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"x"}],"status":null}`),
		"ReasoningItem":                  withInput(`{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"E"}`),
	} {
		r := responseOf(t, body)
		items := r.InputItems(testSuffix)
		item := items[0]
		if schema == "FunctionToolCallOutputResource" {
			item = items[1]
		}
		if err := apischema.Check(schema, item); err != nil {
			t.Errorf("%s: %s\n%v", schema, item, err)
		}
		again := &Request{}
		for _, item := range items {
			if f := new(inputItem).read(again, wirejson.NewCursor(wirejson.Value(item))); f != nil {
				t.Errorf("%s cannot be read again: %+v", item, f)
			}
		}
	}
	image := responseOf(t, withInput(`{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"`+pngURL+`"}]}`)).InputItems(testSuffix)[0]
	if err := apischema.Check("InputMessage", image); err != nil || !strings.Contains(string(image), `"detail":"auto"`) {
		t.Errorf("%s\n%v", image, err)
	}
}

// FuzzResponse sends any body. What is refused must be refused in OpenAI's shape; what is accepted
// must give a plan that Codex can read, items that can be kept, and a Response of the right shape. A
// message over a WebSocket is always streamed, and in the foreground.
func FuzzResponse(f *testing.F) {
	f.Add([]byte(everyTool))
	f.Add([]byte(withMember(`"text":{"format":{"type":"json_object"}},"metadata":{"a":"b"},"tool_choice":"none","reasoning":{"effort":"low","summary":"auto"}`)))
	f.Add([]byte(withInput(`{"type":"custom_tool_call","call_id":"c","name":"p","input":"\ud83d"},{"type":"custom_tool_call_output","call_id":"c","output":"x"},{"type":"reasoning","summary":[],"encrypted_content":"E"}`)))
	f.Add([]byte(withInput(`{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]},{"role":"user","content":[{"type":"input_image","image_url":"` + pngURL + `"}]}`)))
	f.Add([]byte(`{"type":"response.create","model":"m","input":"q","generate":false,"store":false}`))
	f.Add([]byte(`{"type":"response.create","model":"m","input":[],"background":true}`))
	f.Add([]byte(withMember(`"tools":[{"type":"web_search","search_context_size":"low","filters":{"allowed_domains":["a.example"]},"user_location":{"type":"approximate","city":"Bonn"}}]`)))
	f.Add([]byte(withMember(`"tools":[{"type":"web_search_preview","external_web_access":false},{"type":"function","name":"f"}],"tool_choice":{"type":"web_search"}`)))
	f.Add([]byte(withInput(anyQuestion + `,{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` + sealedItem + "," + anyQuestion + "," + trigger)))
	f.Add([]byte(withMember(`"truncation":"auto","context_management":[{"type":"compaction","compact_threshold":1000}]`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		if r, apiErr := DecodeCreate(body); apiErr != nil {
			checkRefusal(t, apiErr)
		} else if !r.Stream || r.Background {
			t.Fatalf("over a WebSocket: stream %t, background %t", r.Stream, r.Background)
		}
		r, apiErr := Decode(body)
		if apiErr == nil {
			apiErr = r.Resolve(nil, nil)
		}
		if apiErr == nil {
			apiErr = r.OpenSummaries(func(string) ([]byte, error) { return []byte(`{"messages":[]}`), nil })
		}
		if string(body) != given {
			t.Fatal("the body was changed")
		}
		if apiErr != nil {
			checkRefusal(t, apiErr)
			return
		}
		p, apiErr := r.Plan(prompt.Options{})
		if apiErr != nil {
			if r.ImageParam("") == "" {
				t.Fatal(apiErr)
			}
			return
		}
		plancheck.Check(t, p)
		mode, _ := p.Thread.Config.Own["web_search"].(string)
		if p.WebSearch != (mode == "live" || mode == "cached") || p.WebSearch && r.Search == nil {
			t.Fatalf("searches %t, configured as %q", p.WebSearch, mode)
		}
		for i := range p.History { // each is an item of the input, which is named if Codex refuses it
			apiErr := r.nameFields(failures.APIError(&codexrpc.CallError{Code: -32600, Message: fmt.Sprintf("items[%d] is not a valid response item: x", i)}))
			var at int
			if n, err := fmt.Sscanf(apiErr.Param, "input[%d]", &at); n != 1 || err != nil || at >= len(r.input) || r.input[at].hiddenFromModel {
				t.Fatalf("item %d of the history is %q of the input", i, apiErr.Param)
			}
		}
		ids := map[string]bool{}
		for _, item := range r.InputItems(testSuffix) {
			if v, err := wirejson.Parse(item); err != nil || !bytes.Equal(v, item) || objects.ItemID(item) == "" {
				t.Fatalf("item %q: %v", item, err)
			}
			ids[objects.ItemID(item)] = true
			if f := new(inputItem).read(new(Request), wirejson.NewCursor(wirejson.Value(item))); f != nil {
				t.Fatalf("item %s cannot be read again: %+v", item, f)
			}
		}
		stored := len(r.input)
		if r.triggerIndex() >= 0 {
			stored--
		}
		if len(ids) != stored {
			t.Fatalf("%d items with the ids %q", len(r.input), slices.Collect(maps.Keys(ids)))
		}
		if response := r.Meta(testSuffix).InProgress(); apischema.Check("Response", response) != nil && !strings.Contains(given, "tools") {
			t.Fatalf("%s\n%v", response, apischema.Check("Response", response))
		}
	})
}

// TestResponseRemoteImages: an image elsewhere is named by its place in the input,
// fetched for the model, and kept as it was named.
func TestResponseRemoteImages(t *testing.T) {
	const url = "https://example.com/a.png"
	image := `[{"type":"input_image","image_url":"` + url + `"}]`
	body := `{"model":"m","instructions":"I","input":[{"type":"reasoning","summary":[]},{"role":"user","content":` + image + `},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":` + image + `}]}`
	r := responseOf(t, body)
	if got := r.RemoteImages(); !slices.Equal(got, []string{url}) {
		t.Errorf("remote are %q", got)
	}
	if got := r.ImageParam(url); got != "input[1].content[0].image_url" {
		t.Errorf("param %q", got)
	}
	if _, apiErr := r.Plan(prompt.Options{}); apiErr == nil || apiErr.Param != "input[1].content[0].image_url" {
		t.Errorf("planned without the image: %v", apiErr)
	}
	items := r.InputItems(testSuffix)
	r.SetImages(map[string]string{url: "data:image/png;base64,AAAA"})
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if got := fmt.Sprintf("%s", p.History); strings.Count(got, "base64,AAAA") != 2 || strings.Contains(got, url) {
		t.Error(got)
	}
	if got := fmt.Sprintf("%s", items); strings.Count(got, url) != 2 {
		t.Error(got)
	}

	r = responseOf(t, withInput(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":`+image+`}`))
	if got := r.ImageParam(url); got != "input[1].output[0].image_url" || r.ImageParam("https://example.com/b.png") != "" {
		t.Errorf("param %q", got)
	}
	next, apiErr := Decode([]byte(`{"model":"m","previous_response_id":"resp_1","input":"q"}`))
	if apiErr == nil {
		apiErr = next.Resolve([]json.RawMessage{json.RawMessage(`{"id":"msg_1","type":"message","role":"user","content":` + image + `}`)}, nil)
	}
	if apiErr != nil || next.ImageParam(url) != "previous_response_id" {
		t.Errorf("%v, param %q", apiErr, next.ImageParam(url))
	}
}

// TestErrorsAreShort: what an error quotes of a request is bounded.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("<", 1<<20)
	for _, e := range []*apierror.Error{
		decodeAll(withMember(`"tools":[{"type":"` + long + `"}]`)), decodeAll(withMember(`"metadata":{"` + long + `":1}`)),
		decodeAll(withInput(`{"type":"` + long + `"}`)), decodeAll(withInput(`{"type":"item_reference","id":"` + long + `"}`)),
		decodeAll(withInput(`{"type":"function_call","call_id":"` + long + `","name":"f","arguments":""}`)),
		decodeAll(withMember(`"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"` + long + `"}`)),
	} {
		if body := e.Body(); len(body) > 2000 {
			t.Errorf("%d bytes: %.200s", len(body), body)
		}
	}
}

// BenchmarkRequest reads a conversation with calls and their results.
func BenchmarkRequest(b *testing.B) {
	paragraph := strings.Repeat(`A line of a note, with \"quotes\" and an end.\n`, 40)
	var items strings.Builder
	for i := range 100 {
		fmt.Fprintf(&items, `{"role":"user","content":"%s"},{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"},`, paragraph, i)
		fmt.Fprintf(&items, `{"type":"function_call_output","call_id":"c%d","output":"%s"},`, i, paragraph)
		fmt.Fprintf(&items, `{"type":"message","id":"m%d","role":"assistant","content":[{"type":"output_text","text":"%s"}]},`, i, paragraph)
	}
	body := withInput(items.String() + `{"role":"user","content":"And now?"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := responseOf(b, body)
		if _, apiErr := r.Plan(prompt.Options{}); apiErr != nil {
			b.Fatal(apiErr)
		}
	}
}

// TestReadersAreDocumented looks for each field that is read in the table of fields.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/responses.md", "## POST /v1/responses", readers)
}
