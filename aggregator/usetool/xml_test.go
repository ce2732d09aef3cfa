package usetool

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func object(pairs ...string) string {
	var members []string
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, wirejson.Quote(pairs[i])+":"+wirejson.Quote(pairs[i+1]))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestAC21_ObsidianXML(t *testing.T) {
	got, err := RenderXML("localSearch", `{"salientTerms":["planning","review"],"query":"planning & review","k":8}`, EscapeLiteral)
	want := "<use_tool>\n<name>localSearch</name>\n<query>planning & review</query>\n" +
		"<salientTerms>[\"planning\",\"review\"]</salientTerms>\n</use_tool>"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	for _, c := range []struct{ name, arguments, want string }{
		{"getFileTree", `{"path":"/"}`, "<use_tool>\n<name>getFileTree</name>\n</use_tool>"},
		{"getCurrentTime", "", "<use_tool>\n<name>getCurrentTime</name>\n</use_tool>"},
		{"getCurrentTime", "null", "<use_tool>\n<name>getCurrentTime</name>\n</use_tool>"},
		{"readNote", `{"chunkIndex":0,"path":"a.md"}`, "<use_tool>\n<name>readNote</name>\n<notePath>a.md</notePath>\n<chunkIndex>0</chunkIndex>\n</use_tool>"},
		{"writeToFile", `{"confirmation":false,"path":"","content":null}`, "<use_tool>\n<name>writeToFile</name>\n<path></path>\n<confirmation>false</confirmation>\n</use_tool>"},
		{"mcp_x", `{"b":1.50,"a b":null,"a":{"k": [ ]},"b":2.50}`, "<use_tool>\n<name>mcp_x</name>\n<b>2.50</b>\n<a>{\"k\":[]}</a>\n</use_tool>"},
	} {
		if got, err := RenderXML(c.name, c.arguments, EscapeLiteral); err != nil || got != c.want {
			t.Errorf("%s %s: %v\n%s", c.name, c.arguments, err, got)
		}
	}
	for _, c := range []struct {
		name, arguments string
		want            error
	}{
		{"", "{}", ErrToolName}, {" ", "{}", ErrToolName}, {"f ", "{}", ErrToolName}, {"f</name>", "{}", ErrToolName},
		{"f", `{"a":`, ErrArguments}, {"f", `[1]`, ErrArguments}, {"f", `"text"`, ErrArguments}, {"f", "{}{}", ErrArguments},
		{"f", `{"a b":2}`, ErrParameter}, {"f", `{"use_tool":3}`, ErrParameter}, {"f", `{"":4}`, ErrParameter}, {"f", `{"a":1,"b>":""}`, ErrParameter},
	} {
		if got, err := RenderXML(c.name, c.arguments, EscapeLiteral); !errors.Is(err, c.want) || got != "" {
			t.Errorf("%q %q: %q %v", c.name, c.arguments, got, err)
		}
	}
}

func TestAC22_ParameterCanon(t *testing.T) {
	want := map[string]string{
		"localSearch": "query* salientTerms* timeRange", "webSearch": "query* chatHistory*",
		"getCurrentTime": "timezoneOffset", "getTimeInfoByEpoch": "epoch*", "getTimeRangeMs": "timeExpression*",
		"convertTimeBetweenTimezones": "time* fromOffset* toOffset*", "readNote": "notePath* chunkIndex",
		"writeToFile": "path* content* confirmation", "replaceInFile": "path* diff*", "getFileTree": "",
		"youtubeTranscription": "", "getTagList": "", "updateMemory": "statement*", "memoryTool": "memoryContent*",
		"startPomodoro": "interval", "indexTool": "",
	}
	canon := Canon()
	if len(canon) != len(want) {
		t.Errorf("%d tools, want %d", len(canon), len(want))
	}
	for _, tool := range canon {
		var params []string
		for _, p := range tool.Params {
			name := p.Name
			if p.Required {
				name += "*"
			}
			params = append(params, name)
		}
		if got := strings.Join(params, " "); got != want[tool.Name] {
			t.Errorf("%s: %s, want %s", tool.Name, got, want[tool.Name])
		}
	}
	if given, err := Shape("LocalSearch", `{"unknown":1}`); err != nil || len(given) != 1 {
		t.Errorf("the case of a name does not count: %v, %v", given, err)
	}
	// Every tool drops what it does not know and orders the rest.
	for _, tool := range canon {
		arguments := `{"unknown":1`
		var order []string
		for _, p := range slices.Backward(tool.Params) {
			arguments += "," + wirejson.Quote(p.Name) + ":0"
		}
		for _, p := range tool.Params {
			order = append(order, p.Name)
		}
		shaped, err := Shape(tool.Name, arguments+"}")
		must.OK(t, err)
		var got []string
		for _, p := range shaped {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, order) {
			t.Errorf("%s shaped to %v", tool.Name, got)
		}
	}
}

func TestAC23_ArgumentShaping(t *testing.T) {
	for _, c := range []struct{ name, arguments, want string }{
		{"localSearch", `{"timeRange":{"start" : 1},"query":"<a\u0062>"}`, `{"query":"<a\u0062>","timeRange":{"start" : 1}}`},
		{"localSearch", `{}`, `{}`},
		{"localSearch", ` {"salientTerms": [ "a" , 1e2 ] } `, `{"salientTerms":[ "a" , 1e2 ]}`},
		{"readNote", `{"path":"p"}`, `{"notePath":"p"}`},
		{"readNote", `{"notePath":"n","path":"p"}`, `{"notePath":"n"}`},
		{"readNote", `{"chunkIndex":null,"n\u006ftePath":"n"}`, `{"notePath":"n","chunkIndex":null}`},
		{"getTagList", `{"inline":true}`, `{}`},
		{"webSearch", `{"query":"1","query":"2"}`, `{"query":"2"}`},
		{"unknownTool", `{"z":1, "a":"\/" , "z":[ ]}`, `{"z":[ ],"a":"\/"}`},
		{"unknownTool", ``, `{}`},
	} {
		params, err := Shape(c.name, c.arguments)
		members := make([]string, len(params))
		for i, p := range params {
			members[i] = wirejson.Quote(p.Name) + ":" + p.Value
		}
		if got := "{" + strings.Join(members, ",") + "}"; err != nil || got != c.want {
			t.Errorf("%s %s: %s %v, want %s", c.name, c.arguments, got, err, c.want)
		}
	}
	for _, arguments := range []string{"{", "[]", "7", "{}x", "\x00"} {
		if got, err := Shape("f", arguments); !errors.Is(err, ErrArguments) || got != nil {
			t.Errorf("%q: %v %v", arguments, got, err)
		}
	}
}

func TestAC24_EscapesAndArrays(t *testing.T) {
	const arguments = `{"query":"a < b && c > d","salientTerms":["<x>","R&D",1],"timeRange":{"k":"</use_tool>"}}`
	array, tail := `["\u003cx\u003e","R\u0026D",1]`, `{"k":"\u003c/use_tool\u003e"}`
	for escaping, query := range map[Escaping]string{
		EscapeLiteral:  "a < b && c > d",
		EscapeEntities: "a &lt; b &amp;&amp; c &gt; d",
	} {
		got, err := RenderXML("localSearch", arguments, escaping)
		want := "<use_tool>\n<name>localSearch</name>\n<query>" + query + "</query>\n<salientTerms>" + array +
			"</salientTerms>\n<timeRange>" + tail + "</timeRange>\n</use_tool>"
		if err != nil || got != want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
	for text, want := range map[string]string{
		`<br> <a href="u">x</a> & "q" 'p'`:  `<br> <a href="u">x</a> & "q" 'p'`,
		"see <b>this</b>":                   "see <b>this</b >",
		"</b> before <b>":                   "</b> before <b>",
		"<b ><b>x</b>":                      "<b ><b>x</b  >",
		"<b >x</b >":                        "<b >x</b  >",
		"ends</query> and </use_tool> here": "ends</query > and </use_tool > here",
		"1 </ 2 <b>":                        "1 </ 2 <b>",
	} {
		got, err := RenderXML("webSearch", object("query", text), EscapeLiteral)
		if err != nil || got != "<use_tool>\n<name>webSearch</name>\n<query>"+want+"</query>\n</use_tool>" {
			t.Errorf("%s: %v\n%s", text, err, got)
		}
	}
}

// closerSpaces matches what a closing tag may have gained.
var closerSpaces = regexp.MustCompile(` +>`)

// checkReadBack renders a call and reads the block with the client's grammar.
func checkReadBack(t testing.TB, name string, arguments map[string]any) {
	t.Helper()
	text, err := json.Marshal(arguments)
	must.OK(t, err)
	block, err := RenderXML(name, string(text), EscapeLiteral)
	must.OK(t, err)
	calls := clientRead("before " + block + " after")
	if len(calls) != 1 || calls[0].name != name || len(calls[0].params) != len(arguments) {
		t.Fatalf("%s\nreads as %+v", block, calls)
	}
	ownName, ownArguments, err := Parse(block)
	var own map[string]any
	if err != nil || ownName != name || json.Unmarshal([]byte(ownArguments), &own) != nil {
		t.Fatalf("%s\nreads as %s %v", block, ownArguments, err)
	}
	for key, value := range arguments {
		checkValue(t, block, value, calls[0].params[key])
		checkValue(t, block, value, own[key])
	}
}

// checkValue compares a value with what came back. Arrays and objects are the same. So is text, but
// for the white space around it and the spaces that closing tags gained. Text that is an array or
// an object in JSON comes back as that: the client's grammar has no other way to write one.
func checkValue(t testing.TB, block string, sent, got any) {
	t.Helper()
	text, isText := sent.(string)
	if !isText {
		if !reflect.DeepEqual(sent, got) {
			t.Fatalf("%s\nsent %#v, got %#v", block, sent, got)
		}
		return
	}
	text = strings.TrimSpace(text)
	var container any
	if len(text) > 0 && (text[0] == '[' || text[0] == '{') && !clientAny.MatchString(text) &&
		json.Unmarshal([]byte(text), &container) == nil {
		if !reflect.DeepEqual(container, got) {
			t.Fatalf("%s\nsent %#v, got %#v", block, container, got)
		}
		return
	}
	back, ok := got.(string)
	if !ok {
		t.Fatalf("%s\nsent %q, got %#v", block, text, got)
	}
	if strings.Contains(text, "</") {
		text, back = closerSpaces.ReplaceAllString(text, ">"), closerSpaces.ReplaceAllString(back, ">")
	}
	if text != back {
		t.Fatalf("%s\nsent %q, got %q", block, text, back)
	}
}

// pieces make texts that are hard to write: all the markup that means something.
var pieces = []string{
	"<", ">", "&", "/", "\"", "'", " ", "\n", "a", "ü", "😀", "\x00", "\\", "&amp;", "<![CDATA[", "]]>", "</", "<br>", "<br/>",
	"<b>", "</b>", "<b >", "</b >", "<item>", "</item>", "<query>", "</query>", "<diff>", "</diff>", "<path>", "</path>", "<name>",
	"</name>", "<use_tool>", "</use_tool>", "<args>", "</args>", `<a href="u">`, "</a>", "[", "]", "{", "}", "1", ",", "null",
}

func randomText(r *rand.Rand) string {
	var out strings.Builder
	for range r.IntN(12) {
		out.WriteString(pieces[r.IntN(len(pieces))])
	}
	return out.String()
}

func randomValue(r *rand.Rand, depth int) any {
	switch kind := r.IntN(8); {
	case kind < 4 || depth == 0:
		return randomText(r)
	case kind < 6:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = randomLeaf(r, depth-1)
		}
		return list
	default:
		nested := map[string]any{}
		for range r.IntN(4) {
			nested[randomText(r)] = randomLeaf(r, depth-1)
		}
		return nested
	}
}

func randomLeaf(r *rand.Rand, depth int) any {
	switch r.IntN(5) {
	case 0:
		return float64(r.IntN(1000)) / 8
	case 1:
		return r.IntN(2) == 0
	case 2:
		return nil
	}
	return randomValue(r, depth)
}

func TestAC24_ReadBackByTheClient(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 8))
	for range 4000 {
		checkReadBack(t, "replaceInFile", map[string]any{"path": randomValue(r, 2), "diff": randomValue(r, 3)})
	}
}

// FuzzXML: what is written is read back by the client's grammar.
func FuzzXML(f *testing.F) {
	f.Add("x", `["<b>"]`)
	f.Fuzz(func(t *testing.T, path, diff string) {
		path = strings.ToValidUTF8(path, "�")
		var value any
		if json.Unmarshal([]byte(diff), &value) != nil {
			value = strings.ToValidUTF8(diff, "�")
		}
		switch value.(type) {
		case string, []any, map[string]any:
			checkReadBack(t, "replaceInFile", map[string]any{"path": path, "diff": value})
		}
		if block, err := RenderXML(path, diff, EscapeEntities); err == nil && !strings.HasPrefix(block, "<use_tool>\n<name>") {
			t.Fatalf("block %q", block)
		}
	})
}

// FuzzBlockOfCall: whatever a call is made of, its block is one that the client
// reads as that call with those arguments and no others, or there is none.
func FuzzBlockOfCall(f *testing.F) {
	f.Add("find", `{"name":"x","item":"</find>","args":{"a":"<b>"}}`)
	f.Add("readNote", `{"path":"a","notePath":"b","more":"c"}`)
	f.Fuzz(func(t *testing.T, name, arguments string) {
		if !utf8.ValidString(name) || !utf8.ValidString(arguments) {
			return
		}
		block, err := RenderXML(name, arguments, EscapeLiteral)
		if err != nil {
			return
		}
		params, err := Shape(name, arguments)
		must.OK(t, err)
		want := map[string]bool{}
		for _, p := range params {
			if p.Value != "null" {
				want[p.Name] = true
			}
		}
		calls := clientRead("before " + block + " after")
		if len(calls) != 1 || calls[0].name != name || len(calls[0].params) != len(want) {
			t.Fatalf("%s %s: %s\nreads as %+v", name, arguments, block, calls)
		}
		for read := range calls[0].params {
			if !want[read] {
				t.Fatalf("%s %s: %s\nhas %q", name, arguments, block, read)
			}
		}
	})
}

// The grammar of the client that reads the blocks, stated again for the tests: in
// another way than the package's own reader, by regular expressions over the whole
// text, and as willing to see a tag as a reader can be.

var (
	clientBlock = regexp.MustCompile(`(?s)<use_tool>(.*?)(?:</use_tool>|$)`)
	clientName  = regexp.MustCompile(`(?s)<name>(.*?)</name>`)
	clientTag   = regexp.MustCompile(`<([^<>/][^<>]*)>`)
	clientAny   = regexp.MustCompile(`<[^<>]+>`)
)

// clientCall is a block as the client understands it.
type clientCall struct {
	name   string
	params map[string]any
}

// clientRead reads all blocks of a text. A block without a name is none.
func clientRead(text string) []clientCall {
	var calls []clientCall
	for _, m := range clientBlock.FindAllStringSubmatch(text, -1) {
		name := clientName.FindStringSubmatchIndex(m[1])
		if name == nil || strings.TrimSpace(m[1][name[2]:name[3]]) == "" {
			continue
		}
		call := clientCall{name: strings.TrimSpace(m[1][name[2]:name[3]]), params: map[string]any{}}
		for _, p := range clientPairs(m[1][name[1]:]) {
			call.params[p[0]] = clientValue(p[1])
		}
		calls = append(calls, call)
	}
	return calls
}

// clientPairs finds what stands between equal tags, left to right.
func clientPairs(text string) [][2]string {
	var pairs [][2]string
	for {
		m := clientTag.FindStringSubmatchIndex(text)
		if m == nil {
			return pairs
		}
		tag, rest := text[m[2]:m[3]], text[m[1]:]
		value, after, closed := strings.Cut(rest, "</"+tag+">")
		if !closed {
			text = rest
			continue
		}
		pairs = append(pairs, [2]string{tag, value})
		text = after
	}
}

func clientValue(text string) any {
	text = strings.TrimSpace(text)
	if !clientAny.MatchString(text) {
		var value any
		container := strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") ||
			strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}")
		if container && json.Unmarshal([]byte(text), &value) == nil {
			return value
		}
		return text
	}
	pairs := clientPairs(text)
	if len(pairs) == 0 {
		return text
	}
	var list []any
	nested := map[string]any{}
	for _, p := range pairs {
		if p[0] == "item" {
			list = append(list, clientValue(p[1]))
		}
		nested[p[0]] = clientValue(p[1])
	}
	if list != nil {
		return list
	}
	return nested
}
