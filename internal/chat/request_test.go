package chat

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const pngURL = "data:image/png;base64,iVBORw0KGgo="

func withFields(fields string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + fields + `}`
}

func withMessages(messages string) string {
	return `{"model":"m","messages":[` + messages + `]}`
}

func withTool(function, more string) string {
	return withFields(`"tools":[{"type":"function","function":` + function + `}]` + more)
}

func manyTools(n int) string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"type":"function","function":{"name":"f%d"}}`, i)
	}
	return strings.Join(tools, ",")
}

func manyFunctions(n int) string {
	functions := make([]string, n)
	for i := range functions {
		functions[i] = fmt.Sprintf(`{"name":"f%d"}`, i)
	}
	return strings.Join(functions, ",")
}

// remoteImages is a message with n images elsewhere.
func remoteImages(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`{"type":"image_url","image_url":{"url":"https://example.com/%d.png"}}`, i)
	}
	return `{"role":"user","content":[` + strings.Join(parts, ",") + `]}`
}

const readNote = `{"name":"readNote"}`

func mustDecode(t *testing.T, body string) *Request {
	t.Helper()
	r, err := Decode([]byte(body))
	if err != nil {
		t.Fatalf("%s\nrefused: %v", body, err)
	}
	return r
}

// TestDecodeChatTypes gives every field a value of every wrong type.
func TestDecodeChatTypes(t *testing.T) {
	samples := map[wirejson.Kind]string{
		wirejson.KindNull: "null", wirejson.KindBool: "true", wirejson.KindNumber: "7", wirejson.KindString: `"x"`, wirejson.KindArray: "[]", wirejson.KindObject: "{}",
	}
	const (
		user      = `{"role":"user","content":"hi"}`
		called    = `{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}`
		assistant = `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	)
	assistantWith := func(old string) string { return withMessages(strings.Replace(assistant, old, "%", 1)) }
	type typeCase struct {
		body  string // % is the place of the value
		param string
		right []wirejson.Kind
	}
	cases := []typeCase{
		{`{"messages":[` + user + `],"model":%}`, "model", []wirejson.Kind{wirejson.KindString}},
		{`{"model":"m","messages":%}`, "messages", []wirejson.Kind{wirejson.KindArray}},
		{withMessages(`%`), "messages[0]", []wirejson.Kind{wirejson.KindObject}},
		{withMessages(`{"role":%,"content":"x"}`), "messages[0].role", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"user","content":%}`), "messages[0].content", []wirejson.Kind{wirejson.KindString, wirejson.KindArray, wirejson.KindNull}},
		{withMessages(`{"role":"system","content":%}`), "messages[0].content", []wirejson.Kind{wirejson.KindString, wirejson.KindArray, wirejson.KindNull}},
		{withMessages(`{"role":"developer","content":%}`), "messages[0].content", []wirejson.Kind{wirejson.KindString, wirejson.KindArray, wirejson.KindNull}},
		{withMessages(`{"role":"assistant","content":%}`), "messages[0].content", []wirejson.Kind{wirejson.KindString, wirejson.KindArray, wirejson.KindNull}},
		{withMessages(assistant + `,{"role":"tool","tool_call_id":"c","content":%}`), "messages[1].content", []wirejson.Kind{wirejson.KindString, wirejson.KindArray, wirejson.KindNull}},
		{withMessages(assistant + `,{"role":"tool","content":"r","tool_call_id":%}`), "messages[1].tool_call_id", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"user","content":"x","name":%}`), "messages[0].name", []wirejson.Kind{wirejson.KindString, wirejson.KindNull}},
		{withMessages(`{"role":"assistant","refusal":%}`), "messages[0].refusal", []wirejson.Kind{wirejson.KindString, wirejson.KindNull}},
		{withMessages(called + `,{"role":"function","name":"f","content":%}`), "messages[1].content", []wirejson.Kind{wirejson.KindString, wirejson.KindArray, wirejson.KindNull}},
		{withMessages(called + `,{"role":"function","content":"r","name":%}`), "messages[1].name", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"assistant","function_call":%}`), "messages[0].function_call", []wirejson.Kind{wirejson.KindObject, wirejson.KindNull}},
		{withMessages(`{"role":"assistant","function_call":{"arguments":"","name":%}}`), "messages[0].function_call.name", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"assistant","function_call":{"name":"f","arguments":%}}`), "messages[0].function_call.arguments", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"assistant","tool_calls":%}`), "messages[0].tool_calls", []wirejson.Kind{wirejson.KindArray, wirejson.KindNull}},
		{withMessages(`{"role":"assistant","tool_calls":[%]}`), "messages[0].tool_calls[0]", []wirejson.Kind{wirejson.KindObject}},
		{assistantWith(`"c"`), "messages[0].tool_calls[0].id", []wirejson.Kind{wirejson.KindString}},
		{assistantWith(`"function"`), "messages[0].tool_calls[0].type", []wirejson.Kind{wirejson.KindString, wirejson.KindNull}},
		{assistantWith(`{"name":"f","arguments":"{}"}`), "messages[0].tool_calls[0].function", []wirejson.Kind{wirejson.KindObject}},
		{assistantWith(`"f"`), "messages[0].tool_calls[0].function.name", []wirejson.Kind{wirejson.KindString}},
		{assistantWith(`"{}"`), "messages[0].tool_calls[0].function.arguments", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"user","content":[%]}`), "messages[0].content[0]", []wirejson.Kind{wirejson.KindObject}},
		{withMessages(`{"role":"user","content":[{"type":%,"text":"x"}]}`), "messages[0].content[0].type", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"user","content":[{"type":"text","text":%}]}`), "messages[0].content[0].text", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"assistant","content":[{"type":"refusal","refusal":%}]}`), "messages[0].content[0].refusal", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"user","content":[{"type":"image_url","image_url":%}]}`), "messages[0].content[0].image_url", []wirejson.Kind{wirejson.KindObject}},
		{withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":%}}]}`), "messages[0].content[0].image_url.url", []wirejson.Kind{wirejson.KindString}},
		{withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `","detail":%}}]}`), "messages[0].content[0].image_url.detail", []wirejson.Kind{wirejson.KindString, wirejson.KindNull}},
		{withFields(`"tools":[%]`), "tools[0]", []wirejson.Kind{wirejson.KindObject}},
		{withFields(`"tools":[{"type":%,"function":` + readNote + `}]`), "tools[0].type", []wirejson.Kind{wirejson.KindString}},
		{withTool(`%`, ""), "tools[0].function", []wirejson.Kind{wirejson.KindObject}},
		{withTool(`{"name":%}`, ""), "tools[0].function.name", []wirejson.Kind{wirejson.KindString}},
		{withTool(`{"name":"f","description":%}`, ""), "tools[0].function.description", []wirejson.Kind{wirejson.KindString, wirejson.KindNull}},
		{withTool(`{"name":"f","parameters":%}`, ""), "tools[0].function.parameters", []wirejson.Kind{wirejson.KindObject, wirejson.KindNull}},
		{withTool(`{"name":"f","strict":%}`, ""), "tools[0].function.strict", []wirejson.Kind{wirejson.KindBool, wirejson.KindNull}},
		{withTool(readNote, `,"tool_choice":%`), "tool_choice", []wirejson.Kind{wirejson.KindString, wirejson.KindObject, wirejson.KindNull}},
		{withTool(readNote, `,"tool_choice":{"type":%}`), "tool_choice.type", []wirejson.Kind{wirejson.KindString}},
		{withTool(readNote, `,"tool_choice":{"type":"function","function":%}`), "tool_choice.function", []wirejson.Kind{wirejson.KindObject}},
		{withTool(readNote, `,"tool_choice":{"type":"function","function":{"name":%}}`), "tool_choice.function.name", []wirejson.Kind{wirejson.KindString}},
		{withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":%}`), "tool_choice.allowed_tools", []wirejson.Kind{wirejson.KindObject}},
		{withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[],"mode":%}}`), "tool_choice.allowed_tools.mode", []wirejson.Kind{wirejson.KindString}},
		{withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":%}}`), "tool_choice.allowed_tools.tools", []wirejson.Kind{wirejson.KindArray}},
		{withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[%]}}`), "tool_choice.allowed_tools.tools[0]", []wirejson.Kind{wirejson.KindObject}},
		{withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":%}]}}`), "tool_choice.allowed_tools.tools[0].type", []wirejson.Kind{wirejson.KindString}},
		{withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":%}]}}`), "tool_choice.allowed_tools.tools[0].function", []wirejson.Kind{wirejson.KindObject}},
		{withFields(`"response_format":{"type":%}`), "response_format.type", []wirejson.Kind{wirejson.KindString}},
		{withFields(`"response_format":{"type":"json_schema","json_schema":%}`), "response_format.json_schema", []wirejson.Kind{wirejson.KindObject}},
		{withFields(`"response_format":{"type":"json_schema","json_schema":{"schema":{},"name":%}}`), "response_format.json_schema.name", []wirejson.Kind{wirejson.KindString}},
		{withFields(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":%}}`), "response_format.json_schema.schema", []wirejson.Kind{wirejson.KindObject}},
		{withFields(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{},"strict":%}}`), "response_format.json_schema.strict", []wirejson.Kind{wirejson.KindBool, wirejson.KindNull}},
		{withFields(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{},"description":%}}`), "response_format.json_schema.description", []wirejson.Kind{wirejson.KindString, wirejson.KindNull}},
		{withFields(`"stream":true,"stream_options":%`), "stream_options", []wirejson.Kind{wirejson.KindObject, wirejson.KindNull}},
		{withFields(`"stream":true,"stream_options":{"include_usage":%}`), "stream_options.include_usage", []wirejson.Kind{wirejson.KindBool, wirejson.KindNull}},
		{withFields(`"stream":true,"stream_options":{"include_obfuscation":%}`), "stream_options.include_obfuscation", []wirejson.Kind{wirejson.KindBool, wirejson.KindNull}},
		{withFields(`"modalities":[%]`), "modalities[0]", []wirejson.Kind{wirejson.KindString}},
		{withFields(`"stop":%`), "stop", []wirejson.Kind{wirejson.KindString, wirejson.KindArray, wirejson.KindNull}},
		{withFields(`"stop":["a",%]`), "stop[1]", []wirejson.Kind{wirejson.KindString}},
		{withFields(`"functions":[%]`), "functions[0]", []wirejson.Kind{wirejson.KindObject}},
		{withFields(`"functions":[{"name":%}]`), "functions[0].name", []wirejson.Kind{wirejson.KindString}},
		{withFields(`"functions":[{"name":"f","description":%}]`), "functions[0].description", []wirejson.Kind{wirejson.KindString, wirejson.KindNull}},
		{withFields(`"functions":[{"name":"f","parameters":%}]`), "functions[0].parameters", []wirejson.Kind{wirejson.KindObject, wirejson.KindNull}},
		{withFields(`"function_call":%`), "function_call", []wirejson.Kind{wirejson.KindString, wirejson.KindObject, wirejson.KindNull}},
		{withFields(`"function_call":{"name":%}`), "function_call.name", []wirejson.Kind{wirejson.KindString}},
	}
	for kind, names := range map[wirejson.Kind]string{
		wirejson.KindNumber: `n top_logprobs temperature top_p max_tokens max_completion_tokens seed presence_penalty frequency_penalty`,
		wirejson.KindBool:   `parallel_tool_calls stream logprobs store`,
		wirejson.KindString: `reasoning_effort service_tier verbosity user safety_identifier prompt_cache_key prompt_cache_retention`,
		wirejson.KindArray:  `tools modalities functions`,
		wirejson.KindObject: `response_format logit_bias prediction web_search_options metadata prompt_cache_options moderation`,
	} {
		for name := range strings.FieldsSeq(names) {
			cases = append(cases, typeCase{withFields(`"` + name + `":%`), name, []wirejson.Kind{kind, wirejson.KindNull}})
		}
	}
	for _, c := range cases {
		for k, sample := range samples {
			body := strings.Replace(c.body, "%", sample, 1)
			_, err := Decode([]byte(body))
			if slices.Contains(c.right, k) {
				if err != nil && err.Code == apierror.CodeInvalidType {
					t.Errorf("%s\n%s is a right type, got %v", body, k, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%s\naccepted %s in %s", body, k, c.param)
				continue
			}
			wantCode := apierror.CodeInvalidType
			if c.param == "messages[0].tool_calls[0].type" {
				wantCode = apierror.CodeUnsupportedParameter
			}
			if err.Status != http.StatusBadRequest || err.Type != apierror.TypeInvalidRequest || err.Param != c.param || err.Code != wantCode {
				t.Errorf("%s\ngot %+v, want param %s and code %s", body, err, c.param, wantCode)
			}
			if !strings.HasPrefix(err.Message, c.param+": ") || !strings.Contains(err.Message, string(k)) && wantCode == apierror.CodeInvalidType {
				t.Errorf("%s\nmessage %q does not say what is wrong where", body, err.Message)
			}
		}
	}
}

// TestDecodeChatRefuses holds requests of right types that are wrong all the same.
func TestDecodeChatRefuses(t *testing.T) {
	call := func(id string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}`
	}
	calls := func(ids ...string) string {
		for i, id := range ids {
			ids[i] = call(id)
		}
		return `{"role":"assistant","tool_calls":[` + strings.Join(ids, ",") + `]}`
	}
	result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"r"}` }
	image := func(url string) string {
		return withMessages(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}`)
	}
	const (
		hi       = `{"role":"user","content":"hi"}`
		called   = `{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}`
		answer   = `{"role":"function","name":"f","content":"r"}`
		imageURL = "messages[0].content[1].image_url.url"
	)
	for name, c := range map[string]struct {
		body, param string
		code        apierror.Code
		says        string
	}{
		"empty body":       {``, "", "invalid_json", "at byte 0"},
		"truncated":        {`{"model":"m","messages":[`, "", "invalid_json", "unexpected end, expected a value, at byte 25"},
		"trailing garbage": {withFields(`"n":1`) + `x`, "", "invalid_json", "unexpected data after the JSON value"},
		"NUL byte":         {"{\"model\":\"a\x00b\"}", "", "invalid_json", "control character 0x00 in a string at byte 11"},
		"invalid UTF-8":    {"{\"model\":\"a\xffb\"}", "", "invalid_json", "invalid UTF-8 at byte 11"},
		"too deep":         {withFields(`"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200)), "", "invalid_json", "nested more than 126 deep"},
		"array as body":    {`[]`, "", "invalid_json", "it is an array, not an object"},
		"string as body":   {`"x"`, "", "invalid_json", "it is a string, not an object"},

		"no model":             {`{"messages":[` + hi + `]}`, "model", apierror.CodeMissingParameter, "is required"},
		"empty model":          {`{"model":"","messages":[` + hi + `]}`, "model", apierror.CodeInvalidValue, "must not be empty"},
		"model of white space": {`{"model":" \n","messages":[` + hi + `]}`, "model", apierror.CodeInvalidValue, "must not be empty"},
		"long model":           {`{"model":"` + strings.Repeat("m", 1025) + `","messages":[` + hi + `]}`, "model", apierror.CodeInvalidValue, "at most 1024 bytes"},
		"no messages":          {`{"model":"m"}`, "messages", apierror.CodeMissingParameter, "is required"},
		"empty messages":       {withMessages(``), "messages", apierror.CodeInvalidValue, "at least one message"},
		"Responses, nothing":   {`{"model":"m","messages":[ ],"input":[]}`, "input", apierror.CodeInvalidValue, "at least one item"},
		"Responses, no model":  {`{"input":"x"}`, "model", apierror.CodeMissingParameter, "is required"},
		"no role":              {withMessages(`{"content":"x"}`), "messages[0].role", apierror.CodeMissingParameter, "is required"},
		"unknown role":         {withMessages(hi + `,{"role":"robot","content":"x"}`), "messages[1].role", apierror.CodeInvalidValue, "must be one of"},
		"no content":           {withMessages(`{"role":"user"}`), "messages[0].content", apierror.CodeMissingParameter, "is required"},
		"no tool content":      {withMessages(calls("a") + `,{"role":"tool","tool_call_id":"a"}`), "messages[1].content", apierror.CodeMissingParameter, "is required"},
		"no function content":  {withMessages(`{"role":"function","name":"f"}`), "messages[0].content", apierror.CodeMissingParameter, "is required"},
		"no part type":         {withMessages(`{"role":"user","content":[{"text":"x"}]}`), "messages[0].content[0].type", apierror.CodeMissingParameter, "is required"},
		"unknown part":         {withMessages(`{"role":"user","content":[{"type":"video"}]}`), "messages[0].content[0].type", apierror.CodeInvalidValue, "text or image_url"},
		"audio part":           {withMessages(`{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`), "messages[0].content[0].type", apierror.CodeUnsupportedParameter, "audio"},
		"file part":            {withMessages(`{"role":"user","content":[{"type":"file","file":{}}]}`), "messages[0].content[0].type", apierror.CodeUnsupportedParameter, "send its text"},
		"Responses part":       {withMessages(`{"role":"user","content":[{"type":"input_text","text":"x"}]}`), "messages[0].content[0].type", apierror.CodeInvalidValue, "/v1/responses"},
		"image in system":      {withMessages(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `"}}]}`), "messages[0].content[0].type", apierror.CodeInvalidValue, "must be text in a message of the role system"},
		"refusal of a user":    {withMessages(`{"role":"user","content":[{"type":"refusal","refusal":"x"}]}`), "messages[0].content[0].type", apierror.CodeInvalidValue, "text or image_url"},
		"assistant audio":      {withMessages(`{"role":"assistant","audio":{"id":"a"}}`), "messages[0].audio", apierror.CodeUnsupportedParameter, "audio"},
		"plain http image":     {image("http://example.com/a.png"), imageURL, apierror.CodeInvalidValue, "a data URL (data:image/png;base64,…) or an https URL"},
		"image in a file":      {image("file:///a.png"), imageURL, apierror.CodeInvalidValue, "must be a data URL"},
		"image without scheme": {image("iVBORw0KGgo="), imageURL, apierror.CodeInvalidValue, "must be a data URL"},
		"image without host":   {image("https:///a.png"), imageURL, apierror.CodeInvalidValue, "not a valid https URL"},
		"image at a bad host":  {image("https://exa mple/a.png"), imageURL, apierror.CodeInvalidValue, "not a valid https URL"},
		"many remote images":   {withMessages(remoteImages(17)), "messages", apierror.CodeInvalidValue, "at most 16 remote images, not 17"},
		"image not base64":     {image("data:image/png,abc"), imageURL, apierror.CodeInvalidValue, "in base64"},
		"image without data":   {image("data:image/png;base64"), imageURL, apierror.CodeInvalidValue, "in base64"},
		"svg image":            {image("data:image/svg+xml;base64,AAAA"), imageURL, apierror.CodeInvalidValue, "png, jpeg, gif or webp"},
		"no image":             {image("data:image/png;base64,AAAA"), imageURL, apierror.CodeInvalidValue, "does not hold a png"},
		"bad base64":           {image("data:image/png;base64,AA*A"), imageURL, apierror.CodeInvalidValue, "valid base64"},
		"cut base64":           {image("data:image/png;base64,AAA"), imageURL, apierror.CodeInvalidValue, "valid base64"},
		"over-padded base64":   {image("data:image/png;base64,A==="), imageURL, apierror.CodeInvalidValue, "valid base64"},
		"empty image":          {image("data:image/png;base64,"), imageURL, apierror.CodeInvalidValue, "is empty"},
		"image detail":         {withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `","detail":"huge"}}]}`), "messages[0].content[0].image_url.detail", apierror.CodeInvalidValue, "auto, low, high"},

		"result without call":   {withMessages(hi + `,` + result("a")), "messages[1].tool_call_id", apierror.CodeInvalidValue, `"a"`},
		"result of another":     {withMessages(calls("a") + `,` + result("b")), "messages[1].tool_call_id", apierror.CodeInvalidValue, `"b"`},
		"result twice":          {withMessages(calls("a") + `,` + result("a") + `,` + result("a")), "messages[2].tool_call_id", apierror.CodeInvalidValue, `"a"`},
		"result too late":       {withMessages(calls("a") + `,` + result("a") + `,` + hi + `,` + result("a")), "messages[3].tool_call_id", apierror.CodeInvalidValue, `"a"`},
		"no tool_call_id":       {withMessages(calls("a") + `,{"role":"tool","content":"r"}`), "messages[1].tool_call_id", apierror.CodeMissingParameter, "is required"},
		"call without result":   {withMessages(calls("a", "b", "c") + `,` + result("b") + `,` + hi), "messages[0].tool_calls[0].id", apierror.CodeInvalidValue, "tool_call_id a, c"},
		"call at the end":       {withMessages(hi + `,` + calls("a", "b") + `,` + result("a")), "messages[1].tool_calls[1].id", apierror.CodeInvalidValue, "tool_call_id b"},
		"many without result":   {withMessages(calls("a", "b", "c", "d", "e", "f", "g")), "messages[0].tool_calls[0].id", apierror.CodeInvalidValue, "tool_call_id a, b, c, d, e, …"},
		"user before result":    {withMessages(calls("a") + `,` + hi + `,` + result("a")), "messages[0].tool_calls[0].id", apierror.CodeInvalidValue, "tool_call_id a"},
		"same id twice":         {withMessages(calls("a", "a")), "messages[0].tool_calls[1].id", apierror.CodeInvalidValue, "used twice"},
		"empty call id":         {withMessages(calls("")), "messages[0].tool_calls[0].id", apierror.CodeInvalidValue, "must not be empty"},
		"custom call":           {withMessages(`{"role":"assistant","tool_calls":[{"id":"a","type":"custom"}]}`), "messages[0].tool_calls[0].custom", apierror.CodeMissingParameter, "is required"},
		"call of empty name":    {withMessages(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"","arguments":""}}]}`), "messages[0].tool_calls[0].function.name", apierror.CodeInvalidValue, "empty"},
		"call without name":     {withMessages(`{"role":"assistant","tool_calls":[{"id":"a","function":{"arguments":""}}]}`), "messages[0].tool_calls[0].function.name", apierror.CodeMissingParameter, "is required"},
		"call without argument": {withMessages(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]}`), "messages[0].tool_calls[0].function.arguments", apierror.CodeMissingParameter, "is required"},

		"duplicate tools":   {withFields(`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"\u0066"}}]`), "tools[1].function.name", apierror.CodeInvalidValue, "used twice"},
		"tool name":         {withTool(`{"name":"a b"}`, ""), "tools[0].function.name", apierror.CodeInvalidValue, "letters, digits"},
		"tool name in dots": {withTool(`{"name":"web.run"}`, ""), "tools[0].function.name", apierror.CodeInvalidValue, "letters, digits"},
		"tool name accents": {withTool(`{"name":"prüfe"}`, ""), "tools[0].function.name", apierror.CodeInvalidValue, "letters, digits"},
		"empty tool name":   {withTool(`{"name":""}`, ""), "tools[0].function.name", apierror.CodeInvalidValue, "must not be empty"},
		"long tool name":    {withTool(`{"name":"`+strings.Repeat("a", 129)+`"}`, ""), "tools[0].function.name", apierror.CodeInvalidValue, "at most 128"},
		"no tool name":      {withTool(`{}`, ""), "tools[0].function.name", apierror.CodeMissingParameter, "is required"},
		"too many tools":    {withFields(`"tools":[` + manyTools(prompt.MaxTools+1) + `]`), "tools", apierror.CodeInvalidValue, "at most 1024"},
		"flat tool":         {withFields(`"tools":[{"type":"function","name":"a b"}]`), "tools[0].name", apierror.CodeInvalidValue, "letters, digits"},
		"empty tool":        {withFields(`"tools":[{"type":"function"}]`), "tools[0].function", apierror.CodeMissingParameter, "is required."},
		"custom tool":       {withFields(`"tools":[{"type":"custom","custom":{}}]`), "tools[0].custom.name", apierror.CodeMissingParameter, "is required"},

		"unknown choice":           {withTool(readNote, `,"tool_choice":"any"`), "tool_choice", apierror.CodeInvalidValue, "none, auto, required"},
		"required without tools":   {withFields(`"tool_choice":"required"`), "tool_choice", apierror.CodeInvalidValue, "only allowed when 'tools'"},
		"required, empty tools":    {withFields(`"tools":[],"tool_choice":"required"`), "tool_choice", apierror.CodeInvalidValue, "only allowed when 'tools'"},
		"named without tools":      {withFields(`"tool_choice":{"type":"function","function":{"name":"f"}}`), "tool_choice", apierror.CodeInvalidValue, "only allowed when 'tools'"},
		"named unknown":            {withTool(readNote, `,"tool_choice":{"type":"function","function":{"name":"f"}}`), "tool_choice", apierror.CodeInvalidValue, `"f"`},
		"named empty":              {withTool(readNote, `,"tool_choice":{"type":"function","function":{"name":""}}`), "tool_choice.function.name", apierror.CodeInvalidValue, "must not be empty"},
		"choice type":              {withTool(readNote, `,"tool_choice":{"type":"mcp"}`), "tool_choice.type", apierror.CodeUnsupportedParameter, "allowed_tools"},
		"allowed unknown":          {withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`), "tool_choice", apierror.CodeInvalidValue, `"f"`},
		"allowed none":             {withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`), "tool_choice.allowed_tools.tools", apierror.CodeInvalidValue, "at least one"},
		"allowed mode":             {withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[]}}`), "tool_choice.allowed_tools.mode", apierror.CodeInvalidValue, "auto or required"},
		"allowed custom":           {withTool(readNote, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"mcp"}]}}`), "tool_choice.allowed_tools.tools[0].type", apierror.CodeUnsupportedParameter, "function or custom"},
		"format type":              {withFields(`"response_format":{"type":"xml"}`), "response_format.type", apierror.CodeInvalidValue, "json_schema"},
		"format without type":      {withFields(`"response_format":{}`), "response_format.type", apierror.CodeMissingParameter, "is required"},
		"format without schema":    {withFields(`"response_format":{"type":"json_schema"}`), "response_format.json_schema", apierror.CodeMissingParameter, "is required"},
		"schema without name":      {withFields(`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`), "response_format.json_schema.name", apierror.CodeMissingParameter, "is required"},
		"schema without schema":    {withFields(`"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`), "response_format.json_schema.schema", apierror.CodeMissingParameter, "is required"},
		"unknown effort":           {withFields(`"reasoning_effort":"ultra"`), "reasoning_effort", apierror.CodeInvalidValue, "xhigh"},
		"unknown service tier":     {withFields(`"service_tier":"slow"`), "service_tier", apierror.CodeInvalidValue, "auto, default, flex, scale, priority, fast"},
		"unknown verbosity":        {withFields(`"verbosity":"chatty"`), "verbosity", apierror.CodeInvalidValue, "low, medium, high"},
		"options without stream":   {withFields(`"stream_options":{"include_usage":true}`), "stream_options", apierror.CodeInvalidValue, "'stream' is true"},
		"options, stream is false": {withFields(`"stream_options":{},"stream":false`), "stream_options", apierror.CodeInvalidValue, "'stream' is true"},
		"nine choices":             {withFields(`"n":9`), "n", apierror.CodeInvalidValue, "at most 8"},
		"no end of choices":        {withFields(`"n":1e999`), "n", apierror.CodeInvalidValue, "at most 8"},
		"no choice":                {withFields(`"n":0`), "n", apierror.CodeInvalidValue, "integer of at least 1"},
		"half a choice":            {withFields(`"n":1.5`), "n", apierror.CodeInvalidValue, "integer of at least 1"},
		"no tokens":                {withFields(`"max_tokens":0`), "max_tokens", apierror.CodeInvalidValue, "integer of at least 1"},
		"fewer tokens":             {withFields(`"max_completion_tokens":-1`), "max_completion_tokens", apierror.CodeInvalidValue, "integer of at least 1"},
		"half a token":             {withFields(`"max_completion_tokens":0.5`), "max_completion_tokens", apierror.CodeInvalidValue, "integer of at least 1"},
		"five stops":               {withFields(`"stop":["a","b","c","d","a"]`), "stop", apierror.CodeInvalidValue, "at most 4"},
		"empty stop":               {withFields(`"stop":""`), "stop", apierror.CodeInvalidValue, "must not be empty"},
		"empty stop of two":        {withFields(`"stop":["a",""]`), "stop[1]", apierror.CodeInvalidValue, "must not be empty"},
		"endless stop":             {withFields(`"stop":"` + strings.Repeat("a", prompt.MaxStopBytes+1) + `"`), "stop", apierror.CodeInvalidValue, "at most 4096 bytes"},
		"logprobs":                 {withFields(`"logprobs":true`), "logprobs", apierror.CodeUnsupportedParameter, "log probabilities"},
		"top_logprobs":             {withFields(`"top_logprobs":2`), "top_logprobs", apierror.CodeUnsupportedParameter, "log probabilities"},
		"audio answer":             {withFields(`"modalities":["text","audio"]`), "modalities[1]", apierror.CodeUnsupportedParameter, "answers are text"},
		"picture answer":           {withFields(`"modalities":["text","image"]`), "modalities[1]", apierror.CodeUnsupportedParameter, "POST /v1/images/generations makes pictures"},
		"picture of an answer":     {withMessages(`{"role":"assistant","content":"See:","images":[{"type":"image_url"}]}`), "messages[0].images", apierror.CodeUnsupportedParameter, "in a message of the user"},
		"assistant's image":        {withMessages(`{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `"}}]}`), "messages[0].content[0].type", apierror.CodeInvalidValue, "text or refusal"},
		"audio settings":           {withFields(`"audio":{"voice":"x"}`), "audio", apierror.CodeUnsupportedParameter, "answers are text"},

		"functions and tools":       {withTool(readNote, `,"functions":[{"name":"f"}]`), "functions", apierror.CodeInvalidValue, "use 'tools' alone"},
		"functions, tool choice":    {withFields(`"functions":[{"name":"f"}],"tool_choice":"none"`), "tool_choice", apierror.CodeInvalidValue, "use 'function_call'"},
		"tools, function choice":    {withTool(readNote, `,"function_call":"none"`), "function_call", apierror.CodeInvalidValue, "use 'tool_choice'"},
		"duplicate functions":       {withFields(`"functions":[{"name":"f"},{"name":"f"}]`), "functions[1].name", apierror.CodeInvalidValue, "used twice"},
		"too many functions":        {withFields(`"functions":[` + manyFunctions(prompt.MaxTools+1) + `]`), "functions", apierror.CodeInvalidValue, "at most 1024 functions"},
		"function name":             {withFields(`"functions":[{"name":"a b"}]`), "functions[0].name", apierror.CodeInvalidValue, "letters, digits"},
		"function choice":           {withFields(`"functions":[{"name":"f"}],"function_call":"required"`), "function_call", apierror.CodeInvalidValue, "none, auto or an object"},
		"unknown function":          {withFields(`"functions":[{"name":"f"}],"function_call":{"name":"g"}`), "function_call", apierror.CodeInvalidValue, `"g"`},
		"function without any":      {withFields(`"function_call":{"name":"g"}`), "function_call", apierror.CodeInvalidValue, `"g"`},
		"nameless function":         {withFields(`"functions":[{"name":"f"}],"function_call":{}`), "function_call.name", apierror.CodeMissingParameter, "is required"},
		"function and tool calls":   {withMessages(`{"role":"assistant","tool_calls":[` + call("a") + `],"function_call":{"name":"f","arguments":""}}`), "messages[0].function_call", apierror.CodeInvalidValue, "beside 'tool_calls'"},
		"function without answer":   {withMessages(called + `,` + hi), "messages[0].function_call", apierror.CodeInvalidValue, "message of the role function"},
		"function call at the end":  {withMessages(hi + `,` + called), "messages[1].function_call", apierror.CodeInvalidValue, "message of the role function"},
		"answer without function":   {withMessages(answer), "messages[0].name", apierror.CodeInvalidValue, `no function_call of "f"`},
		"answer to a tool call":     {withMessages(calls("a") + `,` + answer), "messages[1].name", apierror.CodeInvalidValue, `no function_call of "f"`},
		"answer of another":         {withMessages(called + `,{"role":"function","name":"g","content":"r"}`), "messages[1].name", apierror.CodeInvalidValue, `no function_call of "g"`},
		"second answer":             {withMessages(called + `,` + answer + `,` + answer), "messages[2].name", apierror.CodeInvalidValue, `no function_call of "f"`},
		"late answer":               {withMessages(called + `,` + hi + `,` + answer), "messages[2].name", apierror.CodeInvalidValue, `no function_call of "f"`},
		"nameless answer":           {withMessages(called + `,{"role":"function","content":"r"}`), "messages[1].name", apierror.CodeMissingParameter, "is required"},
		"Responses, its own fields": {`{"model":"m","tools":[{"type":"web_search"}],"messages":null,"input":"hi"}`, "tools[0].type", apierror.CodeUnsupportedParameter, "not supported here"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.body))
			if err == nil {
				t.Fatalf("%.200s\naccepted", c.body)
			}
			if err.Status != http.StatusBadRequest || err.Type != apierror.TypeInvalidRequest || err.Param != c.param || err.Code != c.code {
				t.Errorf("got %+v, want param %q and code %q", err, c.param, c.code)
			}
			if !strings.Contains(err.Message, c.says) {
				t.Errorf("message %q does not say %q", err.Message, c.says)
			}
		})
	}
}

// TestDecodeChatAccepts holds requests that look odd and are none the less right.
func TestDecodeChatAccepts(t *testing.T) {
	for name, body := range map[string]string{
		"space around":            " \n" + withFields(`"n":1`) + "\r\n ",
		"unknown fields":          withFields(`"foo":{"bar":[1]},"x":null`),
		"nulls":                   withFields(`"tools":null,"tool_choice":null,"stream":null,"stream_options":null,"n":null,"logprobs":null,"top_logprobs":null,"response_format":null,"reasoning_effort":null,"stop":null,"functions":null,"function_call":null,"max_tokens":null,"max_completion_tokens":null,"audio":null,"modalities":null,"parallel_tool_calls":null`),
		"no tools but a choice":   withFields(`"tools":[],"tool_choice":"auto"`),
		"none without tools":      withFields(`"tool_choice":"none"`),
		"logprobs false":          withFields(`"logprobs":false`),
		"one choice as a float":   withFields(`"n":1.0`),
		"eight choices":           withFields(`"n":8`),
		"no stop":                 withFields(`"stop":[]`),
		"more tokens than any":    withFields(`"max_tokens":1e300,"max_completion_tokens":9007199254740993`),
		"no functions":            withFields(`"functions":[],"function_call":"auto"`),
		"no functions, none":      withFields(`"functions":[],"function_call":"none"`),
		"no functions but tools":  withTool(readNote, `,"functions":[],"function_call":"auto"`),
		"functions, no tools":     withFields(`"functions":[{"name":"f"}],"tools":[],"tool_choice":"auto"`),
		"many functions":          withFields(`"functions":[` + manyFunctions(prompt.MaxTools) + `]`),
		"sixteen remote images":   withMessages(remoteImages(16) + `,` + remoteImages(16)),
		"null of everybody":       withMessages(`{"role":"system","content":null},{"role":"developer","content":null},{"role":"user","content":null}`),
		"no parts of anybody":     withMessages(`{"role":"system","content":[]},{"role":"user","content":[]},{"role":"assistant","content":[]},{"role":"user","content":"x"}`),
		"dumped answer":           withMessages(`{"role":"user","content":"x"},{"role":"assistant","content":"y","refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":null,"reasoning_content":"z","provider_specific_fields":null}`),
		"dumped calls":            withMessages(`{"role":"assistant","content":[],"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}","parsed_arguments":null}}]},{"role":"tool","name":"f","tool_call_id":"a","content":[{"type":"text","text":"r"}]}`),
		"empty text and calls":    withMessages(`{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":[]}`),
		"text only":               withFields(`"modalities":["text"]`),
		"both bodies":             withFields(`"input":"x"`),
		"empty user message":      withMessages(`{"role":"user","content":""}`),
		"only a system message":   withMessages(`{"role":"system","content":"x"}`),
		"an assistant's last":     withMessages(`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`),
		"a silent assistant":      withMessages(`{"role":"user","content":"a"},{"role":"assistant","content":null},{"role":"user","content":"b"}`),
		"empty calls":             withMessages(`{"role":"assistant","content":"x","tool_calls":[]}`),
		"null in an assistant":    withMessages(`{"role":"assistant","content":"x","tool_calls":null,"function_call":null,"refusal":null,"audio":null,"name":null}`),
		"results in other order":  withMessages(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":""}},{"id":"b","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"b","content":"r"},{"role":"tool","tool_call_id":"a","content":null}`),
		"ids used again":          withMessages(strings.Repeat(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":"r"},`, 2) + `{"role":"user","content":"x"}`),
		"many tools":              withFields(`"tools":[` + manyTools(prompt.MaxTools) + `]`),
		"128 letters":             withTool(`{"name":"`+strings.Repeat("a", 128)+`"}`, ""),
		"escaped slashes":         withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/jpeg;base64,\/9j\/4AAQ"}}]}`),
		"capital scheme":          withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"DATA:image/WebP;BASE64,/9j/AAA="}}]}`),
		"image in a tool result":  withMessages(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `"}}]}`),
		"the last of two models":  `{"model":"a","model":"m","messages":[{"role":"user","content":"x"}]}`,
		"escaped member names":    `{"mod\u0065l":"m","messages":[{"r\u006fle":"user","content":"x"}]}`,
		"a surrogate by itself":   withMessages(`{"role":"user","content":"cut \ud83d"}`),
		"schema as deep as Codex": withTool(`{"name":"f","parameters":`+strings.Repeat(`{"a":`, 121)+`{}`+strings.Repeat(`}`, 121)+`}`, ""),
	} {
		t.Run(name, func(t *testing.T) {
			if r := mustDecode(t, body); r.Model != "m" {
				t.Errorf("model %q", r.Model)
			}
		})
	}
}

func TestInstructionsContain(t *testing.T) {
	for name, c := range map[string]struct {
		messages string
		want     bool
	}{
		"system":             {`{"role":"system","content":"speak of <use_tool>"}`, true},
		"escaped":            {`{"role":"system","content":"\u003cuse_tool\u003e"}`, true},
		"second part":        {`{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"<use_tool>"}]}`, true},
		"later developer":    {`{"role":"user","content":"a"},{"role":"developer","content":"<use_tool>"}`, true},
		"first assistant":    {`{"role":"assistant","content":"<use_tool>"},{"role":"user","content":"a"}`, true},
		"assistant's answer": {`{"role":"user","content":"a"},{"role":"assistant","content":"<use_tool>"}`, false},
		"user":               {`{"role":"user","content":"<use_tool>"}`, false},
		"other text":         {`{"role":"system","content":"<use_tools>"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustDecode(t, withMessages(c.messages)).InstructionsContain("<use_tool>"); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
