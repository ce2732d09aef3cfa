// Package fakecodex plays `codex app-server` from recordings, for tests.
//
// [Serve] answers a client as the real program did when the recordings in
// testdata/transcripts were made: initialize, account/read, model/list and
// thread/start are answered as recorded, thread/inject_items and
// thread/unsubscribe as they always are, account/rateLimits/read as [Options]
// say, and turn/start by playing the recording of a turn.
//
// # Which recording is played
//
// A recording is found by what the model would have been asked: the texts of
// the turn's input and of the injected history, in order. A text is that of an
// input part or of a message; a call counts by its name and arguments, a
// result by its output, an image by its URL. Instructions, tools and ids do not
// count. The recording whose input and history both match is played, else the
// first by name whose input matches and which has no history of its own, else
// the one named by [Options].Default. With none of these the turn fails, and
// its error tells the text that was not found.
//
// # How it is played
//
// The recorded messages are sent in order, with the ids of the thread, the
// turn and the requests replaced by live ones; other ids are as recorded. Where
// the recording has a message of the client's, an answer to item/tool/call or
// an interrupt, the turn waits for the like. An interrupt that the recording
// does not have (any more) ends the turn at once, with turn/completed and the
// status interrupted. Any number of threads play side by side.
//
// Turns that no recording has can be made by [Options].Turn.
//
// [Faults] make it behave worse than that.
package fakecodex
