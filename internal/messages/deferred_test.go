package messages

import "testing"

// TestDeferredArguments checks that the arguments of a deferred tool come back to the model as it
// wrote them, also if they are no JSON object.
func TestDeferredArguments(t *testing.T) {
	var d deferredTools
	for _, arguments := range []string{
		`{"name":"Web","arguments":{"q":"x"}}`,
		`{"name":"Web","arguments":{}}`,
		`{"name":"Web","arguments":"{\"q\":"}`,
		`{"name":"Web","arguments":"a \"text\""}`,
		`{"name":"Web","arguments":"[1]"}`,
	} {
		name, input, ok := unwrapCall(arguments)
		if !ok {
			t.Errorf("%s is no call", arguments)
			continue
		}
		if got := string(d.wrapArguments(name, []byte(wrapUnparsed(input)))); got != arguments {
			t.Errorf("%s comes back as %s", arguments, got)
		}
	}
}
