package gateway

import "github.com/caddy-codex/caddy-codex/internal/turn"

// events encodes the outputs of turns as events, and holds what their end repeats.
type events struct {
	to interface {
		Open() error
		Write(choice int, out turn.Output) error
	}
	held   *held
	opened bool // to has begun
}

// write encodes the next outputs of a choice.
func (e *events) write(choice int, outputs []turn.Output) error {
	for i := range outputs {
		if err := e.held.add(&outputs[i]); err != nil {
			return err
		}
		if err := e.open(); err != nil {
			return err
		}
		if err := e.to.Write(choice, outputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// open encodes the first events, once.
func (e *events) open() error {
	if e.opened {
		return nil
	}
	e.opened = true
	return e.to.Open()
}

// close releases what is held.
func (e *events) close() { e.held.release() }
