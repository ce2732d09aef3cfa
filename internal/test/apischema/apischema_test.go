package apischema

import "testing"

func TestCheck(t *testing.T) {
	const delta = `{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"x","sequence_number":3,"logprobs":[]}`
	if err := CheckEvent([]byte(delta)); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{
		`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"x","sequence_number":3}`,
		`{"type":"response.output_text.delta","item_id":"m","output_index":0.5,"content_index":0,"delta":"x","sequence_number":3,"logprobs":[]}`,
		`{"type":"response.output_text.delta","item_id":null,"output_index":0,"content_index":0,"delta":"x","sequence_number":3,"logprobs":[]}`,
		`{"type":"response.output_item.done","output_index":0,"sequence_number":3,"item":{"type":"message","id":"m"}}`,
		`{"type":"response.output_item.done","output_index":0,"sequence_number":3,"item":{"type":"function_call","call_id":"m","name":"n","arguments":"","status":"over"}}`,
		`{"type":"response.cancelled"}`,
		`{}`,
		`[`,
	} {
		if CheckEvent([]byte(wrong)) == nil {
			t.Errorf("accepted: %s", wrong)
		}
	}
	for name, wrong := range map[string]string{
		"InputMessage":      `{"type":"message","id":"m","role":"user","content":[{"type":"unknown"}]}`,
		"OutputTextContent": `{"type":"output_text","text":"x","annotations":[{}],"logprobs":[]}`,
	} {
		if Check(name, []byte(wrong)) == nil {
			t.Errorf("%s: accepted %s", name, wrong)
		}
	}
	if Check("Nothing", []byte(`{}`)) == nil {
		t.Error("accepted an unknown schema")
	}
	if err := Check("ReasoningItem", []byte(`{"id":"r","type":"reasoning","summary":[{"type":"summary_text","text":"x"}]}`)); err != nil {
		t.Error(err)
	}
}
