package prompt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func planWithTools(t *testing.T, names []string, more string) *prompt.Plan {
	t.Helper()
	var tools []string
	for _, name := range names {
		tools = append(tools, `{"type":"function","function":{"name":"`+name+`"}}`)
	}
	return mustPlan(t, withFields(`"tools":[`+strings.Join(tools, ",")+`]`+more))
}

func TestToolNames(t *testing.T) {
	long := strings.Repeat("x", prompt.MaxToolName-len("mcp__"))
	for _, c := range []struct{ client, codex []string }{
		{[]string{"readNote", "shell", "Mcp__x", "mcp_x", "exec_Command"}, []string{"readNote", "shell", "Mcp__x", "mcp_x", "exec_Command"}},
		{[]string{"mcp", "mcp__fs__read", "exec_command"}, []string{"client_mcp", "client_mcp__fs__read", "client_exec_command"}},
		{[]string{"exec", "client_exec"}, []string{"client_exec_2", "client_exec"}},
		{[]string{"client_exec", "client_exec_2", "exec"}, []string{"client_exec", "client_exec_2", "client_exec_3"}},
		{[]string{"mcp__" + long}, []string{"client_mcp__" + long[:prompt.MaxToolName-len("client_mcp__")]}},
		{
			[]string{"mcp__" + long, "mcp__" + long[:len(long)-1] + "y"},
			[]string{"client_mcp__" + long[:prompt.MaxToolName-len("client_mcp__")], "client_mcp__" + long[:prompt.MaxToolName-len("client_mcp___2")] + "_2"},
		},
	} {
		p := planWithTools(t, c.client, "")
		var codex []string
		for i, tool := range p.Thread.DynamicTools {
			codex = append(codex, tool.Name)
			if back, ok := p.Tools.ClientName(tool.Name); !ok || back != c.client[i] {
				t.Errorf("%q leads back to %q, not %q", tool.Name, back, c.client[i])
			}
		}
		if !slices.Equal(codex, c.codex) {
			t.Errorf("%q became %q, want %q", c.client, codex, c.codex)
		}
	}
}

// TestToolNamesReserved makes sure that no name that Codex would not offer gets
// there.
func TestToolNamesReserved(t *testing.T) {
	for _, name := range []string{
		"mcp", "mcp__", "mcp__a__b", "exec_command", "shell_command", "apply_patch", "exec", "wait", "request_user_input",
		"request_user_input_async", "list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "update_plan", "skills",
	} {
		p := planWithTools(t, []string{name}, "")
		if got := p.Thread.DynamicTools[0].Name; got != "client_"+name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

func TestToolNamesInHistory(t *testing.T) {
	call := func(name string) string {
		return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":%q,"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`, name)
	}
	body := `{"model":"m","messages":[` + call("exec") + `,` + call("mcp__gone") + `,` + call("plain") + `],` +
		`"tools":[{"type":"function","function":{"name":"exec"}},{"type":"function","function":{"name":"client_exec"}}]}`
	p := mustPlan(t, body)
	for i, want := range []string{"client_exec_2", "client_mcp__gone", "plain"} {
		if item := string(p.History[2*i]); !strings.Contains(item, `"name":"`+want+`"`) {
			t.Errorf("item %s does not call %s", item, want)
		}
	}
}

// TestToolNamesOfManyTools takes the worst case for numbering: cut names that all
// come out the same.
func TestToolNamesOfManyTools(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, "mcp__"+strings.Repeat("x", 119)+fmt.Sprintf("%04d", i))
	}
	p := planWithTools(t, names, "")
	seen := map[string]bool{}
	for _, tool := range p.Thread.DynamicTools {
		if seen[tool.Name] || len(tool.Name) > 128 {
			t.Fatalf("name %q", tool.Name)
		}
		seen[tool.Name] = true
	}
}

func TestToolNamesZero(t *testing.T) {
	if name, ok := (prompt.ToolNames{}).ClientName("f"); ok {
		t.Errorf("no tools, but f leads to %q", name)
	}
}
