package clients

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/browser"
	"github.com/caddy-codex/caddy-codex/internal/test/demomodel"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// The screens on which the page is shown.
var (
	desktop = browser.Screen{Width: 1280, Height: 800}
	dark    = browser.Screen{Width: 1280, Height: 800, Dark: true}
	phone   = browser.Screen{Width: 360, Height: 740, Phone: true}
)

// idle is true while no request runs.
const idle = `!document.querySelector('#send').hidden`

// openPage opens the page of a site and waits until it knows the models.
func openPage(t *testing.T, s *e2e.Site, screen browser.Screen) *browser.Tab {
	t.Helper()
	tab := browser.Open(t, screen)
	tab.Go(s.URL + "/codex/")
	tab.WaitText("#health", "Ready")
	tab.WaitFor(`document.querySelector('#model').options.length > 2`)
	return tab
}

// openWithKey opens the page of a site that asks for a key, types it, and waits for the models.
func openWithKey(t *testing.T, s *e2e.Site, key string) *browser.Tab {
	t.Helper()
	tab := browser.Open(t, desktop)
	tab.Go(s.URL + "/codex/")
	tab.WaitFor(`document.querySelector('#key-dialog').open`)
	tab.Type(key + kb.Enter)
	tab.WaitFor(`document.querySelector('#model').options.length > 2`)
	return tab
}

// say sends a message and waits for the end of its answer.
func say(tab *browser.Tab, text string) {
	tab.Fill("#prompt", text)
	tab.Click("#send")
	tab.WaitFor(idle)
}

// checkQuiet checks that the browser had nothing to complain about, such as a violation of
// the policy, and that the page has asked its own site only.
func checkQuiet(t *testing.T, s *e2e.Site, tab *browser.Tab, handled ...int) {
	t.Helper()
	for _, problem := range tab.Problems(handled...) {
		t.Errorf("the browser says: %s", problem)
	}
	for _, url := range tab.Requests() {
		if !strings.HasPrefix(url, s.URL+"/") && !strings.HasPrefix(url, "data:image/") {
			t.Errorf("the page asks %s", url)
		}
	}
}

// TestPage uses the page of one site in several ways, each on a tab of its own.
func TestPage(t *testing.T) {
	s := e2e.NewSite(t, "page on")
	for _, use := range []struct {
		name string
		test func(*testing.T, *e2e.Site)
	}{
		{"chat", testPageChat},
		{"answers", testPageAnswers},
		{"ideas", testPageIdeas},
		{"obsidian", testPageObsidian},
		{"image", testPageImage},
		{"requests", testPageRequests},
		{"keyboard", testPageKeyboard},
		{"markdown", testPageMarkdown},
		{"again", testPageAgain},
		{"focus", testPageFocus},
		{"addresses", testPageAddresses},
		{"versions", testPageVersions},
		{"history", testPageHistory},
		{"options", testPageOptions},
		{"colours", testPageColours},
		{"axe", testPageAxe},
	} {
		t.Run(use.name, func(t *testing.T) { use.test(t, s.At(t)) })
	}
}

// testPageChat has a stream that is stopped, settings, choices, and a failure.
func testPageChat(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)

	tab.Fill("#prompt", "say:The first part; hang")
	tab.Click("#send")
	tab.WaitText(".assistant .said", "The first part") // while it streams
	tab.WaitText("#health", "1 running")
	tab.Click("#stop")
	tab.WaitText(".assistant .meta", "stopped")
	tab.Click("#clear")

	tab.Click("#tool-example")
	tab.Fill("#effort", "high")
	tab.Fill("#instructions", "Be brief.")
	say(tab, "say:Sunny.")
	request, _ := s.Model.Last()
	if len(request.ClientTools()) != 1 || request.Reasoning.Effort != "high" || !strings.Contains(string(request.Body), "Be brief.") {
		t.Errorf("the model got %s", request.Body)
	}
	if events := browser.Eval[string](tab, `document.querySelector('#event-list').textContent`); !strings.Contains(events, `"finish_reason":"stop"`) || !strings.Contains(events, "[DONE]") {
		t.Errorf("the events are %s", events)
	}

	tab.Fill("#choices", "3")
	say(tab, "say:One of three.")
	if got := browser.Eval[int](tab, `document.querySelectorAll('.several .choice').length`); got != 3 {
		t.Errorf("there are %d choices", got)
	}
	tab.Click(".several .choice:nth-child(2) .quiet")
	tab.WaitFor(`document.querySelector('.several .choice:nth-child(2) .quiet').getAttribute('aria-pressed') === 'true'`)

	tab.Fill("#choices", "1")
	say(tab, "http:429 30")
	tab.WaitText(".failure", "rate_limit_exceeded")
	tab.Click("#stream")
	say(tab, "say:Not a stream, with the history.")
	tab.WaitText("#log .assistant:last-child .said", "Not a stream")
	request, _ = s.Model.Last()
	if !strings.Contains(string(request.Body), "One of three.") {
		t.Errorf("the conversation is lost: %s", request.Body)
	}
	checkQuiet(t, s, tab, http.StatusTooManyRequests)
}

// testPageAnswers has a conversation streamed and whole: reasoning, text, calls, results, failure.
func testPageAnswers(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	tab.Click("#tool-example")
	for _, name := range []string{"streamed", "whole"} {
		t.Run(name, func(t *testing.T) {
			say(tab, `reason:There is a tool.; say:Let me see.; tool:2 get_weather {"city":"Oslo %d"}; then; say:Sunny.`)
			tab.WaitFor(`document.querySelector(".assistant .reasoning .text").textContent === "There is a tool."`)
			tab.WaitText(".assistant .said", "Let me see.")
			tab.WaitText(".call:nth-of-type(1) .args", `"city": "Oslo 1"`)
			tab.WaitText(".call:nth-of-type(2) .args", `"city": "Oslo 2"`)
			if meta := tab.Text(".assistant .meta"); !strings.HasPrefix(meta, "tool_calls") || !strings.Contains(meta, "tokens in, ") {
				t.Errorf("it says %s", meta)
			}
			tab.Fill(".call:nth-of-type(1) textarea", "sun here")
			tab.Fill(".call:nth-of-type(2) textarea", "sun there")
			tab.Click(".send-results")
			tab.WaitText("#log .assistant:last-child .said", "Sunny.")
			tab.WaitFor(idle)
			request, _ := s.Model.Last()
			if results := request.ToolResults(); len(results) != 2 || results[1].Output.String() != "sun there" {
				t.Errorf("the model got the results %+v", results)
			}
			say(tab, "fail:server_error")
			tab.WaitText("#log .assistant:last-child .failure", "Try again")
			tab.Click("#clear")
			tab.Click("#stream")
		})
	}
	checkQuiet(t, s, tab, http.StatusInternalServerError, http.StatusBadGateway)
}

// testPageIdeas checks what the empty page suggests, each with one click: the demo model
// answers, calls the tool with its arguments and quotes the result, and gives two choices.
func testPageIdeas(t *testing.T, s *e2e.Site) {
	t.Cleanup(s.Model.On(func(req scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return demomodel.Model{}.Answer(req, req.UserText()), true
	}))
	tab := openPage(t, s, desktop)
	suggest := func(number int) {
		tab.Click(fmt.Sprintf(".ideas li:nth-child(%d) button", number))
		tab.WaitFor(idle + ` && document.querySelector('.assistant .meta').textContent`)
	}
	suggest(1)
	tab.WaitText(".assistant .said", "demo model")
	tab.Click("#clear")
	suggest(2)
	tab.WaitText(".call .args", `"city": "Oslo"`)
	tab.Fill(".call textarea", "rain")
	tab.Click(".send-results")
	tab.WaitText("#log .assistant:last-child .said", "says: rain")
	tab.WaitFor(idle)
	tab.Click("#clear")
	suggest(3)
	if got := browser.Eval[int](tab, `document.querySelectorAll('.several .choice').length`); got != 2 {
		t.Errorf("there are %d choices", got)
	}
	checkQuiet(t, s, tab)
}

// testPageObsidian checks the other output mode: calls are blocks in the text.
func testPageObsidian(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	tab.Click("#tool-example")
	tab.Fill("#mode", "obsidian-xml")
	say(tab, `say:Let me see.; tool:get_weather {"city":"Oslo"}`)
	block := tab.Text("pre.block")
	if !strings.HasPrefix(block, "<use_tool>") || !strings.Contains(block, "<name>get_weather</name>") {
		t.Errorf("the block is %q", block)
	}
	tab.Fill(".call textarea", "sun") // the calls are beside the blocks
	tab.Click(".send-results")
	tab.WaitText("#log .assistant:last-child .said", "The tool said")
	tab.WaitFor(idle)
	checkQuiet(t, s, tab)
}

// TestPagePrefix: the page works below a prefix, also without the slash at its end.
func TestPagePrefix(t *testing.T) {
	s := e2e.NewSite(t, "")
	handler := func(options string) string { return "codex {\n" + s.AppServer() + "\n" + options + "\n}" }
	s.Load(s.Wrap("handle_path /team/* {\n" + handler("page on") + "\n}\n" + handler("")))
	tab := browser.Open(t, desktop)
	tab.Go(s.URL + "/team/codex")
	tab.WaitText("#health", "Ready")
	say(tab, "say:Hello")
	tab.WaitText("#log .said", "Hello")
	for _, url := range tab.Requests() {
		if !strings.HasPrefix(url, s.URL+"/team/") {
			t.Errorf("the page asks %s", url)
		}
	}
	checkQuiet(t, s, tab)
}

// testPageImage checks that an image reaches the model, and that another file is refused.
func testPageImage(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	dir := t.TempDir()
	picture := image.NewRGBA(image.Rect(0, 0, 8, 8))
	picture.Set(1, 1, color.White)
	var encoded bytes.Buffer
	must.OK(t, png.Encode(&encoded, picture))
	for name, body := range map[string][]byte{"picture.png": encoded.Bytes(), "text.txt": []byte("text")} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), body, 0o600))
	}
	tab.Upload("#files", filepath.Join(dir, "text.txt"))
	tab.WaitText("#composer-problem", "is not a PNG")
	tab.Upload("#files", filepath.Join(dir, "picture.png"))
	tab.WaitFor(`document.querySelector('#thumbs img')?.naturalWidth === 8`)
	say(tab, "say:A small picture.")
	tab.WaitText("#log .assistant .said", "A small picture.")
	request, _ := s.Model.Last()
	if !strings.Contains(string(request.Body), "data:image/png;base64,") {
		t.Errorf("the model got %s", request.Body)
	}
	checkQuiet(t, s, tab)
}

// TestPageKey: the page asks for a key, says if one is wrong, and keeps it in the session only.
func TestPageKey(t *testing.T) {
	s := e2e.NewSite(t, "page on\napi_key sk-right ann")
	tab := browser.Open(t, desktop)
	tab.Go(s.URL + "/codex/")
	tab.WaitFor(`document.querySelector('#key-dialog').open`)
	tab.WaitText("#health", "Key needed")
	tab.Type("sk-wrong" + kb.Enter)
	tab.WaitText("#key-problem", "does not know this key")
	tab.Type("sk-right" + kb.Enter) // it is selected
	tab.WaitText("#health", "Ready")
	tab.WaitFor(`document.querySelector('#model').options.length > 2`)
	say(tab, "say:Hello")
	tab.WaitText(".said", "Hello")
	where := browser.Eval[string](tab, `JSON.stringify([JSON.stringify(localStorage).includes('sk-'), document.cookie, sessionStorage.getItem('caddy-codex-key'), location.href.includes('sk-')])`)
	if where != `[false,"","sk-right",false]` {
		t.Errorf("the key is in %s", where)
	}
	tab.Click("#tab-code")
	if code := tab.Text("#code-text"); strings.Contains(code, "sk-right") || !strings.Contains(code, "Bearer $CODEX_API_KEY") {
		t.Errorf("the code is %s", code)
	}
	tab.Click("#to-status")
	tab.WaitText("#recent", "ann")
	tab.Click("#open-key")
	tab.Click("#key-forget")
	tab.WaitText("#health", "Key needed")
	if left := browser.Eval[int](tab, `sessionStorage.length`); left != 0 {
		t.Error("the key is still there")
	}
	checkQuiet(t, s, tab, http.StatusUnauthorized)
}

// testPageRequests checks that the page lists the requests under way, and that a person who
// reads the list with the keyboard is not interrupted when it is shown again.
func testPageRequests(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, phone)
	tab.Click("#to-status")
	tab.WaitText("#requests", "Nothing waits or runs now.")
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	s.BeginHanging(ctx)
	tab.WaitText("#requests tbody", "Answering")
	for _, want := range []string{"gpt-5", "chat", "second"} {
		tab.WaitText("#requests tbody", want)
	}
	browser.Eval[bool](tab, `(document.querySelector('#requests .table').focus(), document.querySelector('#requests .table').scrollLeft = 20, document.querySelector('#requests tr').old = true)`)
	tab.WaitFor(`!document.querySelector('#requests tr').old`)
	if at := browser.Eval[string](tab, `[document.activeElement.getAttribute('aria-label'), document.activeElement.scrollLeft].join()`); at != "Requests now,20" {
		t.Errorf("the focus is at %s", at)
	}
	leave()
	tab.WaitText("#requests", "Nothing waits or runs now.")
	checkQuiet(t, s, tab)
}

// hostile are texts that would do something if they were parsed as HTML.
const hostile = `<img src=x onerror="window.pwned=1"><script>window.pwned=2</script><iframe srcdoc="<script>parent.pwned=3</script>"></iframe>` +
	`<a href="javascript:window.pwned=4">x</a><style>body{display:none}</style></textarea><svg onload="window.pwned=5">`

// TestPageHostile checks that texts of a model, of names and of errors are texts only.
func TestPageHostile(t *testing.T) {
	s := e2e.NewSite(t, "page on\nusage all\nmodel \"<img src=x onerror=window.pwned=6>\" gpt-5\napi_key k \"<img src=x onerror=window.pwned=7>\"")
	tab := openWithKey(t, s, "k")
	tab.Fill("#model", "<img src=x onerror=window.pwned=6>")
	before := browser.Eval[string](tab, `JSON.stringify(['script','iframe','style','img','svg','a'].map((n) => document.getElementsByTagName(n).length))`)
	tab.Click("#tool-example")
	say(tab, "reason:"+hostile+"\nsay:```html\n"+hostile+"\n```\n"+hostile+"\n```js <img src=x onerror=window.pwned=8>\nlet a = `${`${"+hostile+"}`}`\n```\n"+
		"and $x"+hostile+"$ and\n\n$$\n"+hostile+"\n$$\ntool:get_weather "+fmt.Sprintf(`{"city":%q}`, hostile))
	tab.WaitFor(`document.querySelectorAll('.fence:has(span)').length === 2`) // their colours
	said := browser.Eval[string](tab, `document.querySelector('.said').textContent`)
	if strings.Count(said, hostile) != 5 {
		t.Errorf("the text is %q", said)
	}
	tab.Fill(".call textarea", hostile)
	tab.Click(".send-results")
	tab.WaitFor(idle)
	say(tab, "fail:server_error "+hostile)
	tab.WaitFor(`document.querySelector('.failure')`)
	for _, pane := range []string{"#tab-events", "#tab-code", "#tab-options"} {
		tab.Click(pane)
	}
	after := browser.Eval[string](tab, `JSON.stringify(['script','iframe','style','img','svg','a'].map((n) => document.getElementsByTagName(n).length))`)
	if before != after {
		t.Errorf("there were the elements %s, and now %s", before, after)
	}
	tab.Click("#to-status")
	tab.WaitText("#usage", "<img src=x onerror=window.pwned=7>")
	if done := browser.Eval[string](tab, `String(window.pwned)`); done != "undefined" {
		t.Errorf("something was executed: %s", done)
	}
	checkQuiet(t, s, tab, http.StatusUnauthorized, http.StatusInternalServerError, http.StatusBadGateway)
}

// testPageKeyboard uses the page without a mouse, and checks that the focus is always visible.
func testPageKeyboard(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	visited := make(map[string]bool)
	for range 60 {
		tab.Type(kb.Tab)
		at := browser.Eval[string](tab, `(() => {
			const e = document.activeElement, s = getComputedStyle(e), c = e.closest('.composer');
			if (e === document.body) return '';
			const shown = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0 || c && getComputedStyle(c).borderColor === getComputedStyle(document.querySelector('#send')).backgroundColor;
			return (shown ? '' : 'invisible ') + (e.id || e.textContent.trim().slice(0, 20));
		})()`)
		if strings.HasPrefix(at, "invisible") {
			t.Errorf("the focus is %s", at)
		}
		visited[at] = true
	}
	for _, want := range []string{"to-status", "open-key", "tab-options", "prompt", "send", "attach", "model", "mode", "effort", "choices", "stream", "limit", "instructions", "tools", "schema", "Call a tool"} {
		if !visited[want] {
			t.Errorf("Tab does not get to %s", want)
		}
	}
	browser.Eval[bool](tab, `(document.querySelector('#tab-options').focus(), true)`)
	tab.Type(kb.ArrowRight)
	tab.WaitFor(`document.activeElement.id === 'tab-events' && !document.querySelector('#events').hidden`)
	tab.Type(kb.ArrowLeft)
	browser.Eval[bool](tab, `(document.querySelector('#tools').focus(), true)`)
	tab.Type(`{"name":"find"}`)
	browser.Eval[bool](tab, `(document.querySelector('#prompt').focus(), true)`)
	tab.Type(`tool:find {"q":1}; then; say:Found.` + kb.Enter)
	tab.WaitFor(`document.activeElement.matches('.call textarea')`)
	tab.Type("a result" + kb.Tab)
	tab.WaitFor(`document.activeElement.matches('.send-results')`)
	tab.Type(kb.Enter)
	tab.WaitText("#log .assistant:last-child .said", "Found.")
	tab.WaitText("#announcer", "The answer is complete.")
	inPrompt := func(after string) {
		t.Helper()
		if at := browser.Eval[string](tab, `document.activeElement.id`); at != "prompt" {
			t.Errorf("after %s the focus is at %q", after, at)
		}
	}
	inPrompt("the results")
	press := func(selector string) {
		t.Helper()
		browser.Eval[bool](tab, `(document.querySelector(`+strconv.Quote(selector)+`).focus({focusVisible: true}), true)`)
		tab.Type(kb.Enter)
	}
	for how, end := range map[string]func(){
		"Escape": func() { tab.Type(kb.Escape) },
		"Stop":   func() { press("#stop") },
	} {
		tab.Type("say:Half; hang")
		press("#send")
		tab.WaitText("#log .assistant:last-child .said", "Half")
		inPrompt("Send")
		end()
		tab.WaitText("#log .assistant:last-child .meta", "stopped")
		tab.WaitFor(idle)
		inPrompt(how)
	}
	tab.Type("http:500" + kb.Enter)
	tab.WaitFor(`document.querySelector('.failure .quiet') && ` + idle)
	press(".failure .quiet")
	inPrompt("Try again")
	tab.WaitFor(`document.querySelector('.failure .quiet') && ` + idle)
	tab.Click("#clear")
	tab.Type(`tool:find {"q":1}` + kb.Enter)
	tab.WaitFor(`document.activeElement.matches('.call textarea')`)
	tab.Fill("#prompt", "Another message")
	press("#send")
	tab.WaitText("#composer-problem", "Answer the calls first")
	tab.WaitFor(`document.activeElement.matches('.call textarea')`)
	tab.Click("#clear")
	tab.WaitFor(`document.querySelector('#composer-problem').hidden`)
	checkQuiet(t, s, tab, http.StatusInternalServerError, http.StatusBadGateway)
}

// wide lists the visible elements that stick out of the screen, except in a box that scrolls.
const wide = `JSON.stringify([...document.querySelectorAll('body *')].filter((e) => {
	const box = e.getBoundingClientRect();
	if (box.width === 0 || box.right <= innerWidth + 0.5 && box.left >= -0.5) return false;
	return !e.closest('.table, .hidden, .skip, svg');
}).map((e) => e.tagName + '#' + e.id + '.' + e.className + ' ' + e.getBoundingClientRect().right))`

// TestPageFits: nothing sticks out of small screens, even long words; colours follow the person's.
func TestPageFits(t *testing.T) {
	s := e2e.NewSite(t, "page on\nusage all\nmodel "+strings.Repeat("long", 30)+" gpt-5")
	tab := openPage(t, s, phone)
	check := func(where string) {
		t.Helper()
		if found := browser.Eval[string](tab, wide); found != "[]" {
			t.Errorf("%s: %s", where, found)
		}
		if over := browser.Eval[int](tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("%s is %d pixels too wide", where, over)
		}
	}
	check("the empty page")
	tab.Click("#tab-options")
	tab.Fill("#model", strings.Repeat("long", 30))
	tab.Click("#tool-example")
	tab.Fill("#choices", "2")
	check("the options")
	tab.Click("#tab-chat")
	word := strings.Repeat("word", 100)
	say(tab, "reason:"+word+"; say:"+word+"\n```\n"+word+"\n```\n; tool:get_weather {\"city\":\""+word+"\"}")
	browser.Eval[bool](tab, `(document.querySelectorAll('details').forEach((d) => { d.open = true }), true)`)
	check("the answer")
	tab.Click("#clear")
	say(tab, "fail:server_error "+word)
	tab.WaitFor(`document.querySelector('.failure')`)
	check("the failure")
	tab.Click("#clear")
	tab.Fill("#prompt", "say:Half; hang")
	height := `document.querySelector('.bar').offsetHeight`
	before := browser.Eval[int](tab, height)
	tab.Click("#send")
	tab.WaitFor(`document.querySelector('#health-more').textContent.includes('running')`)
	if now := browser.Eval[int](tab, height); now != before {
		t.Errorf("with a request that runs the bar has %d pixels instead of %d", now, before)
	}
	tab.Click("#stop")
	tab.WaitFor(idle)
	for _, pane := range []string{"#tab-events", "#tab-code"} {
		tab.Click(pane)
		check(pane)
	}
	tab.Click("#to-status")
	tab.WaitText("#recent", "chat")
	check("the status")
	light := browser.Eval[string](tab, `getComputedStyle(document.body).backgroundColor`)
	tab.Show(dark)
	check("the status on a desktop")
	if now := browser.Eval[string](tab, `getComputedStyle(document.body).backgroundColor`); now == light {
		t.Error("dark is as light")
	}
	checkQuiet(t, s, tab, http.StatusBadGateway)
}

// TestPageCode runs the code that the page shows, with a text that tries to break out of it.
func TestPageCode(t *testing.T) {
	s := e2e.NewSite(t, "page on\napi_key sk-k")
	tab := openWithKey(t, s, "sk-k")
	const text = `it's "$HOME" ` + "`id`" + ` \n ${x} 'end' `
	tab.Fill("#instructions", text)
	tab.Fill("#prompt", "say:All is well.")
	tab.Click("#tab-code")
	for _, api := range []string{"chat", "responses", "messages"} {
		for language, program := range map[string][]string{
			"curl": {"sh", "-c"}, "javascript": {"node", "--input-type=module", "-e"},
		} {
			t.Run(api+" "+language, func(t *testing.T) {
				tab.Click("[data-api=" + api + "]")
				tab.Click("[data-language=" + language + "]")
				shown := browser.Eval[string](tab, `document.querySelector('#code-text').textContent`)
				cmd := exec.CommandContext(e2e.Context(t), program[0], append(program[1:], shown)...)
				cmd.Env = append(os.Environ(), "CODEX_API_KEY=sk-k")
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "All is well.") && !regexp.MustCompile(`"(content|delta|text)":"All`).Match(out) {
					t.Errorf("%v: %s", err, out)
				}
				if request, _ := s.Model.Last(); !strings.Contains(string(request.Body), strings.TrimSpace(strings.Trim(fmt.Sprintf("%q", text), `"`))) {
					t.Errorf("the model got %s", request.Body)
				}
			})
		}
		tab.Click("[data-language=python]")
		for _, want := range map[string][]string{
			"chat":      {"from openai import OpenAI", `api_key=os.environ["CODEX_API_KEY"]`, "stream=True", `"role": "system"`},
			"responses": {"from openai import OpenAI", "answer = client.responses.create(", "instructions="},
			"messages":  {"from anthropic import Anthropic", "answer = client.messages.create(", "max_tokens=16384", "system="},
		}[api] {
			if code := tab.Text("#code-text"); !strings.Contains(code, want) {
				t.Errorf("%s: there is no %s in %s", api, want, code)
			}
		}
	}
	tab.Click("[data-language=claude]")
	code := browser.Eval[string](tab, `document.querySelector('#code-text').textContent`)
	for _, want := range []string{
		"export ANTHROPIC_BASE_URL='" + s.URL + "'\nexport ANTHROPIC_AUTH_TOKEN=\"$CODEX_API_KEY\"\nexport ANTHROPIC_MODEL='default'\n",
		"\nexport CLAUDE_CODE_AUTO_MODE_SERVER=0\n", "\nexport CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1\nclaude\n",
	} {
		if !strings.Contains(code, want) {
			t.Errorf("there is no %s in %s", want, code)
		}
	}
}

// notes is a text with all the Markdown that the page shows.
const notes = "# Trees\n\nThe **oak** and the *elm*, ~~not the fern~~; see [a site](https://example.com/?a=1&b=2), [not this](javascript:alert) and R&amp;D.\n\n" +
	"- one\n- two\n  1. deep\n\n> quoted\n\n| tree | height |\n| --- | ---: |\n| oak | 40 |\n\n---\n\n```js\nlet a = '<b>';\n```\n\n![a picture](data:image/png;base64,AA)"

// testPageMarkdown: Markdown is shown, while it streams and after, and copied, whole and its code.
func testPageMarkdown(t *testing.T, s *e2e.Site) {
	const prompt = "Tell me of trees."
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say(notes)}, Delay: 2 * time.Millisecond}, r.UserText() == prompt
	})
	tab := openPage(t, s, desktop)
	say(tab, prompt)
	for selector, want := range map[string]string{
		"h4": "Trees", "strong": "oak", "em": "elm", "del": "not the fern", "a": "a site", "ul > li:first-child": "one", "ol": "deep",
		"blockquote": "quoted", "th": "tree", "td.right": "40", "pre.fence": "let a = '<b>';", ".code-head span": "js",
	} {
		if got := strings.TrimSpace(browser.Eval[string](tab, `document.querySelector('.markdown `+selector+`')?.textContent ?? 'nothing'`)); got != want {
			t.Errorf("%s is %q, want %q", selector, got, want)
		}
	}
	said := browser.Eval[string](tab, `document.querySelector('.markdown').textContent`)
	for _, want := range []string{"[not this](javascript:alert)", "R&D", "![a picture](data:image/png;base64,AA)"} {
		if !strings.Contains(said, want) {
			t.Errorf("there is no %q in %q", want, said)
		}
	}
	if link := browser.Eval[string](tab, `[...document.querySelectorAll('.markdown a')].map((a) => a.href + a.rel + a.target).join()`); link != "https://example.com/?a=1&b=2noopener noreferrer_blank" {
		t.Errorf("the links are %s", link)
	}
	for selector, want := range map[string]string{".code-head button": "let a = '<b>';", "#log .assistant > .acts button:first-child": notes} {
		browser.Eval[bool](tab, `(navigator.clipboard.writeText = async (text) => { window.copied = text }, true)`)
		tab.Click(selector)
		tab.WaitText(selector, "Copied")
		if got := browser.Eval[string](tab, `window.copied`); got != want {
			t.Errorf("%s copies %q", selector, got)
		}
	}
	checkQuiet(t, s, tab)
}

// testPageAgain regenerates an answer, edits a message and sends it again, with a schema and a
// limit, and opens the conversation that the browser has kept after the page is loaded again.
func testPageAgain(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	messages := func() int {
		return browser.Eval[int](tab, `document.querySelectorAll('#log .message').length`)
	}
	say(tab, "say:First.")
	say(tab, "say:Second.")
	before := len(s.Model.Requests())
	tab.Click("#log .assistant:last-child > .acts > button:nth-of-type(2)")
	tab.WaitFor(idle + ` && document.querySelector('#log .assistant:last-child .meta').textContent`)
	if n := len(s.Model.Requests()) - before; n != 1 || messages() != 4 {
		t.Errorf("the model was asked %d times, and there are %d messages", n, messages())
	}
	for range 2 {
		tab.Click("#log .user .acts button")
		if got := browser.Eval[string](tab, `document.querySelector('#prompt').value`); got != "say:First." {
			t.Fatalf("%q is edited", got)
		}
		tab.Type(kb.Escape)
		if got := browser.Eval[string](tab, `document.querySelector('#prompt').value`); got != "" || messages() != 4 {
			t.Errorf("after Escape %q is edited, and there are %d messages", got, messages())
		}
	}
	tab.Click("#log .user .acts button")
	tab.Click("#schema-example")
	tab.Fill("#limit", "500")
	say(tab, `say:{"title":"Emma","year":1815}`)
	request, _ := s.Model.Last()
	if !strings.Contains(string(request.Body), "valid by the JSON Schema") || strings.Contains(string(request.Body), "First.") {
		t.Errorf("the model got %s", request.Body)
	}
	tab.Click(".user [aria-label=\"Previous version\"]")
	if got := tab.Text("#log"); messages() != 4 || !strings.Contains(got, "Second.") {
		t.Errorf("what was before the edit is %s", got)
	}
	tab.Click(".user [aria-label=\"Next version\"]")
	tab.Fill("#schema", "{")
	tab.WaitText("#schema-problem", "no JSON")
	tab.Fill("#schema", "")
	tab.Click("#tool-example")
	say(tab, `tool:get_weather {"city":"Oslo"}; then; say:Sunny.`)
	tab.Fill(".call textarea", "sun here")
	tab.Click(".send-results")
	tab.WaitText("#log .assistant:last-child .said", "Sunny.")
	tab.WaitFor(idle)

	tab.Go(s.URL + "/codex/")
	tab.WaitText("#health", "Ready")
	tab.Click("#tab-history")
	tab.WaitText("#history-note", "1 conversation,")
	tab.Click(".kept-open")
	tab.WaitFor(`document.querySelector('.call textarea[readonly]')?.value === 'sun here'`)
	if messages() != 5 {
		t.Errorf("there are %d messages", messages())
	}
	say(tab, "say:It goes on.")
	if request, _ := s.Model.Last(); !strings.Contains(string(request.Body), "sun here") || !strings.Contains(string(request.Body), "Emma") {
		t.Errorf("the conversation is lost: %s", request.Body)
	}
	tab.Click("#clear")
	say(tab, "say:Another.")
	tab.WaitText("#history-note", "2 conversations,")
	tab.Click("#kept li:first-child [aria-label^=Forget]")
	tab.WaitText("#history-note", "1 conversation,")
	tab.Click("#forget-all")
	tab.WaitText("#forget-all", "1 conversation for good")
	tab.Click("#forget-all")
	tab.WaitFor(`localStorage.getItem('caddy-codex-conversations') === '[]'`)
	checkQuiet(t, s, tab)
}

// screenshots makes TestScreenshots write the pictures of the docs.
var screenshots = flag.Bool("screenshots", false, "write the screenshots of the page to docs/images")

// maxScreenshot bounds the size of a picture in the docs, in bytes.
const maxScreenshot = 200 << 10

// oslo is a conversation of a person with a model that has a tool for the weather, and
// what the provider says of the plan.
func oslo(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
	reset := func(left time.Duration) string { return strconv.FormatInt(time.Now().Add(left).Unix(), 10) }
	script := scriptedmodel.Script{
		Chunk: 12,
		Delay: 10 * time.Millisecond,
		Usage: &scriptedmodel.Usage{Input: 1204, Cached: 1024, Output: 87, Reasoning: 24},
		Header: map[string]string{
			"x-codex-primary-used-percent": "38", "x-codex-primary-window-minutes": "300", "x-codex-primary-reset-at": reset(2 * time.Hour),
			"x-codex-secondary-used-percent": "84", "x-codex-secondary-window-minutes": "10080", "x-codex-secondary-reset-at": reset(50 * time.Hour),
		},
	}
	switch {
	case strings.HasSuffix(r.UserText(), "hang"):
		return script, false // as it says
	case len(r.ToolResults()) > 0:
		script.Output = []scriptedmodel.Output{scriptedmodel.Say("It is **sunny** in Oslo.\n\n| | now |\n| --- | --- |\n| temperature | 12 °C |\n| wind | light, from the west |\n\nA light coat will do.")}
	case strings.Contains(r.UserText(), "weather"):
		script.Output = []scriptedmodel.Output{
			scriptedmodel.Reason("The user asks for the weather. There is a tool for that."),
			scriptedmodel.Say("I will look that up."),
			scriptedmodel.Call{Name: "get_weather", Arguments: `{"city":"Oslo"}`},
		}
	default:
		script.Output = []scriptedmodel.Output{scriptedmodel.Say("The Summer Book by Tove Jansson: a girl, her grandmother and an island.")}
	}
	return script, true
}

// TestPageWindows shows who has used the windows of a plan, also of one with an odd name.
func TestPageWindows(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	s.Login.SetMeters(planbackend.AllMeters(10 * planbackend.Cost(scriptedmodel.DefaultUsage)))
	s.Serve("page on\nusage all\napi_key k \"<b>ann\"")
	s.WaitReady()
	for range 3 {
		s.Post(e2e.ChatBody("say:ok", nil), e2e.Bearer("k"))
	}
	e2e.WaitFor(t, "the shares", func() bool {
		return strings.Contains(s.Usage("k").Get("windows").Raw, `"used_percent":30`)
	})
	tab := openWithKey(t, s, "k")
	tab.Click("#to-status")
	tab.WaitText("#usage", "<b>ann")
	tab.WaitText("#usage", "30 % used; at this pace, ")
	picture := func(what string) string {
		return browser.Eval[string](tab, `[...document.querySelectorAll('#usage figure')].find((f) => f.textContent.includes('<b>ann@`+s.Addr+`')).`+what)
	}
	if label := picture(`querySelector('[role=img]').getAttribute('aria-label')`); !strings.Contains(label, "codex, ") || !regexp.MustCompile(`<b>ann@\S+ 30.0 %, others 0.0 %`).MatchString(label) {
		t.Errorf("the picture is %q", label)
	}
	if heights := picture(`querySelector('svg').innerHTML`); !strings.Contains(heights, `height="30" class="key-`) {
		t.Errorf("the bars are %s", heights)
	}
	tab.WaitText("#servers", "GPT-5.3-Codex-Spark, window of 5h")
	if cached := browser.Eval[string](tab, `document.querySelector('[aria-label="Usage by key"] td:nth-child(5)').textContent`); !strings.HasSuffix(cached, " %") {
		t.Errorf("cached: %q", cached)
	}
	tab.Show(dark)
	tab.Show(phone)
	told := s.Plan.Count(planbackend.Usage)
	s.Login.Change(planbackend.SparkMeter, func(m *planbackend.Meter) { m.Primary.Resets = time.Now().Add(12 * time.Second) })
	s.Post(e2e.ChatBody("say:so that the change is noticed", nil), e2e.Bearer("k"))
	e2e.WaitFor(t, "the new reset", func() bool { return s.Plan.Count(planbackend.Usage) > told })
	s.Plan.Fail(planbackend.Usage, planbackend.Status(http.StatusInternalServerError))
	tab.WaitText("#servers", "has ended")
	checkQuiet(t, s, tab, http.StatusUnauthorized)
}

// TestScreenshots takes the pictures of the docs, and checks that they are there and small.
func TestScreenshots(t *testing.T) {
	s := e2e.NewSite(t, "page on\nusage all\napi_key k ann")
	s.Model.On(oslo)
	tab := openWithKey(t, s, "k")
	shoot := func(name string) {
		t.Helper()
		path := filepath.Join("../../../../docs/images", name)
		if picture := tab.Screenshot(); *screenshots {
			if err := os.WriteFile(path, picture, 0o644); err != nil {
				t.Error(err)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Size() > maxScreenshot {
			t.Errorf("%s: %v; `make screenshots` makes it, with at most %d bytes", name, err, maxScreenshot)
		}
	}
	tab.Click("#tool-example")
	say(tab, "What is the weather in Oslo?")
	tab.Fill(".call textarea", `{"sky": "clear", "celsius": 12, "wind": "light"}`)
	tab.Click(".send-results")
	tab.WaitText("#log", "A light coat")
	tab.WaitFor(idle)
	tab.Click("#tab-events")
	shoot("playground.png")
	tab.Fill("#choices", "2")
	tab.Fill("#tools", "")
	say(tab, "Name a good book.")
	ctx, leave := e2e.ContextWithCancel(t)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer leave()
	for i, said := range []string{"say:" + strings.Repeat("An answer that is long. ", 40) + "; hang", "hang"} {
		clients.Go(func() { s.PostUntil(ctx, e2e.ChatBody(said, e2e.Fields{"stream": true}), e2e.Bearer("k")) })
		s.WaitOpen(i + 1)
	}
	tab.Click("#to-status")
	tab.WaitText("#requests", "Answering")
	if *screenshots { // the plan's limits are asked for every half minute
		tab.WaitText("#servers", "% used")
	}
	tab.WaitText("#servers", "ready")
	tab.WaitText("#recent", "ann")
	tab.Show(dark)
	shoot("status-dark.png")
	leave()
	tab.WaitText("#requests", "Nothing waits or runs now.")
	tab.Show(phone)
	tab.Click("#to-playground")
	tab.Click("#tab-chat")
	tab.Click("#clear")
	tab.Fill("#choices", "1")
	tab.Click("#tab-options")
	tab.Click("#tool-example")
	tab.Click("#tab-chat")
	say(tab, "What is the weather in Oslo?")
	tab.WaitFor(`document.querySelector('.send-results')`)
	shoot("playground-phone.png")
	tab.Click("#clear")
	tab.Click("#to-status")
	tab.WaitText("#recent", "ann")
	press(tab, "#record")
	tab.WaitText("#record", "Recording")
	s.Post(e2e.ChatBody("What is the weather in Oslo?", nil), e2e.Bearer("k"))
	press(tab, "#recent button")
	tab.WaitText("dialog.trace", "The client got the whole answer.")
	shoot("trace-phone.png")
}

// press uses a button of the status. The page may replace the button while a pointer is on its way.
func press(tab *browser.Tab, selector string) {
	tab.WaitFor(fmt.Sprintf(`document.querySelector(%[1]q) && (document.querySelector(%[1]q).focus(), document.querySelector(%[1]q).click(), true)`, selector))
}

// TestPageTrace lets the page record the next requests, and shows where the time of one went.
func TestPageTrace(t *testing.T) {
	s := e2e.NewSite(t, "page on\napi_key k ann\napi_key k2 bob")
	tab := openWithKey(t, s, "k")
	say(tab, "say:Not recorded.")
	tab.Click("#to-status")
	tab.WaitText("#recent", "ann")
	press(tab, "#record")
	tab.WaitText("#record", "Recording your next 10 requests")
	tab.Click("#to-playground")
	say(tab, "reason:A thought.; say:Recorded.")
	say(tab, "fail:server_error")
	s.Post(e2e.ChatBody("say:Of bob.", nil), e2e.Bearer("k2"))
	tab.Click("#to-status")
	tab.WaitText("#record", "Recording your next 8 requests")
	tab.WaitFor(`document.querySelectorAll('#recent button').length === 2`)
	press(tab, "#recent tbody tr:nth-child(1) button")
	tab.WaitText("dialog.trace .problem", "upstream_disconnected")
	tab.Type(kb.Escape)
	tab.WaitFor(`!document.querySelector('dialog.trace') && document.activeElement.matches('#recent tr:nth-child(1) button')`)
	press(tab, "#recent tbody tr:nth-child(2) button")
	tab.WaitText("dialog.trace h2", "POST /v1/chat/completions")
	for _, want := range []string{"Model", "Codex", "→ Client", "has other words"} {
		tab.WaitText("dialog.trace", want)
	}
	if text := tab.Text("dialog.trace"); strings.Contains(text, "thought") {
		t.Errorf("it shows the text: %s", text)
	}
	for _, screen := range []browser.Screen{phone, dark} {
		tab.Show(screen)
		if over := browser.Eval[int](tab, `document.querySelector('dialog.trace').scrollWidth - document.querySelector('dialog.trace').clientWidth`); over > 0 {
			t.Errorf("the timeline is %d pixels too wide", over)
		}
	}
	browser.Eval[bool](tab, `(HTMLAnchorElement.prototype.click = () => {}, window.saved = '',
		URL.createObjectURL = (blob) => (blob.text().then((text) => { window.saved = text }), 'blob:'), true)`)
	tab.Click("dialog.trace .actions .quiet")
	tab.WaitFor(`window.saved.startsWith('{"at":0.000,"dir":"from_client"')`)
	checkQuiet(t, s, tab, http.StatusUnauthorized, http.StatusBadGateway)
}

// TestPageSignIn signs in on the page, after the provider has refused the login: with the admin
// key alone, by the code that the page shows, and without a restart of Caddy.
func TestPageSignIn(t *testing.T) {
	e2e.WithLogin(t)
	const adminKey = "an-admin-key-of-a-test"
	s := e2e.NewUnstarted(t)
	s.Login.Revoke()
	s.Serve("page on\nadmin_key " + adminKey)
	e2e.WaitFor(t, "the login to be signed out", func() bool {
		_, body := s.Readiness()
		_, text := s.Post(e2e.ChatBody("say:no", nil), nil)
		return body.Login == "signed_out" && strings.Contains(text, "codex_unauthorized")
	})
	tab := browser.Open(t, phone)
	tab.Go(s.URL + "/codex/#status")
	tab.WaitText("#servers .card", "Rests for")
	if found := browser.Eval[int](tab, `document.querySelectorAll('.sign-in').length`); found != 0 {
		t.Error("everybody may sign in")
	}
	tab.Click("#open-admin")
	tab.Type("not-" + adminKey + kb.Enter)
	tab.WaitText("#admin-problem", "does not know this admin key")
	tab.Type(adminKey + kb.Enter)
	tab.WaitText(".sign-in", "Sign in")
	tab.Click(".sign-in button")
	tab.WaitFor(`document.querySelector('.device-code')`)
	code := tab.Text(".device-code")
	if href := browser.Eval[string](tab, `document.querySelector('.sign-in a').href`); href != "https://auth.openai.com/codex/device" {
		t.Errorf("the code is to be entered at %s", href)
	}
	if kept := browser.Eval[string](tab, `JSON.stringify([localStorage, sessionStorage]) + document.cookie + location.href`); strings.Contains(kept, "admin-key") {
		t.Errorf("the admin key is in %s", kept)
	}
	if !s.Plan.Authorize(code, s.Login) {
		t.Fatalf("the code is %q", code)
	}
	tab.WaitFor(`!document.querySelector('.device-code')`)
	e2e.WaitFor(t, "an answer with the new login", func() bool {
		response, text := s.Post(e2e.ChatBody("say:served", nil), nil)
		return response.StatusCode == http.StatusOK && strings.Contains(text, "served")
	})
	tab.WaitText("#servers .card", "Fine")
	if token := gjson.Get(e2e.ReadFile(t, filepath.Join(s.Home, "auth.json")), "tokens.refresh_token").Str; token != s.Login.Tokens().Refresh {
		t.Error("the home has another login")
	}
	resetOnPage(s, tab, adminKey)
	tab.Click("#open-admin")
	tab.WaitFor(`!document.querySelector('.task')`)
	checkQuiet(t, s, tab, http.StatusUnauthorized, http.StatusServiceUnavailable)
}

// loseAnswer makes the page lose the first answer to an attempt to spend a credit.
const loseAnswer = `(() => {
  const send = fetch;
  let lost = false;
  window.fetch = async (url, options) => {
    const response = await send(url, options);
    if (lost || !String(url).includes('admin/credit')) return response;
    lost = true;
    throw new TypeError('lost');
  };
  return true;
})()`

// resetOnPage resets the windows of a plan for a credit on a page that has the admin key: not without
// a confirmation, and for one credit although the first answer is lost.
func resetOnPage(s *e2e.Site, tab *browser.Tab, adminKey string) {
	s.T.Helper()
	s.Login.GrantReset("one", time.Now().Add(time.Hour))
	s.Login.GrantReset("two", time.Time{})
	header := e2e.Bearer(adminKey)
	header.Set("Idempotency-Key", "spends nothing, but has the credits read")
	response, text := s.Call(http.MethodPost, "/codex/admin/credit?app_server="+tab.Text("#servers h3"), nil, header)
	if !strings.Contains(text, "nothing_to_reset") {
		s.T.Fatal(response.Status, text)
	}
	s.Login.SetUse(planbackend.Use{Primary: 100})
	browser.Eval[bool](tab, loseAnswer)
	for _, text := range []string{"Reset the windows", "Keep it", "Reset the windows", "Spend it", "Reset the windows", "Spend it"} {
		tab.WaitFor(fmt.Sprintf(`[...document.querySelectorAll('.reset-credit button')].some((b) => b.textContent === %q && (b.click(), true))`, text))
	}
	tab.WaitText(".reset-credit", "reset by this attempt before")
	if left := s.Login.Resets(); len(left) != 1 {
		s.T.Errorf("the credits that are left are %v", left)
	}
}
