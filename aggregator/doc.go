// Package aggregator assembles the tool calls of a turn from what Codex and OpenAI
// write about them ([Aggregator]), and finds calls that a model writes as text, in
// whole texts ([Aggregator.ExtractBlocks]) and in streamed ones ([Scanner]). A
// [Pattern] is a textual form of calls. The built-in form, the <use_tool> block, is
// that of the subpackage usetool.
//
// It is pure: no input or output, no clock, no log, no global state. Its caller decides
// about finish reasons and when to stop. It depends on neither Caddy nor the app-server.
//
// The gateway uses the scanner. It needs no assembly, since Codex gives it each structured
// call as a whole; the [Aggregator] is for other programs.
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
// # Calls
//
// A call is identified by its call id, which all shapes share, or by the item id of a
// Responses item; without ids by its place (output_index, or index and name); without a
// place, the call that was created last is meant. Calls with different names are
// different calls, even if a backend gives them the same id. The id alone then means
// the call at the place of the event, or else the one that was named last.
//
// # Repetitions
//
// An event that comes again changes nothing. It is recognised by
//
//   - a number, sequence_number or the position of [Aggregator.IngestEvent], that is not
//     above the highest one seen;
//   - its kind, if a call has one such event only: its announcement, its end, its
//     complete item.
//
// Equal text is no sign of a repetition: a fragment without a number, such as that of a chat
// delta, always counts. A caller that may ingest one twice, for example after a reconnect,
// gives positions.
//
// A chat delta with a name is the head of its call. Some backends send the head with
// every fragment. A head equal to the first one counts as a repetition until another head
// of the call differs, which only such backends send: then all of them were fragments.
// With positions each head is a fragment at once.
//
// # Arguments
//
// The arguments are kept as text and never parsed. If a call comes in several versions,
// the first of these counts:
//
//  1. the complete item of the model's response,
//  2. a complete text: of a message, or of arguments.done,
//  3. fragments,
//  4. JSON that Codex made from parsed arguments (item/started, item/tool/call).
//
// A complete text that begins with the text so far adds its rest. A text that contradicts
// it replaces a lesser version, which the delta says ([Delta].Replaced), and is refused
// otherwise. JSON of parsed arguments is used only while no text is known: in snapshots at
// once ([Record].Provisional), in deltas from the end of the call.
//
// A fragment that ends within a surrogate pair keeps its half back until the next
// fragment. A half without the other one becomes U+FFFD.
//
// # Limits
//
// A choice has at most [DefaultMaxCalls] calls and [DefaultMaxArgumentBytes] bytes of
// arguments, unless options change that, and an Aggregator has [MaxChoices] choices.
// Everything that is ignored is counted in [Stats]. Nothing panics or fails.
package aggregator
