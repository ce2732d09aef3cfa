package recorder

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// transcripts are the lines of the recordings of the app-server.
func transcripts(t testing.TB) map[string][]Entry {
	files, err := filepath.Glob("../../testdata/transcripts/*.jsonl")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	all := make(map[string][]Entry)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = append([]Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}}, entries...)
	}
	return all
}

// TestVocabulary checks that the words of tags are those on which the shape of calls depends.
func TestVocabulary(t *testing.T) {
	want := map[string]bool{"name": true, "args": true, "item": true}
	for _, tool := range usetool.Canon() {
		want[tool.Name] = true
		for _, p := range tool.Params {
			want[p.Name] = true
			if p.Alias != "" {
				want[p.Alias] = true
			}
		}
	}
	got := make(map[string]bool)
	for w, uses := range vocabulary {
		if uses&word != 0 && privateKeys.MatchString(w) {
			t.Errorf("%s is a private key", w)
		}
		if uses&tag != 0 {
			got[w] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the tags are %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestRedactTranscripts checks that masked lines have the structure of the lines that were recorded: the same keys
// and values as far as the vocabulary has them, and texts of the same size.
func TestRedactTranscripts(t *testing.T) {
	original := transcripts(t)
	for name, entries := range transcripts(t) {
		redact(entries, false)
		for i, e := range entries {
			was := original[name][i].Message
			if !json.Valid(e.Message) || len(e.Message) != len(was) {
				t.Fatalf("%s: %s became %s", name, was, e.Message)
			}
			for _, path := range []string{"method", "params.item.type", "params.turn.status", "params.error.codexErrorInfo", "params.usage.totalTokens", "params.item.role"} {
				if got, want := at(e.Message, path), at(was, path); got != want {
					t.Errorf("%s: %s of %s became %s", name, path, was, got)
				}
			}
		}
	}
}

// at returns the JSON of the value at a path, or nothing.
func at(text []byte, path string) string {
	s := wirejson.NewScanner(text, 100)
	if !s.Find(strings.Split(path, ".")...) {
		return ""
	}
	return s.Value()
}

// TestRedactDeltas checks that the deltas of an item are masked as its text is, wherever that is cut.
func TestRedactDeltas(t *testing.T) {
	text := `A secret Straße 😀\nwith <use_tool><name>localSearch<\/name> and \"1e5\" \\\\n`
	quoted := json.RawMessage(`"` + text + `"`)
	for size := 1; size < 12; size++ {
		entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}}
		for part := range cut(text, size) {
			entries = append(entries, Entry{Dir: FromServer, Message: json.RawMessage(`{"method":"item/agentMessage/delta","params":{"itemId":"m","delta":"` + part + `"}}`)})
		}
		entries = append(entries, Entry{Dir: FromServer, Message: json.RawMessage(`{"method":"item/completed","params":{"item":{"id":"m","text":` + string(quoted) + `}}}`)})
		redact(entries, false)
		joined := ""
		for _, e := range entries[1 : len(entries)-1] {
			joined += inner(at(e.Message, "params.delta"))
		}
		whole := inner(at(entries[len(entries)-1].Message, "params.item.text"))
		if joined != whole || len(whole) != len(text) || strings.Contains(whole, "secret") || !strings.Contains(whole, "<use_tool><name>localSearch<") {
			t.Errorf("with %d bytes a delta: %s became %s", size, text, joined)
		}
	}
}

// inner returns a JSON string without its quotes.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// cut yields pieces of a JSON string's inside, of about size bytes.
func cut(text string, size int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for from := 0; from < len(text); {
			to := from
			for to < len(text) && to-from < size {
				_, n := utf8.DecodeRuneInString(text[to:])
				if strings.HasPrefix(text[to:], `\u`) {
					n = 6
				} else if text[to] == '\\' {
					n = 2
				}
				to += n
			}
			if !yield(text[from:to]) {
				return
			}
			from = to
		}
	}
}

// TestShape checks that the shape of an answer is the same for masked texts, and however the answer is cut.
func TestShape(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"secret", "é", "漢字", "😀", " ", "\n", `"`, `\`, "\\n", "true", "12", "0.5e7", "<use_tool>", "<us", "</", "system", "\u2028", "{", "x", "\x01"}
	for range 3000 {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		raw := wirejson.AppendString(nil, text.String())
		in := []Entry{{Dir: FromClient, Message: json.RawMessage(`{}`)}, {Dir: FromServer, Message: json.RawMessage(`{"params":{"text":` + string(raw) + `}}`)}}
		redact(in, false)
		var masked string
		if err := json.Unmarshal([]byte(at(in[1].Message, "params.text")), &masked); err != nil {
			t.Fatalf("%s became %s: %v", raw, in[1].Message, err)
		}
		want := shapeOf(string(raw), 0)
		if got := shapeOf(string(wirejson.AppendString(nil, masked)), 0); got != want {
			t.Fatalf("the shape of %s is %s, that of %q %s", raw, want, masked, got)
		}
		if got := shapeOf(string(raw), 1+random.IntN(len(raw))); got != want {
			t.Fatalf("the shape of %s is %s, in two pieces %s", raw, want, got)
		}
	}
}

// shapeOf returns the shape of a JSON string in an event that is written in two pieces.
func shapeOf(raw string, size int) string {
	event := `data: {"type":"x","delta":` + raw + "}\n\n"
	size = min(size, len(event))
	entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{}`)}, {Dir: ToClient, Text: event[:size]}, {Dir: ToClient, Text: event[size:]}}
	redact(entries, false)
	return entries[1].Text + entries[2].Text
}

// FuzzRedact plants a secret everywhere in a recording, and looks for it in what is left.
func FuzzRedact(f *testing.F) {
	for _, secret := range []string{"hunter2-Zq9w", "größe-漢字-42", "ada@example.org", "/home/ada/notes", "sk-proj-a1B2c3D4e5F6", "41000234567", `a\b"c`, "<use_tool>Geheim", "two Words here", "\\u0041bc\\nSecret"} {
		f.Add(secret, uint8(3))
	}
	f.Fuzz(func(t *testing.T, secret string, size uint8) {
		entries := planted(secret, int(size))
		redact(entries, false)
		text := format(entries)
		if _, err := Parse(text); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		kept := secretParts(secret)
		for _, part := range kept {
			if found := bytes.Index(text, []byte(part)); found >= 0 {
				t.Fatalf("%q of %q is in %s", part, secret, text[max(0, found-100):min(len(text), found+100)])
			}
		}
		if len(kept) == 0 {
			return
		}
		withTexts := planted(secret, int(size))
		redact(withTexts, true)
		for _, e := range withTexts {
			for _, private := range []string{"password", "token", "authorization", "cwd"} {
				if found := wirejson.Quote(private) + ":" + wirejson.Quote(secret); strings.Contains(string(e.Message), found) {
					t.Fatalf("with texts, %s is in %s", found, e.Message)
				}
			}
		}
	})
}

// TestRedactWithTexts checks what stays and what does not if texts are recorded.
func TestRedactWithTexts(t *testing.T) {
	entries := planted("Geheimnis", 3)
	redact(entries, true)
	text := string(format(entries))
	for _, want := range []string{`"content":"Geheimnis"`, `"type":"text","text":"Geheimnis"`, `{\"query\":\"Geheimnis\"`, `data: {\"delta\":\"Geheimnis\"`, `401: Geheimnis`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, not := range []string{`"baseInstructions":"Geheimnis"`, `"path":"Geheimnis"`, `"cwd":"Geheimnis"`, `"password":"Geheimnis"`, `http://Geheimnis`, `/Geheimnis`, `"User-Agent":"Geheimnis"`, `"error":"Geheimnis"`} {
		if strings.Contains(text, not) {
			t.Errorf("%s was not masked", not)
		}
	}
}

// TestRedactRules checks what stays and what does not, rule by rule.
func TestRedactRules(t *testing.T) {
	png := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" + strings.Repeat("Geheimnis", 4)
	for name, c := range map[string]struct {
		Entry
		stays, not []string
	}{
		"a word":         {Entry{Dir: FromClient, Message: json.RawMessage(`{"role":"system","content":"system user"}`)}, []string{`"role":"system"`, `"content"`}, []string{"system user"}},
		"a model":        {Entry{Dir: FromClient, Message: json.RawMessage(`{"model":"gpt-5.6-sol","parent":"gpt-5.6-sol"}`)}, []string{`"model":"gpt-5.6-sol"`}, []string{`"parent"`, `:"gpt-5.6-sol"}`}},
		"another model":  {Entry{Dir: FromClient, Message: json.RawMessage(`{"model":"gpt-5-acme-geheim"}`)}, []string{`"model":"`}, []string{"acme", "geheim"}},
		"tokens":         {Entry{Dir: FromClient, Message: json.RawMessage(`{"context":[7654321,1234567],"index":12}`)}, []string{`"context":[`, `"index":12`}, []string{"7654321", "1234567"}},
		"a path":         {Entry{Dir: FromServer, Message: json.RawMessage(`{"result":{"path":"/Users/ada/x","id":"resp_68ab"}}`)}, []string{`"path":"/`, `"id":"resp_`}, []string{"ada", "Users", "68ab"}},
		"numbers":        {Entry{Dir: FromServer, Message: json.RawMessage(`{"index":1234567,"pin":7654321,"token":7654321,"usage":{"totalTokens":89}}`)}, []string{"1234567", `"totalTokens":89`}, []string{"7654321", "pin"}},
		"a list":         {Entry{Dir: FromServer, Message: json.RawMessage(`{"pin":[{"index":1},7654321]}`)}, []string{`"index":1}`}, []string{"7654321"}},
		"white space":    {Entry{Dir: FromClient, Message: json.RawMessage("{\"index\":12,\"pin\" \t         \n:7654321,\"pin\":7654322}")}, []string{`"index":12`}, []string{"765432", "pin"}},
		"arguments":      {Entry{Dir: FromServer, Message: json.RawMessage(`{"arguments":{"index":1234567,"query":{"status":7654321}},"index":12}`)}, []string{`"query"`, `"index":12}`}, []string{"1234567", "7654321", "status"}},
		"JSON in a text": {Entry{Dir: FromServer, Message: json.RawMessage(`{"arguments":"{\"query\":\"a\\nb c\",\"x\":true,\"n\":1.5e+7}"}`)}, []string{`{\"query\":\"`, `\\n`, ":true,", "e+"}, []string{"b c"}},
		"escapes":        {Entry{Dir: FromClient, Message: json.RawMessage(`{"content":"\u0053\u00e9\ud83d\ude00 \u000a\u0020\u2028"}`)}, []string{`\u4e2d\u4e2d\u4e2d\u4e2d \u000a\u0020\u2028`}, nil},
		"other letters":  {Entry{Dir: FromClient, Message: json.RawMessage(`{"content":"ß漢😀 ¿"}`)}, []string{`"é中𝐱 é"`}, nil},
		"a failure":      {Entry{Dir: FromServer, Message: json.RawMessage(`{"method":"error","params":{"error":{"message":"Status 429 from 10.1.2.3: try again in 11ms or 41000234567s, 4291"}}}`)}, []string{"Status 429 from ", ": try again in 11ms or "}, []string{"10.1.2.3", "41000234567", "4291"}},
		"an image":       {Entry{Dir: FromClient, Message: json.RawMessage(`{"url":"data:image/png;base64,` + png + `"}`)}, []string{"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"}, []string{"Geheimnis"}},
		"no image":       {Entry{Dir: FromClient, Message: json.RawMessage(`{"url":"data:Geheimnis;base64,` + png + `"}`)}, nil, []string{"Geheimnis"}},
		"a sealed text":  {Entry{Dir: FromClient, Message: json.RawMessage(`{"encrypted_content":"codex-sealed-1.Geheimnis"}`)}, []string{`"codex-sealed-1.`}, []string{"Geheimnis"}},
		"a note":         {Entry{Dir: Noted, Note: "x", Message: json.RawMessage(`{"request_id":"Abc-1","error":"dial /run/ada: refused"}`)}, []string{`"request_id":"Abc-1"`, "refused"}, []string{"ada"}},
		"an event":       {Entry{Dir: ToClient, Text: "event: response.created\ndata: {\"type\":\"message\",\"index\":12}\n\ndata: [DONE]\n\n: keepalive\n\n"}, []string{"event: response.created\ndata: {\"type\":\"xxxxxxx\",\"index\":12}\n\ndata: [DONE]\n\n: keepalive"}, nil},
		"half an event":  {Entry{Dir: ToClient, Text: "data: {\"index\":12\n7654321 Geheimnis"}, []string{`"index":12`}, []string{"7654321", "Geheimnis"}},
	} {
		entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{}`)}, c.Entry}
		redact(entries, false)
		got := string(entries[1].Message) + entries[1].Text
		for _, want := range c.stays {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s has no %s", name, got, want)
			}
		}
		for _, not := range c.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: %s has %s", name, got, not)
			}
		}
	}
}

// TestPseudonyms checks that different words have different pseudonyms.
func TestPseudonyms(t *testing.T) {
	var body strings.Builder
	for i := range 400 {
		fmt.Fprintf(&body, "b%c%c ", 'a'+i%20, 'a'+i/20)
	}
	entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{}`)}, {Dir: FromClient, Text: body.String()}}
	redact(entries, false)
	words := strings.Fields(entries[1].Text)
	slices.Sort(words)
	if n := len(slices.Compact(words)); n < 395 {
		t.Errorf("400 words have %d pseudonyms", n)
	}
}

// TestRedactLongLine checks that of a long line to the app-server only its size is left.
func TestRedactLongLine(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":7,"method":"thread/inject_items","params":{"items":["` + strings.Repeat("a", maxLine) + `"]}}`: `{"id":7,"method":"thread/inject_items","cut":262207}`,
		`{"result":"` + strings.Repeat("a", maxLine) + `"}`:                                                   `{"id":null,"method":null,"cut":262157}`,
	} {
		entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{}`)}, {Dir: ToServer, Message: json.RawMessage(line)}}
		redact(entries, true)
		if got := string(entries[1].Message); got != want {
			t.Errorf("%.80s… became %.80s, want %s", line, got, want)
		}
	}
}

// secretParts returns the runs of letters and of digits of a secret that are so long that none is there by chance,
// and that are no words of the vocabulary.
func secretParts(secret string) (parts []string) {
	for from := 0; from < len(secret); from++ {
		is := isLetter
		if isDigit(secret[from]) {
			is = isDigit
		}
		to := from
		for to < len(secret) && is(secret[to]) {
			to++
		}
		run := secret[from+tagPart([]byte(secret), from) : max(to, from+tagPart([]byte(secret), from))] // what may begin <use_tool stays
		pseudonym := strings.Trim(strings.ToLower(run), letters) == ""
		if len(run) >= 6 && !pseudonym && vocabulary[run]|vocabulary[strings.ToLower(run)] == 0 && strings.Trim(run, "0x") != "" {
			parts = append(parts, run)
		}
		from = max(from, to-1)
	}
	return parts
}

// planted returns a recording with a secret in all its places.
func planted(secret string, size int) []Entry {
	q := string(wirejson.AppendString(nil, secret))
	inner := inner(q)
	arguments := string(wirejson.AppendString(nil, `{"query":`+q+`,`+q+`:1}`))
	b64 := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(secret+" ", 40)))
	line := func(dir Dir, format string, args ...any) Entry {
		return Entry{Dir: dir, Message: json.RawMessage(fmt.Sprintf(format, args...))}
	}
	head, _ := json.Marshal(Head{Version: 1, RequestID: "req-1", Time: time.Unix(0, 0), Method: "POST", Path: "/v1/responses/" + secret, Header: map[string]string{"User-Agent": secret, "X-Codex-" + secret: secret}})
	entries := []Entry{
		{Dir: FromClient, Message: head},
		line(FromClient, `{"model":%[1]s,"user":%[1]s,%[1]s:{"a":%[1]s},"metadata":{%[1]s:%[1]s,"password":%[1]s,"token":%[1]s},"messages":[{"role":"user","content":%[1]s},{"role":%[1]s,"content":[{"type":%[1]s,"text":%[1]s,%[1]s:[%[1]s]}]},{"role":"assistant","tool_calls":[{"id":%[1]s,"function":{"name":%[1]s,"arguments":%[2]s}}]}]}`, q, arguments),
		line(FromClient, `{"input":[{"type":"function_call","call_id":%[1]s,"arguments":%[2]s},{"type":"input_image","image_url":"data:image/png;base64,%[3]s"}],"tools":[{"name":%[1]s,"input_schema":{"properties":{%[1]s:{"enum":[%[1]s]}}}}],"authorization":%[1]s}`, q, arguments, b64),
		{Dir: FromClient, Text: "no JSON: " + secret},
		line(ToServer, `{"id":1,"method":"thread/start","params":{"model":%[1]s,"cwd":%[1]s,"baseInstructions":%[1]s,"config":{%[1]s:%[1]s}}}`, q),
		line(ToServer, `{"id":2,"method":"turn/start","params":{"threadId":%[1]s,"input":[{"type":"text","text":%[1]s}],"effort":%[1]s}}`, q),
		line(FromServer, `{"id":1,"result":{"thread":{"id":%[1]s,"path":%[1]s},"instructionSources":[%[1]s]}}`, q),
		line(FromServer, `{"method":"item/tool/call","id":%[1]s,"params":{"tool":%[1]s,"arguments":{"query":%[1]s,%[1]s:{"index":[%[1]s]}}}}`, q),
		line(FromServer, `{"method":"error","params":{"error":{"message":"unexpected status 401: %[1]s, url: http://%[1]s/","codexErrorInfo":%[2]s,"additionalDetails":%[2]s}}}`, inner, q),
		line(FromServer, `{"method":"warning","params":{"message":%[1]s}}`, q),
		line(FromServer, `{"method":"rawResponseItem/completed","params":{"item":{"type":"function_call","id":%[1]s,"name":%[1]s,"arguments":%[2]s,"result":"%[3]s"}}}`, q, arguments, b64),
		line(ToClient, `{"status":200,"header":{%[1]s:%[1]s}}`, q),
		{Dir: Noted, Note: "started", Message: json.RawMessage(`{"error":` + q + `,"thread":` + q + `,` + q + `:` + q + `}`)},
		{Dir: ToClient, Text: "event: " + strings.ReplaceAll(secret, "\n", " ") + "\ndata: {\"delta\":" + q + "," + q + ":[" + q + "],\"input\":{" + q + ":1}}\n\n" + secret},
		{Dir: ToClient, Text: secret + q},
		line(End, `[{"code":%[1]s,"model":%[1]s,"user":%[1]s}]`, q),
	}
	for part := range cut(inner, 1+size%9) {
		entries = append(entries, line(FromServer, `{"method":"item/agentMessage/delta","params":{"itemId":"m","delta":"%s"}}`, part))
	}
	return entries
}

// TestRedactSpeed checks that redaction takes a time linear in the size of a recording, whatever it holds.
func TestRedactSpeed(t *testing.T) {
	var text strings.Builder
	for i := range 40000 {
		fmt.Fprintf(&text, "word%d and some %x text, ", i, i*7919)
	}
	for name, content := range map[string]string{"words": text.String(), "one run": strings.Repeat("a", 1<<20), "backslashes": strings.Repeat(`\\`, 1<<19), "digits": strings.Repeat("12 ", 1<<18), "base64": strings.Repeat("ab1/", 1<<18)} {
		entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{}`)}, {Dir: FromClient, Message: json.RawMessage(`{"content":"` + content + `"}`)}}
		began := time.Now()
		redact(entries, false)
		took := time.Since(began)
		t.Logf("%s: %v for %d bytes", name, took, len(content))
		if took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// TestRedactIDs checks that a thread has the same id in all lines, also in one about a failure, where some words and
// numbers stay.
func TestRedactIDs(t *testing.T) {
	line := func(method string) Entry {
		return Entry{Dir: FromServer, Message: json.RawMessage(`{"method":"` + method + `","params":{"threadId":"01a-4a02-401-to","message":"no"}}`)}
	}
	entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}, line("turn/started"), line("error")}
	redact(entries, false)
	id := func(e Entry) string { return string(regexp.MustCompile(`"threadId":"[^"]*"`).Find(e.Message)) }
	if one, other := id(entries[1]), id(entries[2]); one != other {
		t.Errorf("%s, and %s in an error", one, other)
	}
}

// BenchmarkRedact redacts and formats a recording of 1,000 deltas, as of a stream of chat completions.
func BenchmarkRedact(b *testing.B) {
	const n = 1000
	words := []string{" the", " house", " at", " its", " size", ",", " then", " more", "\\n", " 42"}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}}
		for i := range n {
			word := words[i%len(words)]
			entries = append(entries,
				Entry{Dir: FromServer, Message: fmt.Appendf(nil, `{"method":"item/agentMessage/delta","params":{"threadId":"019aa5b2-1f1c-7d30-8c7a-5a2f6e9d1b3c","turnId":"019aa5b2-2a4d-7f01-9e1b-0c1d2e3f4a5b","itemId":"msg_0123456789abcdef0123456789abcdef0123456789abcdef","delta":"%s"},"emittedAtMs":17960302%05d}`, word, i)},
				Entry{Dir: Read, Lines: i + 1},
				Entry{Dir: ToClient, Text: fmt.Sprintf("data: {\"id\":\"chatcmpl-ABCDEFGHIJKLMNOPQRSTUVWXYZ\",\"object\":\"chat.completion.chunk\",\"created\":1796030208,\"model\":\"gpt-6.1-sol\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}]}\n\n", word)})
		}
		entries = append(entries, Entry{Dir: End})
		b.StartTimer()
		redact(entries, false)
		format(entries)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
}

// TestRedactSameDeltas checks that a delta is masked, too, if the one before it is the same.
func TestRedactSameDeltas(t *testing.T) {
	entries := []Entry{{Dir: FromClient, Message: json.RawMessage(`{"version":1}`)}}
	for at := range 3 {
		entries = append(entries, Entry{Dir: FromServer, Message: fmt.Appendf(nil, `{"method":"item/agentMessage/delta","params":{"itemId":"m","delta":"Half "},"emittedAtMs":%d}`, at)})
	}
	redact(entries, false)
	if text := string(format(entries)); strings.Contains(text, "Half") {
		t.Error(text)
	}
}
