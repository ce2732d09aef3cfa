package turn

import "errors"

var (
	// ErrIdle ends a turn in which the app-server said nothing for the idle
	// timeout. An error that matches it may carry Codex's last complaint.
	ErrIdle = errors.New("codex sent nothing for the idle timeout")

	// ErrCompacted ends a turn in which Codex began to summarise the history
	// because it does not fit the model's context window: what would follow
	// is not an answer to the client's conversation.
	ErrCompacted = errors.New("the conversation does not fit the model's context window")

	// ErrInterrupted ends a turn that somebody else interrupted.
	ErrInterrupted = errors.New("the turn was interrupted")

	// ErrShutdown ends a turn because the server that runs it is shutting down. As
	// the cause of a context's end it is no client that has gone: see [Drive].
	ErrShutdown = errors.New("the server is shutting down")
)
