package usetool

import (
	"strings"
	"testing"
)

func BenchmarkParseBlock(b *testing.B) {
	for name, inner := range map[string]string{
		"note":    "<path>a.md</path><content>" + strings.Repeat("a line with <br> and R&D\n", 40_000) + "</content>",
		"openers": strings.Repeat("<a>", 333_000),
		"names":   strings.Repeat("<a><b><c><d>", 80_000) + strings.Repeat("</d></c>", 10_000),
	} {
		block := "<use_tool><name>f</name>" + inner + "</use_tool>"
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(block)))
			for b.Loop() {
				if _, _, err := Parse(block); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRenderXML(b *testing.B) {
	arguments := object("path", "a.md", "content", strings.Repeat("a line with <b>tags</b> and R&D\n", 3_000))
	b.ReportAllocs()
	b.SetBytes(int64(len(arguments)))
	for b.Loop() {
		if _, err := RenderXML("writeToFile", arguments, EscapeLiteral); err != nil {
			b.Fatal(err)
		}
	}
}
