package planbackend

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Picture is a request for a picture.
type Picture struct {
	Edit       bool
	Prompt     string
	Background string
	Images     []string // the pictures to edit, as data URLs
	TurnID     string   // Codex's
}

// pictures are what is known of pictures.
type pictures struct {
	asked  []Picture
	answer string // see SetPicture
}

// maxPictures bounds the requests that are kept.
const maxPictures = 256

// The size of the pictures that are made.
const (
	PictureWidth  = 6
	PictureHeight = 4
)

// MadePicture is the picture that is made of every prompt: a PNG in base64.
var MadePicture = func() string {
	var made bytes.Buffer
	if err := png.Encode(&made, image.NewGray(image.Rect(0, 0, PictureWidth, PictureHeight))); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(made.Bytes())
}()

// SetPicture sets what is answered instead of [MadePicture]; empty: that.
func (b *Backend) SetPicture(data string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pictures.answer = data
}

// PicturesAsked returns the requests for pictures that were answered, in their order.
func (b *Backend) PicturesAsked() []Picture {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.pictures.asked)
}

// picture answers a request for a picture.
func (b *Backend) picture(w http.ResponseWriter, r *http.Request, _ *Login) {
	var asked struct {
		Prompt, Background string
		Images             []struct {
			URL string `json:"image_url"`
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, object{"detail": err.Error()})
		return
	}
	p := Picture{
		Edit: strings.HasSuffix(r.URL.Path, "/edits"), Prompt: asked.Prompt, Background: asked.Background, TurnID: r.Header.Get("x-codex-image-turn-id"),
	}
	for _, image := range asked.Images {
		p.Images = append(p.Images, image.URL)
	}
	b.mu.Lock()
	if len(b.pictures.asked) < maxPictures {
		b.pictures.asked = append(b.pictures.asked, p)
	}
	data := cmp.Or(b.pictures.answer, MadePicture)
	b.mu.Unlock()
	writeJSON(w, http.StatusOK, object{
		"created": time.Now().Unix(), "background": asked.Background, "data": []object{{"b64_json": data, "generation_id": "gen-1"}},
	})
}
