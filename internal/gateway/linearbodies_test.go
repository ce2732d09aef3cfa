package gateway

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// The bodies below have many of something. What is in « » comes n times, separated by commas, and what
// is in ‹ › n times without. № is the number of the repetition, №№ the number with 25 digits, and -№
// counts down to 0.
var repeated = regexp.MustCompile(`(?s)«.*?»|‹.*?›`)

// expand returns a body that has n of what it has many of.
func expand(body string, n int) string {
	return repeated.ReplaceAllStringFunc(body, func(part string) string {
		element := strings.Trim(part, "«»‹›")
		if strings.HasPrefix(part, "‹") {
			return strings.Repeat(element, n)
		}
		if !strings.Contains(element, "№") {
			return repeat(n, element)
		}
		all := make([]string, n)
		for i := range all {
			all[i] = strings.NewReplacer("-№", strconv.Itoa(n-1-i), "№№", fmt.Sprintf("%025d", i), "№", strconv.Itoa(i)).Replace(element)
		}
		return strings.Join(all, ",")
	})
}

func repeat(n int, element string) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

const (
	userMessage = `{"role":"user","content":"q"}`
	aPixel      = `data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==`
	// asCodex lets a request bring hosted tools.
	asCodex = `"client_metadata":{"x-codex-installation-id":"i"}`
)

// withMember is a chat request with the members, which come behind the messages.
func withMember(members string) string {
	return `{"model":"m","messages":[` + userMessage + `],` + members + `}`
}

// conversing is a chat request with the messages.
func conversing(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }

func respond(members string) string { return `{"model":"m","input":"q",` + members + `}` }

func following(items string) string { return `{"model":"m","input":[` + items + `]}` }

// hostileBodies are requests by their paths and by what they have many of.
func hostileBodies() map[string]map[string]string {
	return map[string]map[string]string{
		chatPath: chatBodies(), responsesPath: responseBodies(), "/v1/messages": messageBodies(), "/api/chat": ollamaBodies(),
	}
}

// chatBodies are chat requests, by what they have many of.
func chatBodies() map[string]string {
	bodies := map[string]string{
		"user messages":           conversing(`«` + userMessage + `»`),
		"long messages":           conversing(`«{"role":"user","content":"` + strings.Repeat("word ", 100) + `"}»`),
		"system messages":         conversing(`«{"role":"system","content":"s"}»`),
		"later instructions":      conversing(userMessage + `,«{"role":"developer","content":"<use_too"}»`),
		"empty messages":          conversing(`«{"role":"assistant"}»`),
		"refusals":                conversing(`«{"role":"assistant","content":"a","apiErr":"r"}»`),
		"text parts":              conversing(`{"role":"user","content":[«{"type":"text","text":"t"}»]}`),
		"parts of instructions":   conversing(`{"role":"system","content":[«{"type":"text","text":"<use_too"}»]}`),
		"images":                  conversing(`{"role":"user","content":[«{"type":"image_url","image_url":{"url":"` + aPixel + `"}}»]}`),
		"images elsewhere":        conversing(`{"role":"user","content":[«{"type":"image_url","image_url":{"url":"https://h/№"}}»]}`),
		"one image elsewhere":     conversing(`{"role":"user","content":[«{"type":"image_url","image_url":{"url":"https://h/i"}}»]}`),
		"input in an image":       conversing(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoA‹AAAA›"}}]}`),
		"calls and results":       conversing(`{"role":"assistant","tool_calls":[«{"id":"c№","type":"function","function":{"name":"f","arguments":"{}"}}»]},«{"role":"tool","tool_call_id":"c№","content":"r"}»`),
		"turns of one call":       conversing(`«{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"c","content":"r"}»`),
		"calls without results":   conversing(`{"role":"assistant","tool_calls":[«{"id":"c№","function":{"name":"f","arguments":"{}"}}»]},` + userMessage),
		"calls of one id":         conversing(`{"role":"assistant","tool_calls":[«{"id":"c","function":{"name":"f","arguments":"{}"}}»]}`),
		"results without calls":   conversing(`«{"role":"tool","tool_call_id":"c","content":"r"}»`),
		"parts of a result":       conversing(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"c","content":[«{"type":"text","text":"t"}»]}`),
		"function calls":          conversing(`«{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}»`),
		"odd names of calls":      conversing(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"‹é.›","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`),
		"long ids":                conversing(`{"role":"assistant","tool_calls":[{"id":"‹c›","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"‹c›","content":"r"}`),
		"arguments":               conversing(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":\"‹\\\"›\"}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`),
		"openers in instructions": conversing(`{"role":"system","content":"‹<use_too›"},` + userMessage),

		"tools":     withMember(`"tools":[«{"type":"function","function":{"name":"f№"}}»]`),
		"functions": withMember(`"functions":[«{"name":"f№"}»]`),
		// They are all the same as far as Codex's limit lets them be told apart.
		"reserved names":        withMember(`"tools":[«{"type":"function","function":{"name":"mcp__` + strings.Repeat("x", 118) + `№"}}»]`),
		"taken names":           withMember(`"tools":[{"type":"function","function":{"name":"exec"}},«{"type":"function","function":{"name":"client_exec_№"}}»]`),
		"allowed tools":         withMember(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[«{"type":"function","function":{"name":"f"}}»]}}`),
		"unknown allowed tools": withMember(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[«{"type":"function","function":{"name":"g№"}}»]}}`),
		"logit biases":          withMember(`"logit_bias":{«"№":1»}`),
		"metadata":              withMember(`"metadata":{«"k№":"v"»}`),
		"modalities":            withMember(`"modalities":[«"text"»]`),
		"stops":                 withMember(`"stop":[«"s№"»]`),
		"a long stop":           withMember(`"stop":"‹a›"`),
		"predictions":           withMember(`"prediction":{"content":[«{"type":"text","text":"t"}»]}`),
		"eight choices":         `{"model":"m","n":8,"messages":[«` + userMessage + `»]}`,
		"stream options":        withMember(`"stream":true,"stream_options":{«"include_usage":true»}`),
	}
	for what, schema := range schemas() {
		bodies[what+" of a tool"] = withMember(`"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}}]`)
		bodies[what+" of a format"] = withMember(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + schema + `}}`)
	}
	for what, value := range values() {
		bodies["unknown "+what] = withMember(`"unknown":` + value)
		bodies["content of "+what] = conversing(`{"role":"user","content":` + value + `}`)
		bodies["a role of "+what] = conversing(`{"content":"q","role":` + value + `}`)
		bodies["a seed of "+what] = withMember(`"seed":` + value)
		bodies["max_tokens of "+what] = withMember(`"max_tokens":` + value)
	}
	for what, member := range map[string]string{
		"model": `"model":"m"`, "messages": `"messages":[` + userMessage + `]`, "tools": `"tools":[{"type":"function","function":{"name":"mcp"}}]`,
		"functions": `"functions":[]`, "stop": `"stop":["a","b","c","d"]`, "seed": `"seed":1`, "unknown": `"x":1`, "escaped": `"\u006dodel":"m"`,
		"image": `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://h/i"}}]}]`,
	} {
		bodies["the same member, "+what] = withMember(`«` + member + `»`)
	}
	maps.Copy(bodies, brokenTexts())
	return bodies
}

// responseBodies are Responses requests, by what they have many of. They may
// refer to what storedBodies has.
func responseBodies() map[string]string {
	toLinks := ""
	for link := range storedLinks {
		toLinks += `,{"id":"msg_` + storedSuffix(link) + `_i0"}`
	}
	bodies := map[string]string{
		"messages":                  following(`«` + userMessage + `»`),
		"assistant's":               following(`«{"role":"assistant","content":"a","phase":"commentary"}»` + "," + userMessage),
		"text parts":                following(`{"role":"user","content":[«{"type":"input_text","text":"t"}»]}`),
		"images":                    following(`{"role":"user","content":[«{"type":"input_image","image_url":"` + aPixel + `"}»]}`),
		"images elsewhere":          following(`{"role":"user","content":[«{"type":"input_image","image_url":"https://h/i"}»]}`),
		"calls and outputs":         following(`«{"type":"function_call","call_id":"c№","name":"f","arguments":"{}"}»,«{"type":"function_call_output","call_id":"c№","output":"r"}»`),
		"calls without outputs":     following(`«{"type":"function_call","call_id":"c№","name":"f","arguments":"{}"}»`),
		"custom calls":              following(`«{"type":"custom_tool_call","call_id":"c","name":"f","input":"\"x\""},{"type":"custom_tool_call_output","call_id":"c","output":"r"}»`),
		"searches":                  following(`«{"type":"tool_search_call","call_id":"c","arguments":{"q":1}},{"type":"tool_search_output","call_id":"c","tools":[{"type":"function","name":"f"}]}»`),
		"found tools":               following(`{"type":"tool_search_call","call_id":"c","arguments":{"q":1}},{"type":"tool_search_output","call_id":"c","tools":[«{"type":"function","name":"f"}»]}`),
		"additional tools":          following(`{"type":"additional_tools","tools":[«{"type":"function","name":"f№"}»]},` + userMessage),
		"items of additional tools": following(`«{"type":"additional_tools","tools":[{"type":"custom","name":"mcp"}]}»` + "," + userMessage),
		"outputs' parts":            following(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[«{"type":"input_text","text":"t"}»]}`),
		"reasoning":                 following(`«{"type":"reasoning","id":"rs_` + strings.Repeat("0", 26) + `_0_rs_1","summary":[],"encrypted_content":"e"}»` + "," + userMessage),
		"summaries":                 following(`{"type":"reasoning","id":"r","encrypted_content":"e","summary":[«{"type":"summary_text","text":"t"}»]},` + userMessage),
		"verbatim items":            following(`«{"type":"web_search_call","action":{}}»` + "," + userMessage),
		"members of an item":        following(`{"type":"web_search_call",«"k№":1»},` + userMessage),
		"ids of items":              following(`«{"role":"user","content":"q","id":"msg_1"}»`),
		"references":                following(`«{"type":"item_reference","id":"msg_` + storedSuffix(0) + `_i№"}»`),
		"references to one":         following(`«{"type":"item_reference","id":"msg_` + storedSuffix(0) + `_last"}»`),
		"references to many":        following(`«` + toLinks[1:] + `»`),
		"references to none":        following(`«{"type":"item_reference","id":"msg_№"}»`),
		"references far away":       following(`«{"id":"msg_1№№_i0"}»`),
		"following and references":  `{"model":"m","previous_response_id":"` + responseid.Prefix + storedSuffix(storedLinks-1) + `","input":[«{"type":"item_reference","id":"msg_` + storedSuffix(0) + `_i№"}»]}`,

		"tools":                respond(`"tools":[«{"type":"function","name":"f№"}»]`),
		"hosted tools":         respond(`"tools":[«{"type":"x"}»]`),
		"a Codex's":            respond(asCodex + `,"tools":[«{"type":"x"}»]`),
		"lists of a Codex's":   respond(asCodex + `,«"tools":[` + repeat(100, `{"type":"x"}`) + `]»`),
		"namespaces":           respond(`"tools":[«{"type":"namespace","name":"n№","tools":[]}»]`),
		"tools of a namespace": respond(`"tools":[{"type":"namespace","name":"n","tools":[«{"type":"custom","name":"f№"}»]}]`),
		"a grammar":            respond(`"tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":"lark","definition":"‹\n›"}}]`),
		"members of a tool":    respond(`"tools":[{"type":"function","name":"f",«"k№":1»}]`),
		"allowed tools":        respond(`"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[«{"type":"function","name":"f"}»]}`),
		"include":              respond(`"include":[«"code_interpreter_call.outputs"»]`),
		"metadata":             respond(`"metadata":{«"k№":"v"»}`),
		"a long metadata":      respond(`"metadata":{"‹k›":1}`),
		"client metadata":      respond(`"client_metadata":{«"k№":"v"»}`),
		"management":           respond(`"context_management":[«{}»]`),
		"stream options":       respond(`"stream_options":{«"k№":"v"»}`),
		"formats":              respond(`"text":{«"format":{"type":"text"}»}`),
		"summary modes":        respond(`"reasoning":{«"summary":"auto"»}`),
		"instructions":         respond(`"instructions":"‹<use_too\n›"`),
	}
	for what, schema := range schemas() {
		bodies[what+" of a tool"] = respond(`"tools":[{"type":"function","name":"f","parameters":` + schema + `}]`)
		bodies[what+" of a format"] = respond(`"text":{"format":{"type":"json_schema","name":"n","schema":` + schema + `}}`)
	}
	for what, value := range values() {
		bodies["unknown "+what] = respond(`"unknown":` + value)
		bodies["input of "+what] = `{"model":"m","input":` + value + `}`
		bodies["a type of "+what] = following(`{"type":` + value + `}`)
		bodies["an id of "+what] = following(`{"role":"user","content":"q","id":` + value + `}`)
		bodies["an action of "+what] = following(`{"type":"web_search_call","action":` + value + `},` + userMessage)
		bodies["a temperature of "+what] = respond(`"temperature":` + value)
	}
	for what, member := range map[string]string{
		"input": `"input":[` + userMessage + `]`, "tools": `"tools":[{"type":"custom","name":"mcp"}]`, "hosted": `"tools":[{"type":"x"}]`,
		"include": `"include":[]`, "metadata": `"metadata":{"k":"v"}`, "truncation": `"truncation":"auto"`, "unknown": `"x":1`,
		"previous": `"previous_response_id":"r"`,
	} {
		bodies["the same member, "+what] = respond(asCodex + `,«` + member + `»`)
	}
	return bodies
}

// fewAtMost says of which there are few in a request, and how many.
var fewAtMost = map[string]int{"reserved names": 1024, "taken names": 1016, "deferred tools and references": 900, "images of a message": 400}

// schemas are JSON schemas, by what they have many of.
func schemas() map[string]string {
	return map[string]string{
		"properties":      `{"type":"object","properties":{«"p№":{"type":"string"}»}}`,
		"deep properties": `{"x":[«` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + `»]}`,
		"deep schemas":    strings.Repeat(`{"properties":{"a-rather-long-name":`, 50) + `{"properties":{«"p№":{"minLength":1,"anyOf":[false,{"$ref":"#"}]}»}}` + strings.Repeat("}}", 50),
		"keywords":        `{«"type":"object","x":1,"required":[]»}`,
		"lost values":     `{"properties":{«"p№":{"default":"` + strings.Repeat("x", 100) + `"}»}}`,
		"enums":           `{"enum":[«"e№"»]}`,
		"spaces":          `{‹` + "\n\t " + `›"type":"object"}`,
	}
}

// values are JSON values, by what they have many of.
func values() map[string]string {
	return map[string]string{
		"numbers":      `[«1e999999»]`,
		"objects":      `[«{}»]`,
		"members":      `{«"k№":0»}`,
		"equal names":  `{«"k":0»}`,
		"long names":   `{"‹k›":0}`,
		"nested":       `[«` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `»]`,
		"digits":       `1‹0›`,
		"fractions":    `0.‹0›` + "1",
		"exponents":    `1e‹9›`,
		"letters":      `"‹a›"`,
		"escapes":      `"‹\n›"`,
		"quotes":       `"‹\"›"`,
		"backslashes":  `"‹\\›"`,
		"code units":   `"‹\u00e9›"`,
		"surrogates":   `"‹\ud83d\ude00›"`,
		"lone halves":  `"‹\ud83d›"`,
		"markup":       `"‹<&>›"`,
		"wide letters": `"‹你›"`,
		"blanks":       `[‹` + " \n" + `›]`,
	}
}

// brokenTexts are no JSON, from some place on.
func brokenTexts() map[string]string {
	return map[string]string{
		"brackets":            `‹[›`,
		"braces":              `‹{"a":›`,
		"an end in a string":  `{"a":"‹a›`,
		"an end behind much":  `{"a":[‹1,›`,
		"bytes without runes": `{"a":"‹a›` + "\xff\"}",
		"zeros":               `‹` + "\x00" + `›`,
		"nothing but blanks":  `‹ ›`,
		"no object":           `[«1»]`,
	}
}

// messageBodies are requests of Anthropic's API, by what they have many of.
func messageBodies() map[string]string {
	blocks := func(blocks string) string { return conversing(`{"role":"user","content":[` + blocks + `]}`) }
	const call = `{"type":"tool_use","id":"c№","name":"f","input":{"a":[{}]}}`
	return map[string]string{
		"messages":     conversing(`«` + userMessage + `»`),
		"text blocks":  blocks(`«{"type":"text","text":"t"}»`),
		"empty blocks": blocks(`«{"type":"text","text":""}»`),
		"images":       blocks(`«{"type":"image","source":{"type":"url","url":"https://h/№"}}»`),
		"documents":    blocks(`«{"type":"document","source":{"type":"content","content":[{"type":"text","text":"t"}]}}»`),
		"calls, results in the other order": conversing(userMessage + `,{"role":"assistant","content":[«` + call +
			`»]},{"role":"user","content":[«{"type":"tool_result","tool_use_id":"c-№","content":[{"type":"text","text":"r"}]}»]}`),
		"calls without results": conversing(userMessage + `,{"role":"assistant","content":[«` + call + `»]}`),
		"signatures":            conversing(userMessage + `,{"role":"assistant","content":[«{"type":"thinking","thinking":"t","signature":"codex-1.a.b"}»]}`),
		"notes":                 conversing(userMessage + `,«{"role":"system","content":"s"}»`),
		"summaries":             conversing(`{"role":"user","content":"q"},{"role":"assistant","content":[«{"type":"text","text":"a"},{"type":"compaction","content":"s","encrypted_content":"codex-sealed-1.№"},{"type":"compaction","content":"s"}»]},` + userMessage),
		"edited uses and reasoning": `{"model":"m","context_management":{"edits":[{"type":"clear_thinking_20251015"},{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1},` +
			`"clear_at_least":{"type":"input_tokens","value":50000000},"exclude_tools":["g"]}]},"messages":[` + userMessage + `,«{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"codex-1.a.b"},` + call +
			`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c№","content":"r"}]}»]}`,
		"system texts": withMember(`"system":[«{"type":"text","text":"s"}»]`),
		"deferred tools and references": `{"model":"m","tools":[«{"name":"t№","input_schema":{},"defer_loading":true}»],"messages":[` + userMessage +
			`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t1","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[` +
			`«{"type":"tool_reference","tool_name":"t1"}»]}]}]}`,
		"schema in the format": withMember(`"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{«"p№":{"type":"string"}»}}}}`),
		"a schema nested":      withMember(`"output_config":{"format":{"type":"json_schema","schema":{"anyOf":[«{"anyOf":[{"anyOf":[{"type":"null"}]}]}»]}}}`),
	}
}

// ollamaBodies are requests of Ollama's API, by what they have many of.
func ollamaBodies() map[string]string {
	results := func(result string) string {
		return conversing(userMessage + `,{"role":"assistant","tool_calls":[«{"id":"c№","function":{"name":"f","arguments":{}}}»]},«` + result + `»`)
	}
	return map[string]string{
		"messages that become one":          conversing(`«` + userMessage + `»`),
		"empty answers":                     conversing(userMessage + `,«{"role":"assistant","content":""}»`),
		"results of nothing":                conversing(`«{"role":"tool","content":"r"}»` + "," + userMessage),
		"results by order":                  results(`{"role":"tool","content":"r"}`),
		"results by name":                   results(`{"role":"tool","tool_name":"f","content":"r"}`),
		"results by id, in the other order": results(`{"role":"tool","tool_call_id":"c-№","tool_name":"f","content":"r"}`),
		"calls without results":             conversing(userMessage + `,{"role":"assistant","tool_calls":[«{"id":"c","function":{"name":"f","arguments":{}}}»]}`),
		"images of a message":               conversing(`{"role":"user","content":"q","images":[«"` + aPixel + `"»]}`),
		"stops":                             withMember(`"options":{"stop":[«"s№"»]}`),
		"options":                           withMember(`"options":{«"o№":1»}`),
	}
}
