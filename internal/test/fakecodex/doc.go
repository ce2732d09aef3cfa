// Package fakecodex plays `codex app-server` from recordings, for tests.
//
// [Serve] answers a client as the real program did when the recordings in testdata/transcripts were
// made. Recordings of requests can be played, too: both have the format of docs/dev/recordings.md. The
// answers to initialize, getAuthStatus, model/list and thread/start are the recorded ones, also if
// they are errors; those to thread/inject_items and thread/unsubscribe are always the same; [Options]
// have the answer to account/rateLimits/read. turn/start plays the recording of a turn.
//
// # Which recording is played
//
// A recording is found by the texts of the turn's input and of the injected history, in order:
// texts of input parts and messages, names and arguments of calls, outputs of results, URLs of
// images. Instructions, tools and ids do not matter. The first of these is played: the recording
// whose input and history match, the first by name whose input matches and which has no history,
// the one named by [Options].Default. Without one the turn fails with an error that has the text.
//
// # How it is played
//
// The recorded messages are sent in order, with live ids of the thread, the turn and the requests.
// Where the recording has a message of the client, an answer to item/tool/call or an interrupt, the
// turn waits for one. An interrupt that the recording does not have ends the turn at once, with
// turn/completed and the status interrupted. Threads run concurrently.
//
// [Options].Turn makes turns that are not recorded. Their threads remember them, as those
// of the real program do, and a turn can go on with the results of its calls.
// [Faults] make the server misbehave.
package fakecodex
