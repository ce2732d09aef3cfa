package caddymodule

import (
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/usage"
)

const placeholderPrefix = "http.codex."

// placeholders have names without placeholderPrefix. Their functions get a request's turns, one for
// each choice, after they have ended. Tokens and tool calls are sums over the turns; every other
// value is that of the first turn.
var placeholders = map[string]func([]usage.Record) any{
	"model":         func(turns []usage.Record) any { return nilIfEmpty(shorten(turns[0].Model)) },
	"api":           func(turns []usage.Record) any { return nilIfEmpty(turns[0].Route) },
	"thread":        func(turns []usage.Record) any { return nilIfEmpty(turns[0].Thread) },
	"finish_reason": func(turns []usage.Record) any { return nilIfEmpty(string(turns[0].Finish)) },
	"key":           func(turns []usage.Record) any { return nilIfEmpty(turns[0].Key) },
	"login":         func(turns []usage.Record) any { return nilIfEmpty(appServerID(turns[0].Process)) },
	"ttft_ms":       firstOutputMillis,
	"input_tokens":  sum(func(r *usage.Record) int64 { return r.Usage.InputTokens }),
	"cached_tokens": sum(func(r *usage.Record) int64 { return r.Usage.CachedInputTokens }),
	"output_tokens": sum(func(r *usage.Record) int64 { return r.Usage.OutputTokens }),
	"tool_calls":    sum(func(r *usage.Record) int64 { return int64(r.Tools.Calls) }),
}

// placeholder is a [caddy.ReplacerFunc]. Without turns that have ended, a value is nil.
func (c *requestContext) placeholder(key string) (any, bool) {
	name, hasPrefix := strings.CutPrefix(key, placeholderPrefix)
	value := placeholders[name]
	if !hasPrefix || value == nil {
		return nil, false
	}
	if len(c.turns) == 0 {
		return nil, true
	}
	return value(c.turns), true
}

// sum returns a placeholder that adds up a number over the turns.
func sum(value func(*usage.Record) int64) func([]usage.Record) any {
	return func(turns []usage.Record) any {
		var n int64
		for i := range turns {
			n += value(&turns[i])
		}
		return n
	}
}

// firstOutputMillis returns the time from the arrival of the request to the first output of its
// first turn, in milliseconds, or nil if there was none.
func firstOutputMillis(turns []usage.Record) any {
	if first := turns[0].FirstOutput; first > 0 {
		return float64(first) / float64(time.Millisecond)
	}
	return nil
}

func nilIfEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}
