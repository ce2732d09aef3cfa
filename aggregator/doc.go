// Package aggregator assembles the tool calls of a turn from what Codex and OpenAI
// write about them ([Aggregator]), and finds calls that a model writes as text, in
// whole texts ([Aggregator.ExtractBlocks]) and in streamed ones ([Scanner]). A
// [Pattern] is a textual form of calls. The built-in form, the <use_tool> block, is
// that of the subpackage usetool.
//
// It is pure: no input or output, no clock, no log, no global state, and no choice
// of finish reasons or of the moment to stop. It knows neither Caddy nor the
// app-server.
//
// # Shapes
//
// An [Aggregator] reads these, mixed in one turn and without preparation:
//
//   - Responses events: response.output_item.added and .done,
//     response.function_call_arguments.delta and .done, and the Response in
//     response.completed and its like; Response objects and function_call items.
//   - Messages of the app-server, protocol v2: rawResponseItem/completed,
//     item/started and item/completed with a dynamicToolCall, item/tool/call; also
//     the params or the item alone.
//   - Chat deltas with tool_calls or function_call: the delta, an object with a
//     delta, an element of choices, a chat.completion.chunk.
//   - Chat messages with tool_calls or function_call: the message, an object with a
//     message, a chat.completion.
//
// # Identity
//
// Calls are told apart by their ids: the call id, which all shapes share, and the
// item id of a Responses item; else by their place (output_index, index); else by
// the order of creation. Calls of different names are different calls, though a
// backend gives them one id. Events are told apart by what they are: a number
// (sequence_number, [Call].Sequence, the position of [Aggregator.IngestEvent]), or
// that there is but one of the kind for a call (its announcement, its end, its
// complete item). Text is no identity: the fragments "a" and "a" are two, and both
// stay. Ingesting anything that has an identity again changes nothing. What has
// none is a fragment without a number: a chat delta's, above all. It always counts;
// a caller that may see one twice, after a reconnect say, gives positions.
//
// A chat delta with a name is the head of its call. Some backends send the head with
// every fragment. A head equal to the first one is taken for a repetition until
// another head of the call differs, which only such a backend does: then all of them
// were fragments. Positions make that certain at once.
//
// A character whose surrogate halves come in two fragments is one character. A half
// that stays alone is U+FFFD, as everywhere in Go.
//
// # Truth
//
// The text of arguments is kept as it comes and never parsed. Renditions of one
// call are ranked: the complete item of the model's response, then complete texts
// of messages and arguments.done, then fragments, then the JSON that Codex makes of
// parsed arguments (item/started, item/tool/call). A complete text that begins with
// what is there adds its rest; one that contradicts it replaces it if it ranks
// higher, which the delta says ([Delta].Replaced), and is refused otherwise. Parsed
// arguments serve only where no text is known: in snapshots at once
// ([Record].Provisional), in deltas from the end of the call.
//
// # Limits
//
// A choice holds at most [DefaultMaxCalls] calls and [DefaultMaxArgumentBytes] bytes
// of arguments, an Aggregator [MaxChoices] choices. All that is ignored is counted
// in [Stats]; nothing panics and nothing fails.
package aggregator
