package queue

import (
	"container/heap"
	"sync"
	"time"
)

// Order runs a bounded number of functions at once. Of those that wait, the one whose
// request has arrived first is the next. It bounds neither how many wait nor how long: it is
// for functions that take milliseconds. Its methods are safe for concurrent use.
type Order struct {
	mu      sync.Mutex
	free    int
	waiting line
}

// NewOrder returns an Order that runs n functions at once.
func NewOrder(n int) *Order { return &Order{free: n} }

// Do runs a function of a request that has arrived at a time.
func (o *Order) Do(arrived time.Time, f func()) {
	o.begin(arrived)
	defer o.end()
	f()
}

func (o *Order) begin(arrived time.Time) {
	o.mu.Lock()
	if o.free > 0 {
		o.free--
		o.mu.Unlock()
		return
	}
	next := place{arrived, make(chan struct{})}
	heap.Push(&o.waiting, next)
	o.mu.Unlock()
	<-next.turn
}

func (o *Order) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.free++
		return
	}
	close(heap.Pop(&o.waiting).(place).turn)
}

// place is a function that waits.
type place struct {
	arrived time.Time
	turn    chan struct{} // closed when it may run
}

// line is a heap of those that wait.
type line []place

func (l line) Len() int           { return len(l) }
func (l line) Less(i, j int) bool { return l[i].arrived.Before(l[j].arrived) }
func (l line) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *line) Push(p any)        { *l = append(*l, p.(place)) }
func (l *line) Pop() any {
	last := len(*l) - 1
	p := (*l)[last]
	(*l)[last], *l = place{}, (*l)[:last]
	return p
}
