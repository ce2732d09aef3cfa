package gateway

import "fmt"

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
