package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// screen emulates an xterm as far as is needed to know which text is where. It has no colours and no styles.
type screen struct {
	columns, rows int
	lines         [][]rune // of the rows; a cell with 0 is covered by the wide character on its left
	main          [][]rune // the lines of the main screen, while the alternate one is shown
	x, y          int      // the cursor; x is columns after a character in the last column
	savedX        int
	savedY        int
	top, bottom   int // the rows that scroll: from top to before bottom

	unread  []byte // the beginning of a character or an escape sequence that is not complete
	answers []byte // to the program's questions
}

func newScreen(columns, rows int) *screen {
	s := &screen{columns: columns, rows: rows, bottom: rows}
	s.lines = s.blank(rows)
	return s
}

func (s *screen) blank(n int) [][]rune {
	lines := make([][]rune, n)
	for i := range lines {
		lines[i] = slices.Repeat([]rune{' '}, s.columns)
	}
	return lines
}

// String returns the text on the screen, without spaces at the ends of lines and empty lines at its end.
func (s *screen) String() string {
	var text strings.Builder
	for _, line := range s.lines {
		shown := slices.DeleteFunc(slices.Clone(line), func(r rune) bool { return r == 0 })
		text.WriteString(strings.TrimRight(string(shown), " ") + "\n")
	}
	return strings.TrimRight(text.String(), "\n")
}

// write takes output of the program, and returns what the terminal answers.
func (s *screen) write(p []byte) []byte {
	in := append(s.unread, p...)
	for len(in) > 0 {
		n := s.take(in)
		if n == 0 {
			break // the rest comes with the next output
		}
		in = in[n:]
	}
	s.unread = slices.Clone(in)
	answers := s.answers
	s.answers = nil
	return answers
}

// take takes a character or a sequence from the beginning of in, and returns its length, or 0 if it is
// not complete.
func (s *screen) take(in []byte) int {
	switch b := in[0]; {
	case b == 0x1b:
		return s.escape(in)
	case b < ' ' || b == 0x7f:
		s.control(b)
		return 1
	case !utf8.FullRune(in):
		return 0
	}
	r, n := utf8.DecodeRune(in)
	s.put(r)
	return n
}

func (s *screen) control(b byte) {
	switch b {
	case '\r':
		s.x = 0
	case '\n', '\v', '\f':
		s.index()
	case '\b':
		s.moveTo(min(s.x, s.columns-1)-1, s.y)
	case '\t':
		s.moveTo(s.x/8*8+8, s.y)
	}
}

// wide are the characters that take two columns, but not all of them.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{0x1100, 0x115f, 1}, {0x2e80, 0xa4cf, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1}, {0xff00, 0xff60, 1}},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1}, {0x1f900, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}

func (s *screen) put(r rune) {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return // part of the character before
	}
	width := 1
	if unicode.Is(wide, r) {
		width = 2
	}
	if s.x+width > s.columns {
		s.x = 0
		s.index()
	}
	s.lines[s.y][s.x] = r
	if width == 2 {
		s.lines[s.y][s.x+1] = 0
	}
	s.x += width
}

func (s *screen) moveTo(x, y int) {
	s.x, s.y = min(max(x, 0), s.columns-1), min(max(y, 0), s.rows-1)
}

// index moves the cursor down, and scrolls at the end of the rows that scroll.
func (s *screen) index() {
	if s.y == s.bottom-1 {
		s.scroll(s.top, 1)
	} else if s.y < s.rows-1 {
		s.y++
	}
}

// reverseIndex moves the cursor up, and scrolls at the beginning of the rows that scroll.
func (s *screen) reverseIndex() {
	if s.y == s.top {
		s.scroll(s.top, -1)
	} else if s.y > 0 {
		s.y--
	}
}

// scroll moves the lines from a row to the end of the rows that scroll up by n, or down by -n.
func (s *screen) scroll(from, n int) {
	if from >= s.bottom {
		return
	}
	n = min(max(n, from-s.bottom), s.bottom-from)
	part := s.lines[from:s.bottom]
	if n >= 0 {
		copy(part, append(slices.Clone(part[n:]), s.blank(n)...))
	} else {
		copy(part, append(s.blank(-n), slices.Clone(part[:len(part)+n])...))
	}
}

// escape takes an escape sequence, see take.
func (s *screen) escape(in []byte) int {
	if len(in) < 2 {
		return 0
	}
	switch in[1] {
	case '[':
		for i, b := range in[2:] {
			if b >= 0x40 && b <= 0x7e {
				s.csi(string(in[2:2+i]), b)
				return i + 3
			}
		}
		return 0
	case ']', 'P', '^', '_', 'X': // strings, up to BEL or ESC \
		for i, b := range in[2:] {
			if b == '\a' || b == '\\' && in[i+1] == 0x1b {
				s.command(string(in[1 : 2+i]))
				return i + 3
			}
		}
		return 0
	case '(', ')', '*', '+', '#', '%', ' ': // of three bytes; none matters here
		if len(in) < 3 {
			return 0
		}
		return 3
	case '7':
		s.savedX, s.savedY = s.x, s.y
	case '8':
		s.x, s.y = s.savedX, s.savedY
	case 'D':
		s.index()
	case 'E':
		s.x = 0
		s.index()
	case 'M':
		s.reverseIndex()
	case 'c':
		*s = *newScreen(s.columns, s.rows)
	}
	return 2
}

// command answers questions about the colours of text (10) and background (11).
func (s *screen) command(text string) {
	for number, colour := range map[string]string{"10": "ffff/ffff/ffff", "11": "0000/0000/0000"} {
		if strings.HasPrefix(text, "]"+number+";?") {
			s.answers = fmt.Appendf(s.answers, "\x1b]%s;rgb:%s\x1b\\", number, colour)
		}
	}
}

// csi runs a control sequence.
func (s *screen) csi(parameters string, final byte) {
	numbers := strings.Split(strings.TrimLeft(parameters, "?>=<"), ";")
	number := func(i, otherwise int) int {
		if i < len(numbers) {
			if n, err := strconv.Atoi(numbers[i]); err == nil && n > 0 {
				return n
			}
		}
		return otherwise
	}
	if strings.IndexAny(parameters, "?>=<") == 0 {
		s.private(parameters, final)
		return
	}
	n, x := number(0, 1), min(s.x, s.columns-1)
	switch final {
	case 'A':
		s.moveTo(x, s.y-n)
	case 'B', 'e':
		s.moveTo(x, s.y+n)
	case 'C', 'a':
		s.moveTo(x+n, s.y)
	case 'D':
		s.moveTo(x-n, s.y)
	case 'E':
		s.moveTo(0, s.y+n)
	case 'F':
		s.moveTo(0, s.y-n)
	case 'G', '`':
		s.moveTo(n-1, s.y)
	case 'd':
		s.moveTo(x, n-1)
	case 'H', 'f':
		s.moveTo(number(1, 1)-1, n-1)
	case 'J':
		s.erase(number(0, 0), s.y*s.columns+x, 0, s.rows*s.columns)
	case 'K':
		s.erase(number(0, 0), s.y*s.columns+x, s.y*s.columns, (s.y+1)*s.columns)
	case 'X':
		s.clear(s.y*s.columns+x, min(s.y*s.columns+x+n, (s.y+1)*s.columns))
	case 'P', '@':
		s.shift(x, n, final == '@')
	case 'L', 'M':
		if final == 'L' {
			n = -n
		}
		if s.y >= s.top {
			s.scroll(s.y, n)
		}
	case 'S':
		s.scroll(s.top, n)
	case 'T':
		s.scroll(s.top, -n)
	case 'r':
		s.top, s.bottom = min(n, s.rows)-1, min(number(1, s.rows), s.rows)
		s.moveTo(0, 0)
	case 's':
		s.savedX, s.savedY = s.x, s.y
	case 'u':
		s.x, s.y = s.savedX, s.savedY
	case 'n':
		if n == 6 {
			s.answers = fmt.Appendf(s.answers, "\x1b[%d;%dR", s.y+1, x+1)
		}
	case 'c':
		s.answers = append(s.answers, "\x1b[?62;22c"...)
	}
}

// private runs a control sequence whose parameters begin with ?, >, = or <.
func (s *screen) private(parameters string, final byte) {
	if parameters != "?1049" && parameters != "?1047" && parameters != "?47" {
		return
	}
	switch {
	case final == 'h' && s.main == nil:
		s.main, s.lines = s.lines, s.blank(s.rows)
		s.savedX, s.savedY = s.x, s.y
	case final == 'l' && s.main != nil:
		s.lines, s.main = s.main, nil
		s.x, s.y = s.savedX, s.savedY
	}
}

// erase clears cells, which are counted over the rows: with how 0 from the cursor to the end, with 1 from
// the beginning to the cursor, otherwise all.
func (s *screen) erase(how, cursor, begin, end int) {
	switch how {
	case 0:
		s.clear(cursor, end)
	case 1:
		s.clear(begin, cursor+1)
	case 2:
		s.clear(begin, end)
	}
}

func (s *screen) clear(from, to int) {
	for i := from; i < to; i++ {
		s.lines[i/s.columns][i%s.columns] = ' '
	}
}

// shift deletes n cells at x, or inserts as many.
func (s *screen) shift(x, n int, insert bool) {
	line := s.lines[s.y]
	n = min(n, s.columns-x)
	if insert {
		copy(line[x+n:], slices.Clone(line[x:]))
		s.clear(s.y*s.columns+x, s.y*s.columns+x+n)
		return
	}
	copy(line[x:], line[x+n:])
	s.clear((s.y+1)*s.columns-n, (s.y+1)*s.columns)
}
