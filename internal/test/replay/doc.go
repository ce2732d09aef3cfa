// Package replay replays recordings of requests, see internal/recorder: the request of a recording goes through
// the whole gateway once more, in virtual time, while a player stands for the app-server. It sends the recorded
// lines when the turn has read them, all lines of one read at once, so that the gateway joins the same deltas. What goes
// out must be the same, byte for byte, apart from ids, times and what is sealed.
//
// Of a turn that was started again, only the last start is replayed: the client has seen nothing of those before.
// A turn that went on in a kept thread gets a new one. What other requests caused, such as a full queue, cannot be
// replayed, since a recording has one request only; [Run] says so.
package replay
