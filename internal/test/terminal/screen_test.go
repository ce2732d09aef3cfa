package terminal

import "testing"

// TestScreen: what output leaves on a screen of 10 columns and 4 rows, however it is cut.
func TestScreen(t *testing.T) {
	for name, c := range map[string]struct{ output, screen, answers string }{
		"lines":               {"a\r\nb\nc\rd\te", "a\nb\ndc      e", ""},
		"a full line":         {"0123456789x\by", "0123456789\ny", ""},
		"scrolling":           {"1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5", ""},
		"colours":             {"\x1b[1;38;2;1;2;3mred\x1b[0m \x1b(Bx", "red x", ""},
		"wide":                {"😀\x1b[3Gx界\x1b[6Gy", "😀x界y", ""},
		"marks":               {"e\u0301x\ufe0f", "ex", ""},
		"positions":           {"\x1b[2;3Hx\x1b[A\x1b[2Dy\x1b[Bz\x1b[4;8Hend\x1b[1d!", " y       !\n  z\n\n       end", ""},
		"relative":            {"abc\x1b[3D\x1b[CX\x1b[E\x1b[5GY\x1b[FZ", "ZXc\n    Y", ""},
		"erasing a line":      {"abcdef\x1b[3D\x1b[K\r\nabcdef\x1b[3D\x1b[1K\r\nabc\x1b[2K", "abc\n    ef", ""},
		"erasing below":       {"a\r\nbc\r\nd\x1b[2;2H\x1b[J", "a\nb", ""},
		"erasing all":         {"a\r\nb\x1b[2Jx\x1b[3J", "\n x", ""},
		"cells":               {"abcdef\r\x1b[2P\x1b[1@\x1b[4G\x1b[X", " cd f", ""},
		"inserted lines":      {"1\r\n2\r\n3\x1b[2H\x1b[Lx", "1\nx\n2\n3", ""},
		"deleted lines":       {"1\r\n2\r\n3\x1b[1H\x1b[M", "2\n3", ""},
		"a part scrolls":      {"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3H\nx\x1b[r", "1\n3\nx\n4", ""},
		"it scrolls down":     {"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2H\x1bMx\x1b[r", "1\nx\n2\n4", ""},
		"scrolled":            {"1\r\n2\r\n3\x1b[S\x1b[T", "\n2\n3", ""},
		"saved":               {"ab\x1b7cd\x1b8X\x1b[sYZ\x1b[uQ", "abXQZ", ""},
		"the other screen":    {"main\x1b[?1049h\x1b[Hother\x1b[?1049l!", "main!", ""},
		"on the other":        {"main\x1b[?1049h\x1b[Hother", "other", ""},
		"titles":              {"\x1b]0;title\a\x1b]8;;http://x\x1b\\link\x1bPq\x1b\\", "link", ""},
		"where is the cursor": {"ab\x1b[6n", "ab", "\x1b[1;3R"},
		"what are you":        {"\x1b[c\x1b[>c\x1b[?u", "", "\x1b[?62;22c"},
		"which background":    {"\x1b]11;?\x1b\\x", "x", "\x1b]11;rgb:0000/0000/0000\x1b\\"},
		"reset":               {"abc\x1bcx", "x", ""},
		"no UTF-8":            {"a\xffb", "a\ufffdb", ""},
	} {
		for cut := range len(c.output) {
			s := newScreen(10, 4)
			answers := string(s.write([]byte(c.output[:cut])))
			answers += string(s.write([]byte(c.output[cut:])))
			if s.String() != c.screen || answers != c.answers {
				t.Errorf("%s, cut at %d: %q, answers %q", name, cut, s, answers)
			}
		}
	}
}
