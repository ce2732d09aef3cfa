package apierror

import "testing"

func TestLabels(t *testing.T) {
	for code, want := range map[Code]string{
		CodeQueueFull: "codex_queue_full", "": LabelInvalid, "made_up_by_a_provider": LabelOther, "other": LabelOther,
	} {
		if got := code.Label(); got != want {
			t.Errorf("%q is labelled %q, want %q", code, got, want)
		}
	}
}
