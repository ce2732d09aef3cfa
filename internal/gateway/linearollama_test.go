package gateway

import "fmt"

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
