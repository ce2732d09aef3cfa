// Package jsontext reads JSON by walking its text instead of decoding it into Go
// values. A member then costs no allocation, and a value keeps its own spelling.
//
// There are two views over the same scanner. [Value] is a view of bytes that [Parse]
// has checked by strict rules, for the bodies of requests. [Walker] and [String] read
// strings that [Valid] has checked, for events and tool calls. [AppendString] and
// [Append] write JSON.
package jsontext
