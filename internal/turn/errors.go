package turn

import "errors"

var (
	// ErrIdle ends a turn without an event for the idle timeout. An error that matches it
	// may contain Codex's last error.
	ErrIdle = errors.New("codex sent nothing for the idle timeout")

	// ErrCompacted ends a turn in which Codex began to summarise the history because it
	// does not fit the model's context window: what follows would not be an answer to the
	// client's conversation.
	ErrCompacted = errors.New("the conversation does not fit the model's context window")

	// ErrInterrupted ends a turn that somebody else interrupted.
	ErrInterrupted = errors.New("the turn was interrupted")

	// ErrShutdown ends a turn because the server is shutting down. As the cause of a
	// context's end it does not mean that the client has gone, see [Drive].
	ErrShutdown = errors.New("the server is shutting down")
)
