// Package aggregator assembles the tool calls of a model's turn. They come in two forms: as structured
// calls, in JSON of their own, whole or in fragments, and as blocks in the text. A [Choice] is for one
// choice of an answer. It decides which inputs are about the same call, keeps the calls with their
// order, ids and arguments, finds repeated calls, and limits the number of calls. The gateway makes a
// Choice for each choice of an answer. An [Aggregator] is for other programs: it reads the JSON that
// Codex and OpenAI send, and passes it to a Choice for each choice.
//
// A [Pattern] is a textual form of calls. The built-in form, <use_tool>, is in the subpackage usetool.
// A [Scanner] finds blocks in streamed text, [Aggregator.ExtractBlocks] in a whole text.
//
// The package is pure: no input or output, no clock, no log, no global state. Its caller decides
// about finish reasons and when to stop. It depends on neither Caddy nor the app-server.
//
// # Shapes
//
// An [Aggregator] reads these shapes. One turn may mix them, and no option has to name them:
//
//   - Responses events: response.output_item.added and .done,
//     response.function_call_arguments.delta and .done, and the Response in
//     response.completed and similar events; Response objects and function_call items.
//   - Messages of the app-server, protocol v2: rawResponseItem/completed,
//     item/started and item/completed with a dynamicToolCall, item/tool/call,
//     item/dynamicToolCall/argumentsDelta; also the params or the item alone.
//   - Chat deltas with tool_calls or function_call: the delta, an object with a
//     delta, an element of choices, a chat.completion.chunk.
//   - Chat messages with tool_calls or function_call: the message, an object with a
//     message, a chat.completion.
//
// # Calls
//
// These rules say which call an input is about:
//
//   - An input with the id of an item means the call with that item.
//   - An input with the id of a call means the call with that id, unless the call has another item
//     or another place (output_index, index) than the input. The id of a call is the same in all
//     shapes.
//   - An input without ids means the call with its place, or with its index and name.
//   - An input without ids and without a place means the call that was created last.
//
// These are two calls, even if a backend gives them one id:
//
//   - calls with different names,
//   - calls at different places, or of different items,
//   - two complete items of the model's response, or two complete entries of messages, with
//     different arguments,
//   - two entries of one message.
//
// If several calls share an id, an event with this id and without a name is about the call at its
// place. An event that also has no place is about a call with the last name that came with this id.
//
// A block and a structured call of the same tool with the same arguments are one call: the first is
// kept. A block pairs with at most one structured call, and only when the arguments of this call are
// whole JSON, or complete as the backend says. So a block and, after it, the same call in fragments are
// two calls: the first fragment has already been given to the caller.
//
// An input may have an id that this package gave to a call. If it also has the name and the
// arguments that this call has or had, it was made from a snapshot. Such an input adds nothing.
//
// # Repetitions
//
// An event that comes again changes nothing. It is recognised by
//
//   - a number (sequence_number, or the position of [Aggregator.IngestEvent]) that is not
//     above the highest one seen;
//   - its kind, if a call has only one event of that kind: its announcement, its end, its
//     complete item.
//
// Equal text is no sign of a repetition: a fragment without a number always counts. Chat deltas
// have no number, and a response.function_call_arguments.delta may have no sequence_number. A
// caller that may ingest such an event twice, for example after a reconnect, gives positions.
//
// A chat delta with a name is a head of its call. Some backends send a head with every fragment; only
// these backends send different heads for one call. So heads that equal the first are repetitions until
// a head differs; then all heads are fragments, also the earlier ones. With positions, all heads are
// fragments.
//
// # Arguments
//
// The arguments are kept as text and never parsed. The first of these versions counts:
//
//  1. the complete item of the model's response,
//  2. a complete text: of a message, or of arguments.done,
//  3. fragments,
//  4. JSON that Codex made from parsed arguments (item/started, item/tool/call).
//
// A complete text that differs from the text so far is refused, unless its version is earlier in the
// list. Then its new end is added or, if it does not begin with the text so far, it replaces that text:
// [Delta].Replaced is true. JSON of parsed arguments is used only while no text is known, see
// [Record].Provisional.
//
// The first half of a surrogate pair waits for the next fragment. A single half becomes U+FFFD.
//
// # Limits
//
// A choice has at most 2 MiB of names and ids, each counted with 256 bytes more; options change the
// other limits, [DefaultMaxCalls] and [DefaultMaxArgumentBytes]. An Aggregator has at most
// [MaxChoices] choices. All that is ignored is counted in [Stats] and, if malformed or above a limit,
// reported in [Result].Err. Nothing panics.
package aggregator
