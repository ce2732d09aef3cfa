package appserver

import (
	"strconv"
	"strings"
	"testing"
)

func TestModelSet(t *testing.T) {
	var set modelSet
	if set["m"] || !set.add("m") || set.add("m") || !set["m"] || set["n"] {
		t.Errorf("the set is %v", set)
	}
	if set.add(strings.Repeat("x", maxModelSetName+1)) {
		t.Error("a long name was added")
	}
	for i := range maxModelSet + 9 {
		set.add(strconv.Itoa(i))
	}
	if n := len(set); n != maxModelSet {
		t.Errorf("%d models are remembered", n)
	}
}
