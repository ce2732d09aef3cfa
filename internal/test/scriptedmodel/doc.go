// Package scriptedmodel is a model server with OpenAI's Responses API. It is the
// model behind Codex in tests and, with the answers of package demomodel, for a person who has no
// Codex login yet.
//
// It answers POST /v1/responses (streams only), GET /v1/models, and WebSockets on /v1/responses. On
// a WebSocket each message of type response.create is a request, and each event of its answer is a
// message. A request may continue the last response on the same WebSocket (previous_response_id)
// and then has the new input items only. One with "generate": false is a warm-up: its response is
// empty, and the next request may continue it. A refusal is a message of type error with the
// status, the header and the error. After it, and after a response that failed, there is nothing to
// continue.
//
// The first of these that applies chooses the answer:
//
//  1. a function that a test has registered with [Server.On];
//  2. a summary, which begins with [SummaryText] and repeats all facts (see below), if one is asked for
//     ([Request.AsksForSummary]), also by Codex on its own when the history is long;
//  3. facts, if the user's last message has a line RECALL;
//  4. directives in the user's last message;
//  5. a quotation of tool results: "The tool said: …";
//  6. [Options].Answer, or else a quotation of the question.
//
// # Directives
//
// The user's text is a script if it begins with a directive. A directive begins a line or follows a
// semicolon. Its text extends to the next directive, over lines and semicolons, without the white
// space around it. Output is sent in the order of its directives:
//
//	say:TEXT              a message, in deltas
//	verbatim:TEXT         the same, for all the rest of the prompt, untouched
//	reason:TEXT           a reasoning item; an empty line begins another part of
//	                      its summary
//	tool:N NAME JSON      N calls of the tool NAME in one response. %d in JSON is
//	                      the ordinal, from 1. The default of N is 1, that of
//	                      JSON is {}.
//	usetool:N NAME JSON   N textual <use_tool> blocks, with a parameter for each
//	                      key of JSON
//	then                  what follows is the answer to the results of the calls
//	                      so far; without it the results are quoted
//
// At most one directive makes the response fail or end early:
//
//	http:STATUS SECONDS   no stream but an HTTP error, with Retry-After if SECONDS
//	                      are given
//	limit:SECONDS PLAN    the plan is used up (429 usage_limit_reached) and resets
//	                      after SECONDS; 0 or nothing leaves out when
//	fail:CODE MESSAGE     response.failed; for rate_limit_exceeded,
//	                      insufficient_quota, context_length_exceeded and
//	                      server_error there is a message if none is given
//	incomplete:REASON     response.incomplete: max_output_tokens, content_filter
//	cutoff                the connection breaks, in the middle of the last message
//	hang                  silence until the client leaves; before the first event
//	                      if there is no output
//
// An incomplete or broken response without output gets some text. Settings end at
// a space or a semicolon and apply to everything after them, which may also be an
// ordinary question ("delay=50ms; hello"):
//
//	chunk=N               bytes of a delta; characters stay whole. chunk=all: one
//	                      delta
//	delay=DURATION        pause before each delta but the first
//	firstdelay=DURATION   pause before the first output
//	callid=ID             call id of all calls that follow; by default each has its
//	                      own
//	usage:IN,CACHED,OUT,REASONING[,CACHE_WRITE]   token counts; by default
//	                      [DefaultUsage]
//	price=AMOUNT          the price of the response; by default none is told
//
// Examples:
//
//	chunk=7; say:Hello; how are you?
//	reason:Let me look.; tool:2 localSearch {"query":"note %d"}; then; say:Found.
//	say:It is; incomplete:max_output_tokens
//
// The answer to an invalid directive is HTTP 400.
//
// # Long conversations
//
// With [Server.SetWindow] the model counts tokens and those that are cached, and refuses what is too
// long. "FACT NAME = VALUE", two words, anywhere in what the model is sent is a fact, until a newer
// one of that name. A line "RECALL NAME" in the user's last message is answered with the value or
// "unknown NAME", "RECALL ALL" with a line "NAME = VALUE" for each fact. The value of the fact
// summary_bytes, if there is one, is the least length of summaries.
package scriptedmodel
