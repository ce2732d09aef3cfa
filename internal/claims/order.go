package claims

import (
	"container/heap"
	"container/list"
	"sync"
	"time"
)

// Order runs a limited number of functions at the same time; other functions wait. It serves the
// users who have waiting functions in turn. The functions of one user run in the order in which
// their requests arrived. An Order is for functions that take milliseconds. So it limits neither
// the number of waiting functions nor the time that they wait. An Order is safe for concurrent use.
type Order struct {
	mu           sync.Mutex
	free         int                      // how many more functions may start now
	users        map[string]*list.Element // by name: the elements of waitingUsers
	waitingUsers *list.List               // of *userLine: the users with waiting functions; the user who is served next is first
}

// userLine has the waiting functions of a user.
type userLine struct {
	user string
	line line
}

// NewOrder returns an Order that runs up to n functions at the same time.
func NewOrder(n int) *Order {
	return &Order{free: n, users: make(map[string]*list.Element), waitingUsers: list.New()}
}

// Do waits until f may run, and runs it. f belongs to a request of this user. arrived is the time
// at which the request arrived.
func (o *Order) Do(user string, arrived time.Time, f func()) {
	o.begin(user, arrived)
	defer o.end()
	f()
}

// Yield lets the next waiting function run, and waits until the caller may run again. A function
// that Do runs calls Yield between its steps. user and arrived are the same as in the call of Do.
func (o *Order) Yield(user string, arrived time.Time) {
	o.end()
	o.begin(user, arrived)
}

func (o *Order) begin(user string, arrived time.Time) {
	o.mu.Lock()
	if o.free > 0 {
		o.free--
		o.mu.Unlock()
		return
	}
	elem := o.users[user]
	if elem == nil {
		elem = o.waitingUsers.PushBack(&userLine{user: user})
		o.users[user] = elem
	}
	waiting := waitingFunc{arrived, make(chan struct{})}
	heap.Push(&elem.Value.(*userLine).line, waiting)
	o.mu.Unlock()
	<-waiting.mayRun
}

func (o *Order) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.waitingUsers.Front()
	if first == nil {
		o.free++
		return
	}
	next := first.Value.(*userLine)
	close(heap.Pop(&next.line).(waitingFunc).mayRun)
	if len(next.line) > 0 {
		o.waitingUsers.MoveToBack(first)
		return
	}
	o.waitingUsers.Remove(first)
	delete(o.users, next.user)
}

// waitingFunc is a function that waits in a line.
type waitingFunc struct {
	arrived time.Time
	mayRun  chan struct{} // closed when the function may run
}

// line is a heap of waiting functions. The function whose request arrived first is at the top.
type line []waitingFunc

func (l line) Len() int           { return len(l) }
func (l line) Less(i, j int) bool { return l[i].arrived.Before(l[j].arrived) }
func (l line) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *line) Push(p any)        { *l = append(*l, p.(waitingFunc)) }
func (l *line) Pop() any {
	last := len(*l) - 1
	p := (*l)[last]
	(*l)[last], *l = waitingFunc{}, (*l)[:last]
	return p
}
