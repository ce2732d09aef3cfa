package turn

import (
	"encoding/base64"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// The events of a turn for a picture.
var (
	pictureCall    = codexrpc.Event{Kind: codexrpc.EventFunctionCall, CallID: "c", Name: codexrpc.PictureTool, Text: `{"prompt":"a cat"}`}
	pictureStarted = codexrpc.Event{Kind: codexrpc.EventItemStarted, ItemType: codexrpc.ItemPicture, ItemID: "c"}
	pictureFailed  = codexrpc.Event{Kind: codexrpc.EventItemCompleted, ItemType: codexrpc.ItemPicture, ItemID: "c", Status: codexrpc.StatusFailed}
	onePNG         = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nand so on"))
)

func pictureMade(data string) codexrpc.Event {
	return codexrpc.Event{
		Kind: codexrpc.EventItemCompleted, ItemType: codexrpc.ItemPicture, ItemID: "c", Status: codexrpc.StatusCompleted,
		Text: data, Name: "a cat", Transparent: true,
	}
}

func pictureAnswer(text, status string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventCallOutput, CallID: "c", Text: text, Status: status}
}

// TestPicture feeds turns for a picture: each ends with the picture or with why there is none, and the
// client gets nothing else of it.
func TestPicture(t *testing.T) {
	completed := ended(codexrpc.StatusCompleted, nil)
	blocked := `image generation failed: http 400 Bad Request: Some("{\"error\":{\"message\":\"No.\",\"code\":\"moderation_blocked\"}}")`
	resets := time.Unix(1800000000, 0)
	spent := pictureFailed
	spent.Err = &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit, ResetsAt: resets}
	spentAnswer := `image generation failed: http 429 Too Many Requests: Some("{\"error\":{\"type\":\"usage_limit_reached\",\"message\":\"Spent.\"}}")`
	for name, test := range map[string]struct {
		events []codexrpc.Event
		want   error // nil: the picture
	}{
		"made":           {[]codexrpc.Event{pictureCall, pictureStarted, response(3), pictureMade(onePNG)}, nil},
		"after a text":   {[]codexrpc.Event{delta("m", "Here it is."), whole("m", "Here it is."), pictureCall, response(3), pictureStarted, pictureMade(onePNG)}, nil},
		"another format": {[]codexrpc.Event{pictureCall, response(3), pictureStarted, pictureMade("R0lGODlhAQABAAAAACw=")}, &PictureError{Message: "the provider has sent a picture that is no PNG"}},
		"no base64":      {[]codexrpc.Event{pictureCall, response(3), pictureStarted, pictureMade(onePNG[:len(onePNG)-1])}, &PictureError{Message: "the provider has sent a picture that is no PNG"}},
		"a quote":        {[]codexrpc.Event{pictureCall, response(3), pictureStarted, pictureMade(onePNG[:len(onePNG)-8] + `","b":"A`)}, &PictureError{Message: "the provider has sent a picture that is no PNG"}},
		"blocked": {[]codexrpc.Event{pictureCall, response(3), pictureStarted, pictureFailed, pictureAnswer(blocked, "")}, &PictureError{
			Status: http.StatusBadRequest, Code: "moderation_blocked", Message: "The picture could not be made: No.",
		}},
		"spent": {[]codexrpc.Event{pictureCall, response(3), pictureStarted, spent, pictureAnswer(spentAnswer, "")}, &PictureError{
			Status: http.StatusTooManyRequests, Code: "usage_limit_reached", Message: "The picture could not be made: Spent.", Spent: true, ResetsAt: resets,
		}},
		"failed without a reason": {[]codexrpc.Event{pictureCall, response(3), pictureStarted, pictureFailed, completed}, &PictureError{Message: "the picture could not be made"}},
		"mended":                  {[]codexrpc.Event{pictureCall, response(3), pictureAnswer("", ""), pictureCall, response(3), pictureStarted, pictureMade(onePNG)}, nil},
		"not offered":             {[]codexrpc.Event{pictureCall, response(3), pictureAnswer("", codexrpc.StatusFailed)}, ErrNoPictures},
		"only written":            {[]codexrpc.Event{delta("m", "I would rather not."), whole("m", "I would rather not."), response(3), completed}, &NoPictureError{Said: "I would rather not."}},
		"cut":                     {[]codexrpc.Event{delta("m", "I"), ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: incompletePrefix + "content_filter"})}, &NoPictureError{Said: "I"}},
		"called for ever":         {slicesRepeat(maxStrayResponses, pictureCall, response(3), pictureAnswer("", "")), &NoPictureError{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(&Options{Picture: true, ClientName: func(string) (string, bool) { return "", false }})
			var got []Output
			for i := range test.events {
				got = append(got, m.Feed(test.events[i:i+1])...)
			}
			if !m.Done() {
				t.Fatal("the turn goes on")
			}
			if test.want != nil {
				if len(got) != 1 || got[0].Kind != OutputFailure || !reflect.DeepEqual(got[0].Err, test.want) {
					t.Errorf("got %+v", got)
				}
				return
			}
			if len(got) != 2 || got[0].Kind != OutputPicture || got[0].Text != onePNG || got[0].Name != "a cat" || !got[0].Transparent ||
				got[1].Kind != OutputFinish || got[1].End.Usage.TotalTokens == 0 || got[1].End.Estimated {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestPictureAskedAgain checks that a turn for a picture uses the budget for a further response, but only
// if Codex has made no picture, and that the usage lacks the input of such a response if it breaks off.
func TestPictureAskedAgain(t *testing.T) {
	stray := codexrpc.Event{Kind: codexrpc.EventFunctionCall, CallID: "s", Name: "mine", Text: "{}"}
	for name, test := range map[string]struct {
		events []codexrpc.Event
		again  bool // Codex asks the model for a further response
	}{
		"made":     {[]codexrpc.Event{pictureCall, response(3), pictureStarted, pictureMade(onePNG)}, false},
		"awaited":  {[]codexrpc.Event{pictureCall, response(3), pictureStarted}, false},
		"mistaken": {[]codexrpc.Event{pictureCall, response(3), pictureAnswer("", "")}, true},
		"stray":    {[]codexrpc.Event{stray, response(3)}, true},
		"both":     {[]codexrpc.Event{stray, pictureCall, response(3), pictureStarted}, false},
	} {
		for _, left := range []int{100, 6} {
			options := &Options{Picture: true, Budget: &purse{left: left}, ClientName: func(string) (string, bool) { return "", false }}
			m := New(options)
			m.Feed(test.events)
			if spent := test.again && left == 6; spent != (options.Budget.(*purse).left == 0) || m.Done() != (spent || name == "made") {
				t.Errorf("%s, with %d tokens: done %t, %+v", name, left, m.Done(), options.Budget)
			}
			m.Abandon()
			if _, estimated := m.Usage(); estimated != (test.again && left == 100) {
				t.Errorf("%s, with %d tokens: estimated %t", name, left, estimated)
			}
		}
	}
}

func slicesRepeat(n int, events ...codexrpc.Event) (all []codexrpc.Event) {
	for range n {
		all = append(all, events...)
	}
	return all
}

// TestPicturePatience: while Codex waits for a picture, a silence is no sign of a failure.
func TestPicturePatience(t *testing.T) {
	m := New(&Options{Picture: true})
	for _, step := range []struct {
		event codexrpc.Event
		want  time.Duration
	}{{pictureCall, time.Minute}, {pictureStarted, pictureTime}, {pictureFailed, time.Minute}} {
		m.Feed([]codexrpc.Event{step.event})
		if got := m.maxSilence(time.Minute); got != step.want {
			t.Errorf("after %v: %v", step.event.Kind, got)
		}
	}
}

// FuzzPictureError reads whatever Codex may say of a failed picture.
func FuzzPictureError(f *testing.F) {
	for _, text := range []string{
		"", "image generation failed: http 502 Bad Gateway: None", `image generation failed: http 400 Bad Request: Some("{\"error\":3}")`,
		`image generation failed: http 403 Forbidden: Some("<html>\u{a}</html>")`, "image generation failed: error decoding response body",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if e := newPictureError(text, nil); e.Message == "" || e.Status < 0 || e.Status > 999 || strings.HasPrefix(text, "image generation failed: http 502 ") && e.Status != http.StatusBadGateway {
			t.Errorf("%q: %+v", text, e)
		}
	})
}
