//go:build race

package aggregator

// maxFragmentAllocs is larger here: under the race detector encoding/json loses
// some of its pooled scanners on purpose.
const maxFragmentAllocs = 4.01
