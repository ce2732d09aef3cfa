package prompt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Pictures are the settings for pictures that the model may make with Codex's own tool.
type Pictures struct {
	Only bool // the turn makes one picture, and ends with it

	size       string // the size that the client asks for, such as 1024x1536; empty: any size
	background string // transparent or opaque; empty: any background
	action     string // generate or edit; empty: the model decides
}

// PictureReaders has a reader for each setting of pictures, by the name of the setting. The names
// are the same in all APIs. Most settings have no effect, since Codex's tool has no arguments for
// them. The readers need a [Conversation].Pictures that is not nil.
var PictureReaders = map[string]func(*Conversation, wirejson.Value) *field.Error{
	"size":          (*Conversation).readPictureSize,
	"background":    (*Conversation).readPictureBackground,
	"output_format": readPictureFormat,

	"quality":            skipSetting("quality", `"auto"`, wirejson.KindString),
	"moderation":         skipSetting("moderation", `"auto"`, wirejson.KindString),
	"input_fidelity":     skipSetting("input_fidelity", `"low"`, wirejson.KindString),
	"output_compression": skipSetting("output_compression", "100", wirejson.KindNumber),
	"partial_images":     skipSetting("partial_images", "0", wirejson.KindNumber),
}

// skipSetting returns the reader of a setting for which Codex's tool has no argument. The reader
// checks that the value has the given kind. neutral is the value that has no effect. If another
// value is given, the reader lists the setting in Ignored.
func skipSetting(name, neutral string, kind wirejson.Kind) func(*Conversation, wirejson.Value) *field.Error {
	return func(c *Conversation, v wirejson.Value) *field.Error { return c.Skip(v, name, neutral, kind) }
}

// sizePattern matches the size of a picture: a width and a height, such as 1024x1536.
var sizePattern = regexp.MustCompile(`^([1-9]\d{1,4})x([1-9]\d{1,4})$`)

// readPictureSize reads the size. A sentence of the prompt asks the model for it, but the picture
// may have another size. Therefore readPictureSize also lists "size" in Ignored.
func (c *Conversation) readPictureSize(v wirejson.Value) *field.Error {
	p := c.Pictures
	f := field.Text(&p.size, v)
	switch {
	case f != nil:
		return f
	case p.size == "auto" || p.size == "":
		p.size = ""
		return nil
	case !sizePattern.MatchString(p.size):
		return field.Invalid("must be auto, or a width and a height as in 1024x1536")
	}
	c.Ignore("size")
	return nil
}

func (c *Conversation) readPictureBackground(v wirejson.Value) *field.Error {
	p := c.Pictures
	f := field.OneOf(&p.background, []string{"auto", "transparent", "opaque"}, v)
	if p.background == "auto" {
		p.background = ""
	}
	return f
}

func readPictureFormat(_ *Conversation, v wirejson.Value) *field.Error {
	var format string
	f := field.OneOf(&format, []string{"png", "jpeg", "webp"}, v)
	if f == nil && format != "" && format != "png" {
		return field.Unsupported("must be png: Codex makes no other pictures")
	}
	return f
}

// ReadAction reads the action: whether the model makes new pictures, or edits pictures of the
// conversation.
func (p *Pictures) ReadAction(v wirejson.Value) *field.Error {
	f := field.OneOf(&p.action, []string{"auto", "generate", "edit"}, v)
	if p.action == "auto" {
		p.action = ""
	}
	return f
}

// NoMask says why a mask is refused.
const NoMask = "Codex edits whole pictures only. Say in the prompt what is to change"

// SizeInWords returns the sentence about the size for the prompt of a picture, since Codex's tool
// has no argument for the size. It returns "" if the picture may have any size.
func (p *Pictures) SizeInWords() string {
	if p.size == "" {
		return ""
	}
	width, height, _ := strings.Cut(p.size, "x")
	shape := "square"
	switch {
	case len(width) != len(height) && len(width) > len(height), len(width) == len(height) && width > height:
		shape = "landscape"
	case width != height:
		shape = "portrait"
	}
	return fmt.Sprintf("The picture is %s, %s by %s pixels.", shape, width, height)
}

// Background returns the sentence about the background for the model. It returns "" if the picture
// may have any background.
func (p *Pictures) Background() string {
	if p.background == "" {
		return ""
	}
	return fmt.Sprintf("Set transparent_background to %t.", p.background == "transparent")
}

// pictureInstruction returns the instruction for the model about pictures in an answer. It returns
// "" if none is needed.
func (c *Conversation) pictureInstruction() string {
	p := c.Pictures
	if !c.mayUseHosted(PictureTool) || p.Only {
		return ""
	}
	var sentences []string
	if size := p.SizeInWords(); size != "" {
		sentences = append(sentences, "The prompt of each picture ends with the sentence: "+size)
	}
	if background := p.Background(); background != "" {
		sentences = append(sentences, background)
	}
	switch p.action {
	case "generate":
		sentences = append(sentences, "Make new pictures: do not set num_last_images_to_include.")
	case "edit":
		sentences = append(sentences, "Make the picture of the last ones in the conversation: set num_last_images_to_include to how many.")
	}
	if sentences == nil {
		return ""
	}
	return "For the tool imagegen: " + strings.Join(sentences, " ")
}

// madePicture is the beginning of the text that precedes a picture of an earlier answer.
const madePicture = "A picture that you have made"

// MadePicture returns a message that shows the model a picture of an earlier answer. data is the
// picture in base64, as a JSON string. prompt is the prompt of the picture, and may be absent.
func MadePicture(data, prompt wirejson.Value) (Message, *field.Error) {
	p, f := Base64Image(data)
	text := madePicture + "."
	if prompt.Kind() == wirejson.KindString {
		text = madePicture + " of the prompt: " + prompt.Text()
	}
	return Message{Role: RoleUser, Content: []Part{{Text: wirejson.AppendString(nil, text)}, p}}, f
}

// splitPictures splits an assistant's message. text is the message without its pictures. pictures
// is a message with the pictures, or an empty message if there are none. The caller sends pictures
// as a user's message, since only such a message can show pictures to the model.
func (m *Message) splitPictures() (text, pictures Message) {
	text = *m
	if !slices.ContainsFunc(m.Content, func(p Part) bool { return p.URL != nil }) {
		return text, pictures
	}
	text.Content = nil
	pictures.Content = []Part{{Text: wirejson.AppendString(nil, madePicture+".")}}
	for _, p := range m.Content {
		if p.URL != nil {
			pictures.Content = append(pictures.Content, p)
		} else {
			text.Content = append(text.Content, p)
		}
	}
	return text, pictures
}
