package responsestore

import (
	"container/heap"
	"container/list"
)

// owner is a user who has entries in memory.
type owner struct {
	name  string
	bytes int64      // of the entries, and of one that is about to be put
	used  *list.List // of *kept, most recently used first
	at    int        // in the heap
}

// owners are the users who have entries in memory.
type owners struct {
	byName map[string]*owner
	heap   ownerHeap
}

// get returns a user, or makes one. The caller has to add bytes to a new user.
func (o *owners) get(name string) *owner {
	of := o.byName[name]
	if of == nil {
		of = &owner{name: name, used: list.New()}
		o.byName[name] = of
		heap.Push(&o.heap, of)
	}
	return of
}

// add adds to the bytes of a user. A user without bytes is removed.
func (o *owners) add(of *owner, bytes int64) {
	of.bytes += bytes
	if of.bytes > 0 {
		heap.Fix(&o.heap, of.at)
		return
	}
	heap.Remove(&o.heap, of.at)
	delete(o.byName, of.name)
}

// others reports whether another user has entries.
func (o *owners) others(name string) bool {
	return len(o.byName) > 1 || len(o.byName) == 1 && o.byName[name] == nil
}

// most returns the user with the most bytes among those who have an entry to drop. A user whose
// first entry is about to be put has bytes but nothing to drop.
func (o *owners) most() *owner {
	first := o.heap[0]
	if first.used.Len() > 0 {
		return first
	}
	next := o.heap[1]
	if len(o.heap) > 2 && o.heap[2].bytes > next.bytes {
		next = o.heap[2]
	}
	return next
}

// ownerHeap has the user with the most bytes first.
type ownerHeap []*owner

func (h ownerHeap) Len() int           { return len(h) }
func (h ownerHeap) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h ownerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *ownerHeap) Push(of any) {
	of.(*owner).at = len(*h)
	*h = append(*h, of.(*owner))
}

func (h *ownerHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
