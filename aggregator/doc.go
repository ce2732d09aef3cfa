// Package aggregator has all that is known of the tool calls of a model's turn. A [Choice] holds
// those of one choice, whether they come as structured calls, whole or in fragments, or as
// blocks in the text: which inputs are about one call, their order, their ids, their arguments,
// which of them repeat another one, and how many there may be. The gateway has one for each
// choice. An [Aggregator] reads the JSON that Codex and OpenAI write about calls, and has a
// Choice for each choice; it is for other programs.
//
// A [Pattern] is a textual form of calls. The built-in form, the <use_tool> block, is that of the
// subpackage usetool. A [Scanner] finds blocks in streamed text, [Aggregator.ExtractBlocks] in a
// whole one.
//
// It is pure: no input or output, no clock, no log, no global state. Its caller decides
// about finish reasons and when to stop. It depends on neither Caddy nor the app-server.
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
// Inputs are about one call if they have the same id of an item; or the same id of the call, which
// all shapes share, and neither items nor places (output_index, index) that differ; without ids
// if they have the same place, or index and name; without a place, the call that was created last
// is meant. These are two calls, even if a backend gives them one id:
//
//   - calls with different names,
//   - calls at different places, or of different items,
//   - two complete items of the model's response, or two complete entries of messages, with
//     different arguments,
//   - two entries of one message.
//
// The id alone then means the call at the place of the event, or else one with the name that came
// last.
//
// A block and a structured call of the same tool with the same arguments are one call, the one
// that came first; each block is the twin of one structured call at most.
//
// An input with an id of this package, and with the name and the arguments that the call has or
// had, was made of a snapshot and adds nothing.
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
// Equal text is no sign of a repetition: a fragment without a number always counts, such as that
// of a chat delta, or of a response.function_call_arguments.delta without a sequence_number. A
// caller that may ingest one twice, for example after a reconnect,
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
// otherwise. JSON of parsed arguments is used only while no text is known, see
// [Record].Provisional.
//
// A fragment that ends within a surrogate pair keeps its half back until the next
// fragment. A half without the other one becomes U+FFFD.
//
// # Limits
//
// A choice has at most [DefaultMaxCalls] calls and [DefaultMaxArgumentBytes] bytes of
// arguments, unless options change that, and 1 MiB of names and ids. An Aggregator has
// [MaxChoices] choices.
// Everything that is ignored is counted in [Stats], and [Result].Err says why. Nothing panics.
package aggregator
