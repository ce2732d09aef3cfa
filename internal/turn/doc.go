// Package turn makes the outputs of one choice from the events of one Codex turn. The
// [Machine] is pure: it takes events and returns [Output] values, and has no clock and
// no I/O. [Drive] runs it over a live turn. The answers of chat completions and of
// Responses, streamed or not, are folds over the same outputs, so they cannot differ.
package turn
