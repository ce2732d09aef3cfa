package wirejson

import "testing"

func TestBuffer(t *testing.T) {
	var b Buffer
	b.Release() // there is nothing to give back
	grown := append(b.Take(), make([]byte, 3000)...)
	b.Keep(grown)
	again := append(b.Take(), "one"...)
	if &again[0] != &grown[0] || string(again) != "one" || cap(again) != cap(grown) {
		t.Errorf("took %q with %d bytes, want those that were kept, empty: %d", again, cap(again), cap(grown))
	}
	b.Release()
	if b.memory != nil || len(b.Take()) != 0 {
		t.Error("memory was released and is still held")
	}
}
