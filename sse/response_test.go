package sse_test

import (
	"errors"
	"net/http"
	"time"
)

// response is a response writer that records the calls to it, in order.
type response struct {
	header http.Header
	status int
	body   []byte
	writes []int    // sizes
	log    []string // "header", "write", "flush", "deadline", "no deadline"

	writeErr, flushErr, deadlineErr error
}

func newResponse() *response {
	return &response{header: http.Header{}}
}

var errBroken = errors.New("broken pipe")

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	r.status = status
	r.log = append(r.log, "header")
}

func (r *response) Write(p []byte) (int, error) {
	r.log = append(r.log, "write")
	if r.writeErr != nil {
		return 0, r.writeErr
	}
	r.writes = append(r.writes, len(p))
	r.body = append(r.body, p...)
	return len(p), nil
}

func (r *response) FlushError() error {
	r.log = append(r.log, "flush")
	return r.flushErr
}

func (r *response) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		r.log = append(r.log, "no deadline")
	} else {
		r.log = append(r.log, "deadline")
	}
	return r.deadlineErr
}

// plain is a response writer without any optional method.
type plain struct {
	http.ResponseWriter
}

// unlimited is a response writer that can flush and has no deadlines.
type unlimited struct {
	plain
	flush func() error
}

func (u unlimited) FlushError() error { return u.flush() }
