package wirejson

import "testing"

func TestIsBase64(t *testing.T) {
	for data, want := range map[string]bool{
		"":         true,
		"AAAA":     true,
		"AAA=":     true,
		"AA==":     true,
		"az09AZ+/": true,
		"A===":     false,
		"====":     false,
		"AAA":      false,
		"AA=":      false,
		"AA==AAAA": false,
		"AA=A":     false,
		"AAA-":     false,
		"AA_A":     false,
		"AAA\n":    false,
		"AAAA\n":   false,
		`AA\/`:     false,
		`AAA"`:     false,
		"AA\x00A":  false,
		"AA\xffA":  false,
	} {
		if got := IsBase64([]byte(data)); got != want {
			t.Errorf("%q: %t", data, got)
		}
	}
}
