package turn

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// pictureTime is the least idle timeout while Codex makes a picture, since Codex sends no events then.
const pictureTime = 15 * time.Minute

// pictureTool is the state of Codex's picture tool in a turn for a picture.
type pictureTool struct {
	lastCallID string              // id of the model's last call of the tool
	awaited    bool                // Codex has not answered that call
	inProgress bool                // Codex waits for the picture
	failure    *codexrpc.TurnError // why Codex could not make the last picture, as far as Codex says; nil: no picture has failed
	modelText  []byte              // text of the model, which may say why there is no picture
}

// maxTextInstead is how many bytes of text are kept if the model writes instead of making a picture.
const maxTextInstead = 2 << 10

func (p *pictureTool) addText(text string) {
	p.modelText = append(p.modelText, text[:min(len(text), maxTextInstead-len(p.modelText))]...)
}

// pictureItemCompleted processes a picture of Codex. The turn ends with it, and fails if it is no
// PNG. If Codex could not make the picture, its answer to the call follows, and says why.
func (m *Machine) pictureItemCompleted(e *codexrpc.Event) {
	m.pictureTool.inProgress = false
	switch {
	case m.stopped():
	case e.Status == codexrpc.StatusFailed || e.Text == "":
		m.pictureTool.failure = cmp.Or(e.Err, new(codexrpc.TurnError))
	case !isPNG(e.Text):
		m.fail(errNoPNG)
	default:
		m.out.emit(Output{Kind: OutputPicture, ID: e.ItemID, Name: e.Name, Text: e.Text, Transparent: e.Transparent})
		m.report.Pictures++
		m.finish(false)
	}
}

// pictureCallAnswered reads Codex's answer to the call. If there was no picture, the turn fails.
// Otherwise it goes on: the model may correct a call that Codex did not understand.
func (m *Machine) pictureCallAnswered(e *codexrpc.Event) {
	switch {
	case e.Status == codexrpc.StatusFailed:
		m.fail(ErrNoPictures)
	case m.pictureTool.failure != nil || e.Text != "":
		m.fail(newPictureError(e.Text, m.pictureTool.failure))
	default:
		m.pictureTool.awaited = false
		m.expectResponse(true)
	}
}

func (m *Machine) failWithoutPicture() {
	if m.pictureTool.failure != nil {
		m.fail(newPictureError("", m.pictureTool.failure))
		return
	}
	m.fail(&NoPictureError{Said: strings.ToValidUTF8(string(m.pictureTool.modelText), "")})
}

// maxSilence returns how long the model may be silent: longer while Codex waits for a picture.
func (m *Machine) maxSilence(idle time.Duration) time.Duration {
	if m.pictureTool.inProgress {
		return max(idle, pictureTime)
	}
	return idle
}

// isPNG reports whether data begins like a PNG and is valid base64, which needs no escapes in JSON.
func isPNG(data string) bool {
	const magic = "iVBORw0KGg" // "\x89PNG\r\n\x1a\n" in base64, but for the last four bits
	return strings.HasPrefix(data, magic) && wirejson.IsBase64(wirejson.View(data))
}

// ErrNoPictures means that there is no picture because Codex makes none with this login.
var ErrNoPictures = errors.New("codex makes no pictures with this login: it needs a ChatGPT login with a plan that is not free")

var errNoPNG = &PictureError{Message: "the provider has sent a picture that is no PNG"}

// NoPictureError is the failure of a turn for a picture in which the model has only written.
type NoPictureError struct{ Said string }

// Error returns a sentence with the text of the model, if there is any.
func (e *NoPictureError) Error() string {
	return "The model made no picture. " + cmp.Or(strings.TrimSpace(e.Said), "It gave no reason.")
}

// PictureError says why the provider did not make a picture.
type PictureError struct {
	Status   int    // the HTTP status of the provider's answer; 0: not known
	Code     string // the provider's error code; empty: none
	Message  string
	Spent    bool      // the plan allows no more pictures now; it may still allow other turns
	ResetsAt time.Time // when the plan allows pictures again; zero: not known
}

// Error returns the message.
func (e *PictureError) Error() string { return e.Message }

// pictureStatus finds the HTTP status and the body of the provider's answer in Codex's text about a
// missing picture. The body is quoted as in Rust, which is nearly always as in Go.
var pictureStatus = regexp.MustCompile(`(?s)http (\d{3})[^:]*(?:: Some\((".*")\))?`)

// newPictureError makes an error of Codex's answer to the call and of the picture's own error, if any.
func newPictureError(text string, failure *codexrpc.TurnError) *PictureError {
	e := &PictureError{Message: cmp.Or(text, "the picture could not be made")}
	if found := pictureStatus.FindStringSubmatch(text); found != nil {
		e.Status, _ = strconv.Atoi(found[1])
		e.readBody(found[2])
	}
	if failure != nil {
		e.Spent, e.ResetsAt = failure.Code == codexrpc.CodeUsageLimit, failure.ResetsAt
	}
	e.Spent = e.Spent || e.Status == http.StatusTooManyRequests && e.Code == "usage_limit_reached"
	return e
}

func (e *PictureError) readBody(quoted string) {
	body, err := strconv.Unquote(quoted)
	if err != nil {
		return
	}
	var answer struct {
		Error struct{ Code, Type, Message string }
	}
	_ = json.Unmarshal([]byte(body), &answer) // what is no text stays empty
	e.Code = cmp.Or(answer.Error.Code, answer.Error.Type)
	if answer.Error.Message != "" {
		e.Message = "The picture could not be made: " + answer.Error.Message
	}
}
