package conversation

// list is a doubly linked list. An element and its value are one object, where container/list
// has two. The zero value is empty.
type list[T any] struct {
	first, last *element[T]
	length      int
}

// element is a value in a list.
type element[T any] struct {
	before, after *element[T] // nil: there is none
	value         T
}

// pushBack adds an element, which is in no list, at the end.
func (l *list[T]) pushBack(e *element[T]) {
	e.before, e.after = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.after = e
	}
	l.last = e
	l.length++
}

// pushFront adds an element, which is in no list, at the beginning.
func (l *list[T]) pushFront(e *element[T]) {
	e.before, e.after = nil, l.first
	if l.first == nil {
		l.last = e
	} else {
		l.first.before = e
	}
	l.first = e
	l.length++
}

// remove takes an element out of the list.
func (l *list[T]) remove(e *element[T]) {
	if e.before == nil {
		l.first = e.after
	} else {
		e.before.after = e.after
	}
	if e.after == nil {
		l.last = e.before
	} else {
		e.after.before = e.before
	}
	e.before, e.after = nil, nil
	l.length--
}

// moveToBack makes an element the last one.
func (l *list[T]) moveToBack(e *element[T]) {
	if l.last != e {
		l.remove(e)
		l.pushBack(e)
	}
}
