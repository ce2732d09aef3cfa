package store

import (
	"container/heap"
	"container/list"
)

// userShare has the entries of one user.
type userShare struct {
	name      string
	bytes     int64      // of the entries
	entries   *list.List // of *indexed, the last used first
	heapIndex int        // in shareHeap
}

// userShares has the users who have entries.
type userShares struct {
	byName map[string]*userShare
	heap   shareHeap
}

// getOrAdd returns the share of a user. If there is none, getOrAdd makes one, and the caller must
// add bytes to it.
func (o *userShares) getOrAdd(name string) *userShare {
	share := o.byName[name]
	if share == nil {
		share = &userShare{name: name, entries: list.New()}
		o.byName[name] = share
		heap.Push(&o.heap, share)
	}
	return share
}

// addBytes adds to the bytes of a share. A share without bytes is removed.
func (o *userShares) addBytes(share *userShare, bytes int64) {
	share.bytes += bytes
	if share.bytes > 0 {
		heap.Fix(&o.heap, share.heapIndex)
		return
	}
	heap.Remove(&o.heap, share.heapIndex)
	delete(o.byName, share.name)
}

// hasOther reports whether any other user has entries.
func (o *userShares) hasOther(name string) bool {
	return len(o.byName) > 1 || len(o.byName) == 1 && o.byName[name] == nil
}

// largest returns the largest share that has an entry to drop. The entry keep is not to be dropped. It
// must be the entry that its user has used last.
func (o *userShares) largest(keep *indexed) *userShare {
	first := o.heap[0]
	if first.entries.Back() != keep.usedElement { // otherwise keep is the only entry of this share
		return first
	}
	next := o.heap[1] // in a heap, the second largest is at index 1 or 2
	if len(o.heap) > 2 && o.heap[2].bytes > next.bytes {
		next = o.heap[2]
	}
	return next
}

// shareHeap is a heap of shares; the share with the most bytes is the first.
type shareHeap []*userShare

func (h shareHeap) Len() int           { return len(h) }
func (h shareHeap) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h shareHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *shareHeap) Push(share any) {
	share.(*userShare).heapIndex = len(*h)
	*h = append(*h, share.(*userShare))
}

func (h *shareHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
