package clients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/caddy-codex/caddy-codex/internal/test/browser"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// checkFocus checks which element has the focus.
func checkFocus(t *testing.T, tab *browser.Tab, after, want string) {
	t.Helper()
	if at := browser.Eval[string](tab, `document.activeElement.id || document.activeElement.className || document.activeElement.tagName`); at != want {
		t.Errorf("after %s the focus is at %q, not %q", after, at, want)
	}
}

// reload leaves the page, loads it again, and waits until it knows the models.
func reload(tab *browser.Tab) {
	address := browser.Eval[string](tab, `location.href`)
	tab.Go("about:blank") // else a page that is about to go may be asked
	tab.Go(address)
	tab.WaitFor(`document.querySelector('#model')?.options.length > 2`)
}

// last is the text of the last answer.
const last = "#log .assistant:last-child .said"

// address is the part of the page's address that names the chat.
func address(tab *browser.Tab) string { return browser.Eval[string](tab, `location.hash`) }

// testPageFocus: a person with a mouse goes on typing wherever they are, and Enter sends results. On a
// phone no keyboard opens unasked.
func testPageFocus(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	checkFocus(t, tab, "the load", "prompt")
	tab.Click("#tool-example")
	tab.Fill("#prompt", `tool:2 get_weather {"city":"Oslo %d"}; then; say:Sunny.`)
	tab.Click("#send")
	tab.WaitFor(`document.activeElement.matches('.call textarea')`)
	tab.Type(kb.Enter) // nothing to send
	tab.Type("sun here" + kb.Enter)
	tab.WaitFor(`document.activeElement === document.querySelectorAll('.call textarea')[1]`)
	tab.Type("sun there" + kb.Enter)
	tab.WaitText(last, "Sunny.")
	tab.WaitFor(idle)
	if request, _ := s.Model.Last(); len(request.ToolResults()) != 2 || strings.TrimSpace(request.ToolResults()[0].Output.String()) != "sun here" {
		t.Errorf("the model got %+v", request.ToolResults())
	}
	checkFocus(t, tab, "the results", "prompt")
	tab.Click("#tab-history")
	tab.Click("#clear")
	checkFocus(t, tab, "New chat", "prompt")
	tab.Click(".kept-open")
	checkFocus(t, tab, "the choice of a chat", "prompt")
	tab.Fill("#prompt", "say:Hello.")
	tab.Click("#send")
	tab.WaitFor(idle)
	checkFocus(t, tab, "Send", "prompt")
	checkQuiet(t, s, tab)

	tab = openPage(t, s, phone)
	checkFocus(t, tab, "the load on a phone", "BODY")
	for _, selector := range []string{".ideas li:nth-child(2) button", "#clear"} {
		tab.Click(selector)
		tab.WaitFor(idle)
		if browser.Eval[bool](tab, `document.activeElement.matches('textarea')`) {
			t.Errorf("%s opens the keyboard of a phone", selector)
		}
	}
}

// testPageAddresses: a chat has an address for reloads, bookmarks, back and forward; what has arrived of
// an answer is kept when a person leaves it.
func testPageAddresses(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	if at := address(tab); at != "" {
		t.Errorf("an empty chat has the address %q", at)
	}
	say(tab, "say:The first chat.")
	first := address(tab)
	if title := browser.Eval[string](tab, `document.title`); !strings.HasPrefix(first, "#chat=") || !strings.Contains(title, "say:The first chat.") {
		t.Errorf("the chat has the address %q and the title %q", first, title)
	}
	tab.Click("#clear")
	tab.WaitFor(`document.querySelector('#empty').offsetHeight`)
	tab.Fill("#prompt", "say:Half of it; hang")
	tab.Click("#send")
	tab.WaitText(last, "Half of it")
	second := address(tab)
	travel := func(direction, hash, text string) {
		t.Helper()
		browser.Eval[bool](tab, `(history.`+direction+`, true)`)
		tab.WaitFor(fmt.Sprintf(`location.hash === %q`, hash))
		tab.WaitFor(fmt.Sprintf(`document.querySelector('#log').innerText.includes(%q)`, text))
	}
	travel("back()", "#playground", "Ask the model")
	travel("back()", first, "The first chat.")
	travel("forward()", "#playground", "Ask the model")
	travel("forward()", second, "Half of it")
	tab.Click("#to-status")
	tab.WaitText("#status", "App-servers")
	tab.Click("#to-playground")
	tab.WaitFor(fmt.Sprintf(`location.hash === %q`, second))

	tab.Go(s.URL + "/codex/" + first) // only the part after # changes
	tab.WaitText(last, "The first chat.")
	reload(tab)
	tab.WaitText(last, "The first chat.")
	say(tab, "say:It goes on.")
	if request, _ := s.Model.Last(); !strings.Contains(string(request.Body), "The first chat.") {
		t.Errorf("the chat is lost: %s", request.Body)
	}
	tab.Fill("#prompt", "say:Not whole; hang")
	tab.Click("#send")
	tab.WaitText(last, "Not whole")
	tab.Click("#tab-history")
	tab.Click("#search")
	tab.Type("x" + kb.Escape)
	if browser.Eval[bool](tab, idle) {
		t.Error("Escape in the search stops the answer")
	}
	reload(tab)
	tab.WaitText(last, "Not whole")
	tab.WaitText("#log .assistant:last-child .meta", "stopped")
	tab.Fill("#prompt", "hang")
	tab.Click("#send")
	tab.WaitText("#health", "running")
	reload(tab)
	tab.WaitText("#log .assistant:last-child .failure", "There is no answer to this")

	for _, unknown := range []string{"#chat=unknown", "#chat=%", "#chat="} {
		browser.Eval[bool](tab, fmt.Sprintf(`(location.hash = %q, true)`, unknown))
		tab.WaitText("#composer-problem", "no chat of that address")
		if at := address(tab); at != "#playground" {
			t.Errorf("%s becomes %s", unknown, at)
		}
	}
	browser.Eval[bool](tab, fmt.Sprintf(`(location.hash = %q, true)`, first))
	tab.WaitText("#log", "The first chat.")
	tab.Click("#tab-history")
	tab.Click("#kept [aria-current] ~ [aria-label^=Forget]")
	tab.WaitFor(`location.hash === '#playground'`)
	checkQuiet(t, s, tab)
}

// testPageVersions: an answer that was made again stays, with what followed it, and the model gets the
// one that is shown, also after a reload.
func testPageVersions(t *testing.T, s *e2e.Site) {
	const prompt = "Throw a dice."
	asked := 0
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if r.UserText() != prompt {
			return scriptedmodel.Script{}, false
		}
		asked++
		return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say(fmt.Sprintf("It is %d.", asked))}}, true
	})
	tab := openPage(t, s, desktop)
	say(tab, prompt)
	say(tab, "say:A later answer.")
	tab.Click("#log .assistant .acts > button:nth-of-type(2)")
	tab.WaitFor(idle + ` && document.querySelector('.versions')`)
	shows := func(version string, texts ...string) {
		t.Helper()
		got := browser.Eval[string](tab, `document.querySelector('.versions').textContent + [...document.querySelectorAll('.said')].map((e) => e.textContent).join('|')`)
		if want := "‹" + version + "›" + strings.Join(texts, "|"); got != want {
			t.Errorf("the page shows %q, want %q", got, want)
		}
	}
	shows("2/2", "It is 2.")
	say(tab, "say:Another end.")
	shows("2/2", "It is 2.", "Another end.")
	tab.Click(".versions [aria-label=\"Previous version\"]")
	shows("1/2", "It is 1.", "A later answer.")
	if !browser.Eval[bool](tab, `document.querySelector('.versions [aria-label="Previous version"]').disabled`) {
		t.Error("there is one before the first")
	}
	reload(tab)
	shows("1/2", "It is 1.", "A later answer.")
	if meta := tab.Text(".assistant .meta"); !strings.HasPrefix(meta, "stop") || !strings.Contains(meta, "tokens in, ") {
		t.Errorf("after a reload the answer took %q", meta)
	}
	say(tab, "say:Which?")
	request, _ := s.Model.Last()
	if body := string(request.Body); !strings.Contains(body, "It is 1.") || strings.Contains(body, "It is 2.") {
		t.Errorf("the model got %s", body)
	}
	tab.Click(".versions [aria-label=\"Next version\"]")
	shows("2/2", "It is 2.", "Another end.")
	say(tab, "say:And now?")
	request, _ = s.Model.Last()
	if body := string(request.Body); !strings.Contains(body, "It is 2.") || strings.Contains(body, "It is 1.") {
		t.Errorf("the model got %s", body)
	}
	checkQuiet(t, s, tab)
}

// older is the history of a browser that was used before chats had names, addresses and versions.
const older = `[{"id":"0.25","title":"An old question","at":1,"messages":[{"role":"user","content":"An old question"},` +
	`{"role":"assistant","content":"An old answer about Lisbon"}]},{"id":"b","title":"Image","at":0,"messages":[{"role":"user","content":[` +
	`{"type":"image_url","image_url":{"url":"data:image/gif;base64,R0lGODlhAQABAAAAACw="}}]}]}]`

// testPageHistory: chats have names and are found by them and by their texts; those of an older page
// open; one that is too large to be kept, or has no room in the browser, takes no other's room; one that
// another tab has changed becomes another chat.
func testPageHistory(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	browser.Eval[bool](tab, fmt.Sprintf(`(localStorage.setItem('caddy-codex-conversations', %q), true)`, older))
	tab.Click("#tab-history")
	tab.WaitText("#history-note", "2 conversations,")
	tab.Click("#kept li:nth-child(2) .kept-open")
	tab.WaitFor(`document.querySelector('.user img')`)
	tab.Click("#kept .kept-open")
	tab.WaitText(last, "An old answer")
	say(tab, "say:A new answer.")

	tab.Click("#kept li:first-child [aria-label^=Rename]")
	tab.Type("Travels" + kb.Enter) // the old name is selected
	tab.WaitText("#kept", "Travels")
	tab.Click("#kept li:first-child [aria-label^=Rename]")
	tab.Type("not this" + kb.Escape)
	say(tab, "say:The name stays.")
	if title := browser.Eval[string](tab, `document.title + document.querySelector('.kept-title').textContent`); title != "Travels - caddy-codexTravels" {
		t.Errorf("the names are %q", title)
	}
	for words, found := range map[string]int{"travels": 1, "LISBON old": 1, "image": 1, "Lisbon image": 0, "": 2} {
		tab.Fill("#search", words)
		if got := browser.Eval[int](tab, `document.querySelectorAll('#kept li').length`); got != found {
			t.Errorf("%d chats are found with %q, not %d", got, words, found)
		}
	}
	browser.Eval[bool](tab, `(localStorage.setItem('caddy-codex-conversations', localStorage['caddy-codex-conversations'].replace(/"at":\d+/, '"at":1')), true)`)
	say(tab, "say:After another tab.")
	tab.WaitText("#composer-problem", "Another tab has changed this chat")
	tab.WaitText("#history-note", "3 conversations,")
	tab.Click("#kept li:first-child [aria-label^=Forget]")
	tab.Click("#clear")
	browser.Eval[bool](tab, `(localStorage.setItem('other', 'x'.repeat(5 * 1024 * 1024 - localStorage['caddy-codex-conversations'].length - 1000)), true)`)
	say(tab, "say:"+strings.Repeat("no room ", 300))
	tab.WaitText("#composer-problem", "no room to keep this chat")
	tab.WaitText("#history-note", "2 conversations,")
	browser.Eval[bool](tab, `(localStorage.removeItem('other'), true)`)
	tab.Click("#clear")
	say(tab, strings.Repeat("too large", 1<<18))
	tab.WaitText("#composer-problem", "no room to keep this chat")
	tab.WaitText("#history-note", "2 conversations,")
	checkQuiet(t, s, tab, http.StatusBadRequest, http.StatusRequestEntityTooLarge)
}

// testPageOptions: what a suggestion sets ends with its chat, also after a reload, which keeps all answers; the box says
// what differs.
func testPageOptions(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	shown := func() string { return tab.Text("#in-use button:first-child") }
	if got := browser.Eval[bool](tab, `document.querySelector('#in-use').hidden`); !got {
		t.Errorf("an empty page has the options %q", shown())
	}
	tab.Click(".ideas li:nth-child(3) button")
	tab.WaitFor(idle + ` && document.querySelector('.assistant .meta').textContent`)
	if got := shown(); got != "2 answers" {
		t.Errorf("the box says %q", got)
	}
	tab.Click(".several .choice:nth-child(2) .quiet")
	second := tab.Text(".several .choice:nth-child(2) .said")
	reload(tab)
	if got := shown() + tab.Text(".versions span") + tab.Text(last); got != "2 answers2/2"+second {
		t.Errorf("after a reload there is %q", got)
	}
	tab.Click("#clear")
	before := len(s.Model.Requests())
	say(tab, "say:Once.")
	if n := len(s.Model.Requests()) - before; n != 1 {
		t.Errorf("the chat after a suggestion asks the model %d times", n)
	}
	tab.Click("#tool-example")
	tab.Fill("#choices", "2")
	tab.Fill("#effort", "high")
	browser.Eval[bool](tab, `(document.querySelector('#stream').click(), true)`)
	if got := shown(); got != "1 tool, 2 answers, high reasoning, no stream" {
		t.Errorf("the box says %q", got)
	}
	tab.Click("#reset-options")
	tab.WaitFor(`document.querySelector('#in-use').hidden`)
	checkFocus(t, tab, "the reset", "prompt")
	say(tab, "say:Plain.")
	if request, _ := s.Model.Last(); len(request.ClientTools()) != 0 || request.Reasoning.Effort == "high" {
		t.Errorf("the model got %s", request.Body)
	}
	checkQuiet(t, s, tab)
}

// testPageColours: the person chooses light or dark, and the browser remembers it.
func testPageColours(t *testing.T, s *e2e.Site) {
	tab := openPage(t, s, desktop)
	ground := func() string { return browser.Eval[string](tab, `getComputedStyle(document.body).backgroundColor`) }
	light := ground()
	tab.Click("#scheme") // light
	tab.Show(dark)
	if now := ground(); now != light {
		t.Error("a dark device changes what the person has chosen")
	}
	tab.Click("#scheme") // dark
	tab.Show(desktop)
	if now := ground(); now == light {
		t.Error("dark is as light")
	}
	reload(tab)
	if now := ground(); now == light {
		t.Error("the choice is forgotten")
	}
	tab.Click("#scheme") // as the device
	if now := ground(); now != light {
		t.Error("the page does not follow the device")
	}
	checkQuiet(t, s, tab)
}

// mixed is an answer with code, formulas and a table.
const mixed = "# Roots\n\nWith $a_1 * b_2 * c$ and \\(x_1\\), for $5 or $6:\n\n$$\nx_1 = {-b \\over 2a}\n- c_2\n$$\n\n" +
	"```js\nlet a = '<b>'; // a comment\nfunction f() { return 1; }\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"

// testPageAxe checks both schemes with axe-core: headings, landmarks, labels, contrast.
func testPageAxe(t *testing.T, s *e2e.Site) {
	const prompt = "Solve it."
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		if r.UserText() != prompt {
			return scriptedmodel.Script{}, false
		}
		return scriptedmodel.Script{Output: []scriptedmodel.Output{
			scriptedmodel.Say(mixed), scriptedmodel.Call{Name: "get_weather", Arguments: `{"city":"Oslo"}`},
		}}, true
	})
	tab := openPage(t, s, desktop)
	axe := e2e.ReadFile(t, "node_modules/axe-core/axe.min.js")
	check := func(where string) {
		t.Helper()
		for _, scheme := range []browser.Screen{desktop, dark} {
			tab.Show(scheme)
			browser.Eval[bool](tab, axe+`;(window.found = null, axe.run().then(({ violations }) => {
				window.found = violations.map((v) => v.impact + ' ' + v.id + ': ' + v.nodes.map((n) => n.target.join(' ')).join(', ')).join('\n');
			}), true)`)
			tab.WaitFor(`window.found !== null`)
			if found := browser.Eval[string](tab, `window.found`); found != "" {
				t.Errorf("%s, dark %t: %s", where, scheme.Dark, found)
			}
		}
	}
	check("the empty chat")
	tab.Click("#tool-example")
	say(tab, prompt)
	tab.WaitFor(`document.querySelector('.code-keyword')`)
	if got := browser.Eval[string](tab, `[...document.querySelectorAll('.formula')].map((e) => e.textContent).join('|')`); got != "$a_1 * b_2 * c$|\\(x_1\\)|$$\nx_1 = {-b \\over 2a}\n- c_2\n$$" {
		t.Errorf("the formulas are %q", got)
	}
	if got := browser.Eval[string](tab, `['keyword', 'string', 'comment', 'number'].map((c) => document.querySelector('.code-' + c).textContent).join('|')`); got != "let|'<b>'|// a comment|1" {
		t.Errorf("the code has the parts %q", got)
	}
	check("a chat with a call, code and formulas")
	for _, pane := range []string{"#tab-events", "#tab-code", "#tab-history"} {
		tab.Click(pane)
		check(pane)
	}
	labels := browser.Eval[string](tab, `[...document.querySelectorAll('#log article.message')].map((e) => e.getAttribute('aria-label') + '/' + e.querySelector('h3').textContent).join()`)
	if labels != "You/You,Model/Model" {
		t.Errorf("the messages are labelled %s", labels)
	}
	if !browser.Eval[bool](tab, `document.querySelector('.user .text').getBoundingClientRect().left > document.querySelector('.assistant .said').getBoundingClientRect().left + 50`) {
		t.Error("what the person said is where the model's answer is")
	}
	tab.Click("#to-status")
	tab.WaitText("#recent", "chat")
	check("the status")
	checkQuiet(t, s, tab)
}
