// Package browser drives a headless Chromium in tests.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/needs"
)

// deadline bounds a whole test of a page. Passing tests do not reach it.
const deadline = 5 * time.Minute

// shared is the browser of all tabs of a test program: its start takes longer than a page's test.
var shared struct {
	mu   sync.Mutex
	ctx  context.Context // of its first tab; nil: it was not started
	stop context.CancelFunc
}

// start starts the browser, unless it runs.
func start() (context.Context, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.ctx != nil {
		return shared.ctx, nil
	}
	path, err := find()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(deadline))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, err
	}
	shared.ctx, shared.stop = ctx, stop
	return ctx, nil
}

// Close ends the browser, if one was started.
func Close() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.ctx == nil {
		return
	}
	ctx, cancel := context.WithTimeout(shared.ctx, deadline)
	defer cancel()
	_ = chromedp.Cancel(ctx) // closes the browser
	shared.stop()
	chromedp.FromContext(shared.ctx).Allocator.Wait()
	shared.ctx = nil
}

// programs are Chromium's names. The first has no windows, which take two thirds of the time.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

func find() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this test needs Chromium: install it (`make deps` does, as root on Debian), or set CHROMIUM")
}

// Screen is what a page is shown on.
type Screen struct {
	Width, Height int64
	Phone         bool // with touch and without scroll bars
	Dark          bool
}

// Tab is a page. It shares nothing that is kept, such as cookies, with other tabs.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string // what the browser complains about
	requests []string // the URLs of all requests
}

// command returns the action of a command of the protocol without a result.
func command[P any](c protocol.Command[P, protocol.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := protocol.Call(ctx, t, c, params)
		return err
	})
}

// Open opens an empty tab until the end of the test. After all tests, the program calls [Close].
func Open(t testing.TB, screen Screen) *Tab {
	t.Helper()
	ctx, err := start()
	if err != nil {
		needs.Missing(t, err.Error())
	}
	ctx, stop := context.WithTimeout(ctx, deadline)
	tabCtx, _ := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(func() {
		_ = chromedp.Cancel(tabCtx) // closes the tab
		stop()
	})
	tab := &Tab{t: t, ctx: tabCtx}
	must.OK(t, chromedp.Listen(tabCtx, tab.observe))
	tab.do(command(network.Enable, network.EnableParams{}), command(log.Enable, protocol.Empty{}), command(runtime.Enable, protocol.Empty{}))
	tab.Show(screen)
	return tab
}

// observe notes what the browser complains about, and where it sends requests.
func (tab *Tab) observe(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tab.problems = append(tab.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		tab.problems = append(tab.problems, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		for _, arg := range e.Args {
			tab.problems = append(tab.problems, fmt.Sprintf("console: %s", arg.Value))
		}
	case *page.EventJavascriptDialogOpening:
		tab.problems = append(tab.problems, "dialog: "+e.Message)
	case *network.EventRequestWillBeSent:
		tab.requests = append(tab.requests, e.Request.URL)
	}
}

// Problems returns the browser's complaints, except about these statuses, which the page handles.
func (tab *Tab) Problems(handled ...int) []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	var left []string
	for _, problem := range tab.problems {
		expected := false
		for _, status := range handled {
			expected = expected || strings.Contains(problem, fmt.Sprintf("responded with a status of %d", status))
		}
		if !expected {
			left = append(left, problem)
		}
	}
	return left
}

// Requests returns the URLs of all requests.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return append([]string(nil), tab.requests...)
}

func (tab *Tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	must.OK(tab.t, chromedp.Do(tab.ctx, actions...))
}

// Show shows the page on another screen.
func (tab *Tab) Show(screen Screen) {
	tab.t.Helper()
	scheme := "light"
	if screen.Dark {
		scheme = "dark"
	}
	tab.do(
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: screen.Width, Height: screen.Height, DeviceScaleFactor: 1, Mobile: screen.Phone}),
		command(emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: screen.Phone}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}),
	)
}

// Go loads a page.
func (tab *Tab) Go(url string) {
	tab.t.Helper()
	tab.do(chromedp.Navigate(url))
}

// Click clicks the first element of a selector, as a mouse does.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	tab.do(chromedp.Click(chromedp.CSS(selector)))
}

// Type presses keys, which go where the focus is. Those of package kb are keys without a character.
func (tab *Tab) Type(keys string) {
	tab.t.Helper()
	tab.do(chromedp.KeyEvent(keys))
}

// Fill replaces the value of a field, as typing does.
func (tab *Tab) Fill(selector, text string) {
	tab.t.Helper()
	Eval[bool](tab, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.value = %q; e.dispatchEvent(new Event('input', {bubbles: true})); return true })()`, selector, text))
}

// Upload chooses a file.
func (tab *Tab) Upload(selector, path string) {
	tab.t.Helper()
	tab.do(chromedp.SetUploadFiles(chromedp.CSS(selector), []string{path}))
}

// Eval evaluates JavaScript and returns the result.
func Eval[T any](tab *Tab, script string) T {
	tab.t.Helper()
	value, err := chromedp.Run(tab.ctx, chromedp.Evaluate[T](script))
	must.OK(tab.t, err)
	return value
}

// Text returns the visible text of an element, or "".
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	return Eval[string](tab, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector))
}

// WaitFor waits until an expression is true.
func (tab *Tab) WaitFor(condition string) {
	tab.t.Helper()
	for end := time.Now().Add(deadline / 4); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if Eval[bool](tab, "Boolean("+condition+")") {
			return
		}
	}
	tab.t.Fatalf("waited in vain for %s; the page says:\n%s\n%s", condition, tab.Text("body"), tab.Problems())
}

// WaitText waits until an element has a text.
func (tab *Tab) WaitText(selector, text string) {
	tab.t.Helper()
	tab.WaitFor(fmt.Sprintf(`document.querySelector(%q)?.innerText.includes(%q)`, selector, text))
}

// Screenshot returns a PNG of what is shown.
func (tab *Tab) Screenshot() []byte {
	tab.t.Helper()
	image, err := chromedp.Run(tab.ctx, chromedp.CaptureScreenshot())
	must.OK(tab.t, err)
	return image
}
