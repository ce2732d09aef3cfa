//go:build !race

package aggregator

// maxFragmentAllocs is the most allocations a fragment may cost: the copy of its
// event and the slice of its delta. What the buffer grows by is a rounding error.
const maxFragmentAllocs = 2.01
