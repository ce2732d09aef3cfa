package outputs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Event is an event of a stream, with the type that the encoder gave it.
type Event struct {
	Type string
	Data []byte
}

// Client reads the answers to one request, and refuses what a strict client would. A is what it has of
// an answer.
type Client[A any] struct {
	Encoder func() api.Encoder // a new one
	Stream  func(events []Event) (A, error)
	Whole   func(body []byte) (A, error)
	Choices []int // the choice of each output. Nil: all are of one.
}

// Check returns what the client has of a turn, streamed, and wants the same of the whole body. If the
// turn fails, or the client could not read an output, it also returns the error with which both end;
// then there is no body.
func (c Client[A]) Check(t testing.TB, outs []turn.Output) (A, *apierror.Error) {
	t.Helper()
	var events []Event
	_, failed := c.encode(t, outs, func(name string, data []byte) error {
		events = append(events, Event{name, bytes.Clone(data)})
		return nil
	})
	streamed, err := c.Stream(events)
	if err != nil {
		t.Fatalf("%+v\n%v in the stream of\n%s", outs, err, events)
	}
	e, failedToo := c.encode(t, outs, nil)
	if !reflect.DeepEqual(failed, failedToo) {
		t.Fatalf("%+v\nstreamed %v\nwhole    %v", outs, failed, failedToo)
	}
	if failed == nil {
		whole, err := c.Whole(e.JSON())
		if err != nil || !reflect.DeepEqual(streamed, whole) {
			t.Fatalf("%+v\n%v\nstreamed %+v\nwhole    %+v\nof %s", outs, err, streamed, whole, e.JSON())
		}
	}
	return streamed, failed
}

// encode does as the gateway does.
func (c Client[A]) encode(t testing.TB, outs []turn.Output, emit api.Emit) (e api.Encoder, failed *apierror.Error) {
	t.Helper()
	over, late := false, false
	e = c.Encoder()
	if emit == nil {
		e.Begin(nil)
	} else {
		e.Begin(func(name string, data []byte) error {
			late = late || over
			return emit(name, data)
		})
		_ = e.Open()
	}
	for i, out := range outs {
		choice := 0
		if c.Choices != nil {
			choice = c.Choices[i]
		}
		if out.Kind == turn.OutputFailure {
			failed = failures.APIError(out.Err)
		} else if err := e.Write(choice, out); err != nil && !errors.As(err, &failed) {
			t.Fatalf("%+v: %v", out, err)
		}
		if failed != nil {
			_ = e.Fail(failed)
			break
		}
	}
	over = true
	if err := e.Write(0, Text("behind the end")); err != nil || late {
		t.Fatalf("%+v\n%v after the end, something is emitted: %t", outs, err, late)
	}
	if e.Idle(); !e.Done() {
		t.Fatalf("%+v\nis not done", outs)
	}
	return e, failed
}

// CheckCut is [Client.Check], and wants the same if the turn's texts come in other pieces.
func (c Client[A]) CheckCut(t testing.TB, r *rand.Rand, outs []turn.Output) A {
	t.Helper()
	one, failed := c.Check(t, outs)
	if cut, _ := c.Check(t, Cut(r, outs)); failed == nil && !reflect.DeepEqual(one, cut) {
		t.Fatalf("%+v\nis read as %+v\ncut, as    %+v", outs, one, cut)
	}
	return one
}

// StreamedEqualsWhole checks with random turns that call the tools that streamed and whole answers are
// the same, whatever a turn says, however it is cut, and even if it fails. It asks for a client for each turn.
func StreamedEqualsWhole[A any](t *testing.T, turns int, client func(*rand.Rand) Client[A], tools ...string) {
	t.Helper()
	for seed := range uint64(turns) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, outs := client(r), Random(r, tools...)
		if r.IntN(4) == 0 {
			outs[len(outs)-1] = turn.Output{Kind: turn.OutputFailure, Err: errors.New("broken")}
		}
		if c.CheckCut(t, r, outs); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
