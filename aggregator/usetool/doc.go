// Package usetool reads and writes <use_tool> blocks, the textual tool calls of
// Obsidian Copilot. The Scanner of package aggregator finds them in a text.
//
// [Parse] reads a block, [RenderXML] writes one, and [Shape] and [Canon] have the parameters
// that the client wants. [Action] compares calls of any form by what they do.
//
// The package is pure: no input or output, no clock, no log, no global state.
package usetool
