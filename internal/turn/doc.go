// Package turn turns the events of one Codex turn into the outputs of one
// choice. The [Machine] is pure: events in, [Output] values out, no clock and
// no I/O. [Drive] runs it over a live turn. Every wire, chat or Responses,
// streamed or not, is a fold over the same outputs, so they cannot disagree.
package turn
