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

// TestCodesAreListed: errors of this server have labels of their own.
func TestCodesAreListed(t *testing.T) {
	listed := func(what any, code Code) {
		if code != "" && code.Label() != string(code) {
			t.Errorf("%v: the code %q is not listed", what, code)
		}
	}
	for _, s := range sentinels {
		listed(s.err, s.Code)
	}
	for variant, class := range turnClasses {
		listed(variant, class.Code)
	}
	for code, class := range providerClasses {
		listed(code, class.Code)
	}
	for status, class := range statusClasses {
		listed(status, class.Code)
	}
	for _, message := range []string{"", "{", "stream disconnected", "flagged", "Failed to refresh token", "request timed out", "Error while reading the server response"} {
		listed(message, classOfMessage(nameless, message).Code)
	}
}
