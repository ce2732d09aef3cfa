package responses

import "slices"

// batch returns the keys behind last that one sweep looks at, in their order.
// Behind the last key it begins anew.
func batch(keys []string, last string) []string {
	slices.Sort(keys)
	start, found := slices.BinarySearch(keys, last)
	if found {
		start++
	}
	if start == len(keys) {
		start = 0
	}
	return keys[start:min(len(keys), start+sweepMost)]
}
