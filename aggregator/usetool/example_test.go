package usetool_test

import (
	"fmt"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// A structured call becomes the text that Obsidian Copilot reads.
func ExampleRenderXML() {
	const arguments = `{"k":8,"salientTerms":["R&D","plan"],"query":"R&D <2026>"}`
	literal, err := usetool.RenderXML("localSearch", arguments, usetool.EscapeLiteral)
	fmt.Println(literal, err)
	entities, err := usetool.RenderXML("localSearch", arguments, usetool.EscapeEntities)
	fmt.Println(entities, err)
	// Output:
	// <use_tool>
	// <name>localSearch</name>
	// <query>R&D <2026></query>
	// <salientTerms>["R\u0026D","plan"]</salientTerms>
	// </use_tool> <nil>
	// <use_tool>
	// <name>localSearch</name>
	// <query>R&amp;D &lt;2026&gt;</query>
	// <salientTerms>["R\u0026D","plan"]</salientTerms>
	// </use_tool> <nil>
}

// The arguments of a tool of the canon, in its order and under its names.
func ExampleShape() {
	params, err := usetool.Shape("readNote", `{"mode":"fast","chunkIndex":2,"path":"Plan.md"}`)
	fmt.Println(params, err)
	// Output: [{notePath "Plan.md"} {chunkIndex 2}] <nil>
}
