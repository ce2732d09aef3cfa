// Package jsontext reads JSON by walking its text instead of decoding it into Go
// values: a member then costs no allocation, and a value keeps its own spelling.
//
// There are two views of a text, over the same scanner. [Value] is a view of bytes
// that [Parse] has checked by strict rules, for the bodies of requests. [Walker] and
// [String] read strings that [Valid] has checked, for events and tool calls. Neither
// checks anything again. [AppendString] writes JSON strings.
package jsontext
