package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestLoadSaysWhatIsWrong checks what is said of files that are no recordings, or no longer.
func TestLoadSaysWhatIsWrong(t *testing.T) {
	testdata := filepath.Join("..", "..", "..", "testdata")
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{testdata}, path...)...))
		must.OK(t, err)
		return string(text)
	}
	whole := read("recordings", "chat-stream.jsonl")
	lines := strings.SplitAfter(whole, "\n")
	with := func(line int, old, made string) string {
		changed := strings.Replace(lines[line-1], old, made, 1)
		if changed == lines[line-1] {
			t.Fatalf("line %d has no %s", line, old)
		}
		return strings.Join(lines[:line-1], "") + changed + strings.Join(lines[line:], "")
	}
	const noHead = "the file is no recording of a request: its first line has no head with a version"
	for name, test := range map[string]struct{ text, want string }{
		"a recording":                 {whole, ""},
		"with other line ends":        {strings.ReplaceAll(whole, "\n", "\r\n") + "\r\n", ""},
		"an empty file":               {"\n", "the file is empty"},
		"a text":                      {read("recordings", "README.md"), noHead},
		"a log":                       {`{"level":"info","msg":"x"}`, noHead},
		"a recording of a turn alone": {read("transcripts", "text.jsonl"), noHead},
		"without its first line":      {strings.Join(lines[1:], ""), noHead},
		"of a newer version":          {with(1, `"version":1,`, `"version":2,"path":[],`), "the file has version 2 of the format, and this replay knows version 1: use that of the release that made the file"},
		"no path":                     {with(1, `"path":"/`, `"path":"/%z`), `the file is damaged: its head has no valid request: parse "http://replay/%zv1/chat/completions": invalid URL escape "%zv"`},
		"far in the future":           {with(1, `"time":"2000`, `"time":"9999`), "the file is damaged: its head has a time in the year 9999"},
		"cut within a line":           {strings.Join(lines[:6], "") + lines[6][:20], "the file is cut off within its last line"},
		"cut behind a line":           {strings.Join(lines[:6], ""), "the file is cut off: its last line is not the end of the request"},
		"without a quote":             {with(5, `"dir"`, `"dir`), "the file is damaged: line 5 of the recording: invalid character 'n' after object key"},
		"an unknown entry":            {with(5, `"note"`, `"not"`), `the file is damaged: line 5 of the recording: unknown dir "not"`},
	} {
		entries, err := Load([]byte(test.text))
		switch {
		case test.want == "" && (err != nil || len(entries) != len(lines)-1):
			t.Errorf("%s: %d entries, %v", name, len(entries), err)
		case test.want != "" && (err == nil || err.Error() != test.want):
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}
