// Package usetool reads and writes <use_tool> blocks, the textual tool calls of
// Obsidian Copilot.
//
// [Scanner] is the tool buffer: it takes the blocks out of a text that comes in
// pieces. [Blocks] does so for a whole text, [RenderXML] writes a block, and [Shape]
// and [Canon] have the parameters that the client wants. [Action] compares calls of any
// form by what they do.
//
// It is pure: no input or output, no clock, no log, no global state.
package usetool
