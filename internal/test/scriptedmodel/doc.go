// Package scriptedmodel is a small model server that speaks the Responses API of
// OpenAI: the model behind Codex for tests, and for a person who has no Codex
// login yet.
//
// It answers POST /v1/responses (streams only), GET /v1/models, and WebSockets on
// /v1/responses. On a WebSocket each message of type response.create is a
// request, and each event of its answer a message. A request there may go on from
// the last response on the same WebSocket (previous_response_id), and then has the
// new input items alone. One with "generate": false is a warm-up: its response is
// empty, and the next request may go on from it. A refusal is a message of type
// error with the status, the header and the error; after it, and after a response
// that failed, there is nothing to go on from. See [Server.Strike] for how
// WebSockets end.
//
// What it answers is chosen in this order:
//
//  1. by a function that a test has registered with [Server.On];
//  2. a request to compact the conversation, which Codex makes by itself when
//     the history grows long, gets [SummaryText];
//  3. by directives in the last text of the user;
//  4. after tool results it quotes them: "The tool said: …";
//  5. otherwise it is the demo model: it greets, says what it is, calls the
//     tool that fits the question, and explains its directives on "help".
//
// # Directives
//
// The user's text is a script if it begins with a directive. A directive begins
// a line or follows a semicolon; its text reaches to the next directive, over
// lines and semicolons, without the white space around it. Directives of output
// are played in their order:
//
//	say:TEXT              a message, in deltas
//	verbatim:TEXT         the same, for all the rest of the prompt, untouched
//	reason:TEXT           a reasoning item; an empty line begins another part of
//	                      its summary
//	tool:N NAME JSON      N calls of the tool NAME in one response. %d in JSON is
//	                      the ordinal, from 1. Without N it is one call, without
//	                      JSON the arguments are made up from the tool's schema.
//	usetool:N NAME JSON   N textual <use_tool> blocks, with a parameter for each
//	                      key of JSON
//	then                  what follows is the answer to the results of the calls
//	                      so far; without it the results are quoted
//
// At most one directive says how the response ends, if not well:
//
//	http:STATUS SECONDS   no stream but an HTTP error, with Retry-After if SECONDS
//	                      are given
//	limit:SECONDS PLAN    the plan is spent (429 usage_limit_reached) and resets in
//	                      so many seconds; 0 or nothing: it does not tell
//	fail:CODE MESSAGE     response.failed; for rate_limit_exceeded,
//	                      insufficient_quota, context_length_exceeded and
//	                      server_error there is a message if none is given
//	incomplete:REASON     response.incomplete: max_output_tokens, content_filter
//	cutoff                the connection breaks, in the middle of the last message
//	hang                  silence until the client goes; before the first event if
//	                      there is no output
//
// An incomplete or broken response without output gets some text. And settings,
// each up to a space or a semicolon, hold for all that follows, also for an
// ordinary question ("delay=50ms; hello"):
//
//	chunk=N               bytes of a delta; characters stay whole. chunk=all: one
//	                      delta
//	delay=DURATION        pause before each delta but the first
//	firstdelay=DURATION   pause before the first output
//	callid=ID             the call id of all calls that follow; default: each has its
//	                      own
//	usage:IN,CACHED,OUT,REASONING   token counts; default: see [DefaultUsage]
//
// Examples:
//
//	chunk=7; say:Hello; how are you?
//	reason:Let me look.; tool:2 localSearch {"query":"note %d"}; then; say:Found.
//	say:It is; incomplete:max_output_tokens
//
// A directive that cannot be understood is answered with HTTP 400.
package scriptedmodel
