package conversation

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestList compares a list with a slice, after each of many random changes.
func TestList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l list[int]
	var want []*element[int]
	for n := range 10_000 {
		change, i := random.IntN(6), 0
		if len(want) > 0 {
			i = random.IntN(len(want))
		}
		switch {
		case change == 0:
			want = append(want, &element[int]{value: n})
			l.pushBack(want[len(want)-1])
		case change == 1:
			want = slices.Insert(want, 0, &element[int]{value: n})
			l.pushFront(want[0])
		case len(want) == 0:
		case change < 4:
			l.remove(want[i])
			want = slices.Delete(want, i, i+1)
		default:
			l.moveToBack(want[i])
			want = append(slices.Delete(slices.Clone(want), i, i+1), want[i])
		}
		var forth, back []*element[int]
		for e := l.first; e != nil; e = e.after {
			forth = append(forth, e)
		}
		for e := l.last; e != nil; e = e.before {
			back = append(back, e)
		}
		if slices.Reverse(back); !slices.Equal(forth, want) || !slices.Equal(back, want) || l.length != len(want) {
			t.Fatalf("after %d changes there are %d elements forth, %d back and %d counted, want %d", n+1, len(forth), len(back), l.length, len(want))
		}
	}
}
