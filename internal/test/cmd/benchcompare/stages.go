package main

// stage is a benchmark of one stage of the way of a delta or a request.
type stage struct {
	pkg   string // its directory
	bench string // the benchmark, with that within it, as -test.bench wants it
	n     int    // how often it runs
}

// stages lists what is compared. n gives some million instructions, beside which the start varies
// little, and at most some hundred megabytes, so that there is no garbage collection.
var stages = []stage{
	{"codexrpc", "Reader", 50_000},
	{"codexrpc", "EncodeStart", 5000},
	{"codexrpc", "EncodeTurn", 20},
	{"internal/turn", "TextDeltas", 20_000},
	{"internal/turn", "StructuredCalls", 10},
	{"aggregator", "RecordedTurn", 200},
	{"aggregator", "ScannerPlainDeltas", 5},
	{"aggregator", "ScannerBlocks", 5},
	{"internal/prompt", "Fit", 50},
	{"internal/tokens", "Limit/counting", 3},
	{"internal/claims", "Free", 20_000},
	{"internal/chat", "RequestSmall", 2000},
	{"internal/chat", "RequestLong", 10},
	{"internal/chat", "StreamDelta", 100_000},
	{"internal/messages", "RequestSmall", 2000},
	{"internal/messages", "RequestLong", 10},
	{"internal/messages", "StreamDelta", 100_000},
	{"internal/responses", "Request", 20},
	{"internal/responses", "ResponseTextDelta", 500_000},
	{"sse", "WriteFlush", 20_000},
	{"sse", "WriteBatch", 50_000},
	{"caddymodule", "Request", 2000},
	{"internal/pool", "Lease", 5000},
	{"internal/gateway", "Request/chat", 200},
	{"internal/gateway", "Request/chat_stream", 200},
	{"internal/gateway", "Request/response_stream", 200},
	{"internal/gateway", "Request/invalid", 5000},
}
