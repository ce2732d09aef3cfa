package gateway

import (
	"fmt"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// hostileBody makes a body whose arrays, objects or texts have about n elements.
type hostileBody func(n int) string

// list is n elements, each made from its index.
func list(n int, element func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(i))
	}
	return b.String()
}

func repeat(n int, element string) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

func numbered(n int, format string) string {
	return list(n, func(i int) string { return fmt.Sprintf(format, i) })
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

// chatBodies are chat requests, by what they have many of.
func chatBodies() map[string]hostileBody {
	bodies := map[string]hostileBody{
		"user messages":   func(n int) string { return conversing(repeat(n, userMessage)) },
		"long messages":   func(n int) string { return conversing(repeat(n/100+1, `{"role":"user","content":"`+text(100)+`"}`)) },
		"system messages": func(n int) string { return conversing(repeat(n, `{"role":"system","content":"s"}`)) },
		"later instructions": func(n int) string {
			return conversing(userMessage + "," + repeat(n, `{"role":"developer","content":"<use_too"}`))
		},
		"empty messages": func(n int) string { return conversing(repeat(n, `{"role":"assistant"}`)) },
		"refusals":       func(n int) string { return conversing(repeat(n, `{"role":"assistant","content":"a","apiErr":"r"}`)) },
		"text parts": func(n int) string {
			return conversing(`{"role":"user","content":[` + repeat(n, `{"type":"text","text":"t"}`) + `]}`)
		},
		"parts of instructions": func(n int) string {
			return conversing(`{"role":"system","content":[` + repeat(n, `{"type":"text","text":"<use_too"}`) + `]}`)
		},
		"images": func(n int) string {
			return conversing(`{"role":"user","content":[` + repeat(n, `{"type":"image_url","image_url":{"url":"`+aPixel+`"}}`) + `]}`)
		},
		"images elsewhere": func(n int) string {
			return conversing(`{"role":"user","content":[` + numbered(n, `{"type":"image_url","image_url":{"url":"https://h/%d"}}`) + `]}`)
		},
		"one image elsewhere": func(n int) string {
			return conversing(`{"role":"user","content":[` + repeat(n, `{"type":"image_url","image_url":{"url":"https://h/i"}}`) + `]}`)
		},
		"input in an image": func(n int) string {
			return conversing(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoA` + strings.Repeat("AAAA", n) + `"}}]}`)
		},
		"calls and results": func(n int) string {
			return conversing(`{"role":"assistant","tool_calls":[` + numbered(n, `{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}`) +
				`]},` + numbered(n, `{"role":"tool","tool_call_id":"c%d","content":"r"}`))
		},
		"turns of one call": func(n int) string {
			return conversing(repeat(n, `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"c","content":"r"}`))
		},
		"calls without results": func(n int) string {
			return conversing(`{"role":"assistant","tool_calls":[` + numbered(n, `{"id":"c%d","function":{"name":"f","arguments":"{}"}}`) + `]},` + userMessage)
		},
		"calls of one id": func(n int) string {
			return conversing(`{"role":"assistant","tool_calls":[` + repeat(n, `{"id":"c","function":{"name":"f","arguments":"{}"}}`) + `]}`)
		},
		"results without calls": func(n int) string { return conversing(repeat(n, `{"role":"tool","tool_call_id":"c","content":"r"}`)) },
		"parts of a result": func(n int) string {
			return conversing(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"c","content":[` +
				repeat(n, `{"type":"text","text":"t"}`) + `]}`)
		},
		"function calls": func(n int) string {
			return conversing(repeat(n, `{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}`))
		},
		"odd names of calls": func(n int) string {
			return conversing(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"` + strings.Repeat("é.", n) + `","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`)
		},
		"long ids": func(n int) string {
			id := strings.Repeat("c", n)
			return conversing(`{"role":"assistant","tool_calls":[{"id":"` + id + `","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"r"}`)
		},
		"arguments": func(n int) string {
			return conversing(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":\"` + strings.Repeat(`\\\"`, n) + `\"}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`)
		},
		"openers in instructions": func(n int) string {
			return conversing(`{"role":"system","content":"` + strings.Repeat("<use_too", n) + `"},` + userMessage)
		},

		"tools": func(n int) string {
			return withMember(`"tools":[` + numbered(n, `{"type":"function","function":{"name":"f%d"}}`) + `]`)
		},
		"functions": func(n int) string { return withMember(`"functions":[` + numbered(n, `{"name":"f%d"}`) + `]`) },
		"reserved names": func(n int) string {
			// They are all the same as far as Codex's limit lets them be told apart.
			return withMember(`"tools":[` + list(n, func(i int) string {
				return fmt.Sprintf(`{"type":"function","function":{"name":"mcp__%s%05d"}}`, strings.Repeat("x", 118), i)
			}) + `]`)
		},
		"taken names": func(n int) string {
			return withMember(`"tools":[{"type":"function","function":{"name":"exec"}},` + numbered(n, `{"type":"function","function":{"name":"client_exec_%d"}}`) + `]`)
		},
		"allowed tools": func(n int) string {
			return withMember(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` +
				repeat(n, `{"type":"function","function":{"name":"f"}}`) + `]}}`)
		},
		"unknown allowed tools": func(n int) string {
			return withMember(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` +
				numbered(n, `{"type":"function","function":{"name":"g%d"}}`) + `]}}`)
		},
		"logit biases": func(n int) string { return withMember(`"logit_bias":{` + numbered(n, `"%d":1`) + `}`) },
		"metadata":     func(n int) string { return withMember(`"metadata":{` + numbered(n, `"k%d":"v"`) + `}`) },
		"modalities":   func(n int) string { return withMember(`"modalities":[` + repeat(n, `"text"`) + `]`) },
		"stops":        func(n int) string { return withMember(`"stop":[` + numbered(n, `"s%d"`) + `]`) },
		"a long stop":  func(n int) string { return withMember(`"stop":"` + strings.Repeat("a", n) + `"`) },
		"predictions": func(n int) string {
			return withMember(`"prediction":{"content":[` + repeat(n, `{"type":"text","text":"t"}`) + `]}`)
		},
		"eight choices": func(n int) string {
			return `{"model":"m","n":8,"messages":[` + repeat(n, userMessage) + `]}`
		},
		"stream options": func(n int) string {
			return withMember(`"stream":true,"stream_options":{` + repeat(n, `"include_usage":true`) + `}`)
		},
	}
	for what, schema := range schemas() {
		bodies[what+" of a tool"] = func(n int) string {
			return withMember(`"tools":[{"type":"function","function":{"name":"f","parameters":` + schema(n) + `}}]`)
		}
		bodies[what+" of a format"] = func(n int) string {
			return withMember(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + schema(n) + `}}`)
		}
	}
	for what, value := range values() {
		bodies["unknown "+what] = func(n int) string { return withMember(`"unknown":` + value(n)) }
		bodies["content of "+what] = func(n int) string { return conversing(`{"role":"user","content":` + value(n) + `}`) }
		bodies["a role of "+what] = func(n int) string { return conversing(`{"content":"q","role":` + value(n) + `}`) }
		bodies["a seed of "+what] = func(n int) string { return withMember(`"seed":` + value(n)) }
		bodies["max_tokens of "+what] = func(n int) string { return withMember(`"max_tokens":` + value(n)) }
	}
	for what, member := range map[string]string{
		"model": `"model":"m"`, "messages": `"messages":[` + userMessage + `]`, "tools": `"tools":[{"type":"function","function":{"name":"mcp"}}]`,
		"functions": `"functions":[]`, "stop": `"stop":["a","b","c","d"]`, "seed": `"seed":1`, "unknown": `"x":1`, "escaped": `"\u006dodel":"m"`,
		"image": `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://h/i"}}]}]`,
	} {
		bodies["the same member, "+what] = func(n int) string { return withMember(repeat(n, member)) }
	}
	for what, broken := range brokenTexts() {
		bodies[what] = func(n int) string { return broken(n) }
	}
	return bodies
}

// responseBodies are Responses requests, by what they have many of. They may
// refer to what storedBodies has.
func responseBodies() map[string]hostileBody {
	bodies := map[string]hostileBody{
		"messages": func(n int) string { return following(repeat(n, userMessage)) },
		"assistant's": func(n int) string {
			return following(repeat(n, `{"role":"assistant","content":"a","phase":"commentary"}`) + "," + userMessage)
		},
		"text parts": func(n int) string {
			return following(`{"role":"user","content":[` + repeat(n, `{"type":"input_text","text":"t"}`) + `]}`)
		},
		"images": func(n int) string {
			return following(`{"role":"user","content":[` + repeat(n, `{"type":"input_image","image_url":"`+aPixel+`"}`) + `]}`)
		},
		"images elsewhere": func(n int) string {
			return following(`{"role":"user","content":[` + repeat(n, `{"type":"input_image","image_url":"https://h/i"}`) + `]}`)
		},
		"calls and outputs": func(n int) string {
			return following(numbered(n, `{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"}`) + "," + numbered(n, `{"type":"function_call_output","call_id":"c%d","output":"r"}`))
		},
		"calls without outputs": func(n int) string {
			return following(numbered(n, `{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"}`))
		},
		"custom calls": func(n int) string {
			return following(repeat(n, `{"type":"custom_tool_call","call_id":"c","name":"f","input":"\"x\""},{"type":"custom_tool_call_output","call_id":"c","output":"r"}`))
		},
		"searches": func(n int) string {
			return following(repeat(n, `{"type":"tool_search_call","call_id":"c","arguments":{"q":1}},{"type":"tool_search_output","call_id":"c","tools":[{"type":"function","name":"f"}]}`))
		},
		"found tools": func(n int) string {
			return following(`{"type":"tool_search_call","call_id":"c","arguments":{"q":1}},{"type":"tool_search_output","call_id":"c","tools":[` + repeat(n, `{"type":"function","name":"f"}`) + `]}`)
		},
		"additional tools": func(n int) string {
			return following(`{"type":"additional_tools","tools":[` + numbered(n, `{"type":"function","name":"f%d"}`) + `]},` + userMessage)
		},
		"items of additional tools": func(n int) string {
			return following(repeat(n, `{"type":"additional_tools","tools":[{"type":"custom","name":"mcp"}]}`) + "," + userMessage)
		},
		"outputs' parts": func(n int) string {
			return following(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[` + repeat(n, `{"type":"input_text","text":"t"}`) + `]}`)
		},
		"reasoning": func(n int) string {
			return following(repeat(n, `{"type":"reasoning","id":"rs_`+strings.Repeat("0", 26)+`_0_rs_1","summary":[],"encrypted_content":"e"}`) + "," + userMessage)
		},
		"summaries": func(n int) string {
			return following(`{"type":"reasoning","id":"r","encrypted_content":"e","summary":[` + repeat(n, `{"type":"summary_text","text":"t"}`) + `]},` + userMessage)
		},
		"verbatim items": func(n int) string {
			return following(repeat(n, `{"type":"web_search_call","action":{}}`) + "," + userMessage)
		},
		"members of an item": func(n int) string {
			return following(`{"type":"web_search_call",` + numbered(n, `"k%d":1`) + `},` + userMessage)
		},
		"ids of items": func(n int) string { return following(repeat(n, `{"role":"user","content":"q","id":"msg_1"}`)) },
		"references": func(n int) string {
			return following(numbered(n, `{"type":"item_reference","id":"msg_`+storedSuffix(0)+`_i%d"}`))
		},
		"references to one": func(n int) string {
			return following(repeat(n, `{"type":"item_reference","id":"msg_`+storedSuffix(0)+`_last"}`))
		},
		"references to many": func(n int) string {
			return following(list(n, func(i int) string { return `{"id":"msg_` + storedSuffix(i%storedLinks) + `_i0"}` }))
		},
		"references to none": func(n int) string { return following(numbered(n, `{"type":"item_reference","id":"msg_%d"}`)) },
		"references far away": func(n int) string {
			return following(list(n, func(i int) string { return fmt.Sprintf(`{"id":"msg_%s_i0"}`, storedSuffix(1<<20+i)) }))
		},
		"following and references": func(n int) string {
			return `{"model":"m","previous_response_id":"` + responseid.Prefix + storedSuffix(storedLinks-1) + `","input":[` +
				numbered(n, `{"type":"item_reference","id":"msg_`+storedSuffix(0)+`_i%d"}`) + `]}`
		},

		"tools": func(n int) string {
			return respond(`"tools":[` + numbered(n, `{"type":"function","name":"f%d"}`) + `]`)
		},
		"hosted tools": func(n int) string { return respond(`"tools":[` + repeat(n, `{"type":"x"}`) + `]`) },
		"a Codex's":    func(n int) string { return respond(asCodex + `,"tools":[` + repeat(n, `{"type":"x"}`) + `]`) },
		"lists of a Codex's": func(n int) string {
			return respond(asCodex + "," + repeat(n/100+1, `"tools":[`+repeat(100, `{"type":"x"}`)+`]`))
		},
		"namespaces": func(n int) string {
			return respond(`"tools":[` + numbered(n, `{"type":"namespace","name":"n%d","tools":[]}`) + `]`)
		},
		"tools of a namespace": func(n int) string {
			return respond(`"tools":[{"type":"namespace","name":"n","tools":[` + numbered(n, `{"type":"custom","name":"f%d"}`) + `]}]`)
		},
		"a grammar": func(n int) string {
			return respond(`"tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":"lark","definition":"` + strings.Repeat(`\n`, n) + `"}}]`)
		},
		"members of a tool": func(n int) string {
			return respond(`"tools":[{"type":"function","name":"f",` + numbered(n, `"k%d":1`) + `}]`)
		},
		"allowed tools": func(n int) string {
			return respond(`"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[` + repeat(n, `{"type":"function","name":"f"}`) + `]}`)
		},
		"include":         func(n int) string { return respond(`"include":[` + repeat(n, `"code_interpreter_call.outputs"`) + `]`) },
		"metadata":        func(n int) string { return respond(`"metadata":{` + numbered(n, `"k%d":"v"`) + `}`) },
		"a long metadata": func(n int) string { return respond(`"metadata":{"` + strings.Repeat("k", n) + `":1}`) },
		"client metadata": func(n int) string { return respond(`"client_metadata":{` + numbered(n, `"k%d":"v"`) + `}`) },
		"management":      func(n int) string { return respond(`"context_management":[` + repeat(n, `{}`) + `]`) },
		"stream options":  func(n int) string { return respond(`"stream_options":{` + numbered(n, `"k%d":"v"`) + `}`) },
		"formats":         func(n int) string { return respond(`"text":{` + repeat(n, `"format":{"type":"text"}`) + `}`) },
		"summary modes":   func(n int) string { return respond(`"reasoning":{` + repeat(n, `"summary":"auto"`) + `}`) },
		"instructions":    func(n int) string { return respond(`"instructions":"` + strings.Repeat(`<use_too\n`, n) + `"`) },
	}
	for what, schema := range schemas() {
		bodies[what+" of a tool"] = func(n int) string {
			return respond(`"tools":[{"type":"function","name":"f","parameters":` + schema(n) + `}]`)
		}
		bodies[what+" of a format"] = func(n int) string {
			return respond(`"text":{"format":{"type":"json_schema","name":"n","schema":` + schema(n) + `}}`)
		}
	}
	for what, value := range values() {
		bodies["unknown "+what] = func(n int) string { return respond(`"unknown":` + value(n)) }
		bodies["input of "+what] = func(n int) string { return `{"model":"m","input":` + value(n) + `}` }
		bodies["a type of "+what] = func(n int) string { return following(`{"type":` + value(n) + `}`) }
		bodies["an id of "+what] = func(n int) string { return following(`{"role":"user","content":"q","id":` + value(n) + `}`) }
		bodies["an action of "+what] = func(n int) string {
			return following(`{"type":"web_search_call","action":` + value(n) + `},` + userMessage)
		}
		bodies["a temperature of "+what] = func(n int) string { return respond(`"temperature":` + value(n)) }
	}
	for what, member := range map[string]string{
		"input": `"input":[` + userMessage + `]`, "tools": `"tools":[{"type":"custom","name":"mcp"}]`, "hosted": `"tools":[{"type":"x"}]`,
		"include": `"include":[]`, "metadata": `"metadata":{"k":"v"}`, "truncation": `"truncation":"auto"`, "unknown": `"x":1`,
		"previous": `"previous_response_id":"r"`,
	} {
		bodies["the same member, "+what] = func(n int) string { return respond(asCodex + "," + repeat(n, member)) }
	}
	return bodies
}

// fewAtMost says of which there are few in a request, and how many.
var fewAtMost = map[string]int{"reserved names": 1024, "taken names": 1016}

func text(n int) string { return strings.Repeat("word ", n) }

// schemas are JSON schemas, by what they have many of.
func schemas() map[string]func(n int) string {
	return map[string]func(n int) string{
		"properties": func(n int) string {
			return `{"type":"object","properties":{` + numbered(n, `"p%d":{"type":"string"}`) + `}}`
		},
		"deep properties": func(n int) string {
			const depth = 100
			deep := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
			return `{"x":[` + repeat(n/depth+1, deep) + `]}`
		},
		"deep schemas": func(n int) string {
			return strings.Repeat(`{"properties":{"a-rather-long-name":`, 50) + `{"properties":{` +
				numbered(n, `"p%d":{"minLength":1,"anyOf":[false,{"$ref":"#"}]}`) + `}}` + strings.Repeat("}}", 50)
		},
		"keywords": func(n int) string { return `{` + repeat(n, `"type":"object","x":1,"required":[]`) + `}` },
		"lost values": func(n int) string {
			return `{"properties":{` + numbered(n/20+1, `"p%d":{"default":"`+strings.Repeat("x", 100)+`"}`) + `}}`
		},
		"enums":  func(n int) string { return `{"enum":[` + numbered(n, `"e%d"`) + `]}` },
		"spaces": func(n int) string { return `{` + strings.Repeat("\n\t ", n) + `"type":"object"}` },
	}
}

// values are JSON values, by what they have many of.
func values() map[string]func(n int) string {
	return map[string]func(n int) string{
		"numbers":     func(n int) string { return `[` + repeat(n, `1e999999`) + `]` },
		"objects":     func(n int) string { return `[` + repeat(n, `{}`) + `]` },
		"members":     func(n int) string { return `{` + numbered(n, `"k%d":0`) + `}` },
		"equal names": func(n int) string { return `{` + repeat(n, `"k":0`) + `}` },
		"long names":  func(n int) string { return `{"` + strings.Repeat("k", n) + `":0}` },
		"nested": func(n int) string {
			return `[` + repeat(n/100+1, strings.Repeat("[", 100)+strings.Repeat("]", 100)) + `]`
		},
		"digits":       func(n int) string { return "1" + strings.Repeat("0", n) },
		"fractions":    func(n int) string { return "0." + strings.Repeat("0", n) + "1" },
		"exponents":    func(n int) string { return "1e" + strings.Repeat("9", n) },
		"letters":      func(n int) string { return `"` + strings.Repeat("a", n) + `"` },
		"escapes":      func(n int) string { return `"` + strings.Repeat(`\n`, n) + `"` },
		"quotes":       func(n int) string { return `"` + strings.Repeat(`\"`, n) + `"` },
		"backslashes":  func(n int) string { return `"` + strings.Repeat(`\\`, n) + `"` },
		"code units":   func(n int) string { return `"` + strings.Repeat(`\u00e9`, n) + `"` },
		"surrogates":   func(n int) string { return `"` + strings.Repeat(`\ud83d\ude00`, n) + `"` },
		"lone halves":  func(n int) string { return `"` + strings.Repeat(`\ud83d`, n) + `"` },
		"markup":       func(n int) string { return `"` + strings.Repeat(`<&>`, n) + `"` },
		"wide letters": func(n int) string { return `"` + strings.Repeat("你", n) + `"` },
		"blanks":       func(n int) string { return `[` + strings.Repeat(" \n", n) + `]` },
	}
}

// brokenTexts are no JSON, from some place on.
func brokenTexts() map[string]hostileBody {
	return map[string]hostileBody{
		"brackets":            func(n int) string { return strings.Repeat("[", n) },
		"braces":              func(n int) string { return strings.Repeat(`{"a":`, n) },
		"an end in a string":  func(n int) string { return `{"a":"` + strings.Repeat("a", n) },
		"an end behind much":  func(n int) string { return `{"a":[` + strings.Repeat("1,", n) },
		"bytes without runes": func(n int) string { return `{"a":"` + strings.Repeat("a", n) + "\xff\"}" },
		"zeros":               func(n int) string { return strings.Repeat("\x00", n) },
		"nothing but blanks":  func(n int) string { return strings.Repeat(" ", n) },
		"no object":           func(n int) string { return `[` + repeat(n, "1") + `]` },
	}
}

// messageBodies are requests of Anthropic's API, by what they have many of.
func messageBodies() map[string]hostileBody {
	blocks := func(blocks string) string { return conversing(`{"role":"user","content":[` + blocks + `]}`) }
	const call = `{"type":"tool_use","id":"c%d","name":"f","input":{"a":[{}]}}`
	const result = `{"type":"tool_result","tool_use_id":"c%d","content":[{"type":"text","text":"r"}]}`
	return map[string]hostileBody{
		"messages":     func(n int) string { return conversing(repeat(n, userMessage)) },
		"text blocks":  func(n int) string { return blocks(repeat(n, `{"type":"text","text":"t"}`)) },
		"empty blocks": func(n int) string { return blocks(repeat(n, `{"type":"text","text":""}`)) },
		"images": func(n int) string {
			return blocks(numbered(n, `{"type":"image","source":{"type":"url","url":"https://h/%d"}}`))
		},
		"documents": func(n int) string {
			return blocks(repeat(n, `{"type":"document","source":{"type":"content","content":[{"type":"text","text":"t"}]}}`))
		},
		"calls, results in the other order": func(n int) string {
			return conversing(userMessage + `,{"role":"assistant","content":[` + numbered(n, call) + `]},{"role":"user","content":[` +
				list(n, func(i int) string { return fmt.Sprintf(result, n-1-i) }) + `]}`)
		},
		"calls without results": func(n int) string {
			return conversing(userMessage + `,{"role":"assistant","content":[` + numbered(n, call) + `]}`)
		},
		"signatures": func(n int) string {
			return conversing(userMessage + `,{"role":"assistant","content":[` + repeat(n, `{"type":"thinking","thinking":"t","signature":"codex-1.a.b"}`) + `]}`)
		},
		"notes": func(n int) string {
			return conversing(userMessage + "," + repeat(n, `{"role":"system","content":"s"}`))
		},
		"system texts": func(n int) string { return withMember(`"system":[` + repeat(n, `{"type":"text","text":"s"}`) + `]`) },
		"deferred tools and references": func(n int) string {
			m := min(n, 900)
			return `{"model":"m","tools":[` + numbered(m, `{"name":"t%d","input_schema":{},"defer_loading":true}`) + `],"messages":[` + userMessage +
				`,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t1","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[` +
				repeat(n, `{"type":"tool_reference","tool_name":"t1"}`) + `]}]}]}`
		},
		"schema in the format": func(n int) string {
			return withMember(`"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{` + numbered(n, `"p%d":{"type":"string"}`) + `}}}}`)
		},
		"a schema nested": func(n int) string {
			return withMember(`"output_config":{"format":{"type":"json_schema","schema":{"anyOf":[` + repeat(n, `{"anyOf":[{"anyOf":[{"type":"null"}]}]}`) + `]}}}`)
		},
	}
}

// ollamaBodies are requests of Ollama's API, by what they have many of.
func ollamaBodies() map[string]hostileBody {
	results := func(n int, result func(i int) string) string {
		return conversing(userMessage + `,{"role":"assistant","tool_calls":[` + numbered(n, `{"id":"c%d","function":{"name":"f","arguments":{}}}`) + `]},` + list(n, result))
	}
	return map[string]hostileBody{
		"messages that become one": func(n int) string { return conversing(repeat(n, userMessage)) },
		"empty answers": func(n int) string {
			return conversing(userMessage + "," + repeat(n, `{"role":"assistant","content":""}`))
		},
		"results of nothing": func(n int) string { return conversing(repeat(n, `{"role":"tool","content":"r"}`) + "," + userMessage) },
		"results by order":   func(n int) string { return results(n, func(int) string { return `{"role":"tool","content":"r"}` }) },
		"results by name": func(n int) string {
			return results(n, func(int) string { return `{"role":"tool","tool_name":"f","content":"r"}` })
		},
		"results by id, in the other order": func(n int) string {
			return results(n, func(i int) string {
				return fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","tool_name":"f","content":"r"}`, n-1-i)
			})
		},
		"calls without results": func(n int) string {
			return conversing(userMessage + `,{"role":"assistant","tool_calls":[` + repeat(n, `{"id":"c","function":{"name":"f","arguments":{}}}`) + `]}`)
		},
		"images": func(n int) string {
			return conversing(`{"role":"user","content":"q","images":[` + repeat(min(n, 400), `"`+aPixel+`"`) + `]}`)
		},
		"stops":   func(n int) string { return withMember(`"options":{"stop":[` + numbered(n, `"s%d"`) + `]}`) },
		"options": func(n int) string { return withMember(`"options":{` + numbered(n, `"o%d":1`) + `}`) },
	}
}
