package main

import (
	"fmt"
	"time"
)

// The text of a delta is a record: its number, when it was written, and padding. A client that gets
// a stream's records one after another, however cut, has lost, doubled and mixed up nothing.
const (
	numberSize = 6
	stampSize  = 16
	// minSize is the size of a record without a time; longer ones have it.
	minSize = numberSize + 1
	stamped = minSize + stampSize + 1
)

const digits = "0123456789abcdef"

// appendRecord appends the record with a number in so many bytes.
func appendRecord(to []byte, number, size int) []byte {
	for unit := 100000; unit > 0; unit /= 10 {
		to = append(to, digits[number/unit%10])
	}
	rest := size - numberSize
	if size >= stamped {
		to = append(to, ' ')
		now := uint64(time.Now().UnixNano())
		for shift := 60; shift >= 0; shift -= 4 {
			to = append(to, digits[now>>shift&15])
		}
		rest -= 1 + stampSize
	}
	for range rest {
		to = append(to, ' ')
	}
	return to
}

type records struct {
	size    int
	next    int    // number of the next record
	pending []byte // the beginning of a record
	// heard, if it is not nil, is called with the time that each record was on its way.
	heard func(time.Duration)
}

// add reads the next piece of the text, which arrived at a time.
func (r *records) add(text []byte, at int64) error {
	for len(text) > 0 {
		record := text
		if len(r.pending) > 0 || len(text) < r.size {
			take := min(r.size-len(r.pending), len(text))
			r.pending = append(r.pending, text[:take]...)
			text = text[take:]
			if len(r.pending) < r.size {
				return nil
			}
			record, r.pending = r.pending, r.pending[:0]
		} else {
			record, text = text[:r.size], text[r.size:]
		}
		number := 0
		for _, digit := range record[:numberSize] {
			number = number*10 + int(digit-'0')
		}
		if number != r.next%1_000_000 {
			return fmt.Errorf("record %d came where %d was to come: %q", number, r.next, record)
		}
		r.next++
		if r.heard != nil && r.size >= stamped {
			r.heard(time.Duration(at - stampOf(record)))
		}
	}
	return nil
}

func stampOf(record []byte) (stamp int64) {
	for _, c := range record[minSize : minSize+stampSize] {
		digit := int64(c - '0')
		if c >= 'a' {
			digit = int64(c-'a') + 10
		}
		stamp = stamp<<4 | digit
	}
	return stamp
}
