package caddymodule

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Each option of tool calls gives the expected JSON.
func TestToolDirectives(t *testing.T) {
	checkOptions(t, map[string]string{
		"output_mode auto":                                `{"output_mode":"auto"}`,
		"output_mode openai-json":                         `{"output_mode":"openai-json"}`,
		"output_mode obsidian-xml":                        `{"output_mode":"obsidian-xml"}`,
		"stop_after_tools off":                            `{"stop_after_tools":"off"}`,
		"stop_after_tools first":                          `{"stop_after_tools":"first"}`,
		"stop_after_tools burst":                          `{"stop_after_tools":"burst"}`,
		"stop_after_tools burst 1s":                       `{"stop_after_tools":"burst","stop_after_tools_grace":1000000000}`,
		"stop_after_tools burst 0":                        `{"stop_after_tools":"burst","stop_after_tools_grace":0}`,
		"stop_after_tools first 0s":                       `{"stop_after_tools":"first","stop_after_tools_grace":0}`,
		"stop_after_tools first 1s":                       `{"stop_after_tools":"first","stop_after_tools_grace":1000000000}`,
		"suppress_tail_after_tools on":                    `{"suppress_tail_after_tools":true}`,
		"suppress_tail_after_tools off":                   `{"suppress_tail_after_tools":false}`,
		"textual_tools auto":                              `{"textual_tools":"auto"}`,
		"textual_tools on":                                `{"textual_tools":"on"}`,
		"textual_tools off":                               `{"textual_tools":"off"}`,
		"tool_block_max 0":                                `{}`,
		"tool_block_max 3":                                `{"tool_block_max":3}`,
		"tool_block_dedup on":                             `{"tool_block_dedup":true}`,
		"tool_block_dedup off":                            `{}`,
		"tool_block_delimiter \"\n\n\"":                   `{"tool_block_delimiter":"\n\n"}`,
		"tool_block_delimiter <hr>":                       `{"tool_block_delimiter":"<hr>"}`,
		"parallel_tool_calls on":                          `{"parallel_tool_calls":true}`,
		"parallel_tool_calls off":                         `{"parallel_tool_calls":false}`,
		"xml_escape literal":                              `{"xml_escape":"literal"}`,
		"xml_escape entities":                             `{"xml_escape":"entities"}`,
		"output_mode obsidian-xml\nxml_escape entities":   `{"output_mode":"obsidian-xml","xml_escape":"entities"}`,
		"tool_block_max 1\nparallel_tool_calls off":       `{"tool_block_max":1,"parallel_tool_calls":false}`,
		"textual_tools off\nsuppress_tail_after_tools on": `{"textual_tools":"off","suppress_tail_after_tools":true}`,
	})
}

func TestToolDirectiveErrors(t *testing.T) {
	checkOptionErrors(t, map[string]string{
		"output_mode xml":                  `"xml" must be one of auto, openai-json, obsidian-xml`,
		"output_mode Auto":                 `"Auto" must be one of`,
		"output_mode \"\"":                 `"" must be one of`,
		"stop_after_tools":                 "after 'stop_after_tools'",
		"stop_after_tools last":            `"last" must be one of off, first, burst`,
		"stop_after_tools on":              `"on" must be one of`,
		"stop_after_tools off 1s":          "off has no grace",
		"stop_after_tools burst soon":      `"soon" is not a duration from 0 up`,
		"stop_after_tools burst -1s":       `"-1s" is not a duration from 0 up`,
		"stop_after_tools burst 1s 2s":     "after '2s'",
		"suppress_tail_after_tools":        "after 'suppress_tail_after_tools'",
		"suppress_tail_after_tools true":   `"true" must be one of on, off`,
		"suppress_tail_after_tools on off": "after 'off'",
		"textual_tools yes":                `"yes" must be one of auto, on, off`,
		"tool_block_max":                   "after 'tool_block_max'",
		"tool_block_max -1":                `"-1" is not a number`,
		"tool_block_max off":               `"off" is not a number`,
		"tool_block_dedup":                 "after 'tool_block_dedup'",
		"tool_block_dedup auto":            `"auto" must be one of on, off`,
		"tool_block_delimiter":             "after 'tool_block_delimiter'",
		"tool_block_delimiter a b":         "after 'b'",
		"parallel_tool_calls no":           `"no" must be one of on, off`,
		"xml_escape html":                  `"html" must be one of literal, entities`,
	})
}

func TestToolDefaults(t *testing.T) {
	h := provision(t, new(Handler)).handlers[0]
	sameJSON(t, "an empty configuration", encode(t, h.ToolOptions), `{
		"output_mode": "auto", "stop_after_tools": "burst", "suppress_tail_after_tools": true,
		"textual_tools": "auto", "parallel_tool_calls": true, "xml_escape": "literal"
	}`)
	if grace := time.Duration(*h.StopAfterToolsGrace); grace != turn.DefaultGrace {
		t.Errorf("stop_after_tools_grace is %s", grace)
	}
}

func TestRefusedToolOptions(t *testing.T) {
	for config, want := range map[string]string{
		`{"output_mode":"xml"}`:               `output_mode: "xml" must be one of auto, openai-json, obsidian-xml`,
		`{"stop_after_tools":"last"}`:         `stop_after_tools: "last" must be one of off, first, burst`,
		`{"stop_after_tools_grace":-1}`:       "stop_after_tools_grace: must be a duration from 0 up",
		`{"suppress_tail_after_tools":"off"}`: "suppress_tail_after_tools",
		`{"textual_tools":"yes"}`:             `textual_tools: "yes" must be one of auto, on, off`,
		`{"tool_block_max":-1}`:               "tool_block_max: must be a number from 0 up",
		`{"tool_block_max":1025}`:             "tool_block_max: must be at most 1024",
		`{"xml_escape":"html"}`:               `xml_escape: "html" must be one of literal, entities`,
	} {
		if err := refused(t, config); !strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused with %q; want %q", config, err, want)
		}
	}
}
