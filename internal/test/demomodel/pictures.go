package demomodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // the formats of pictures that the model knows
	_ "image/jpeg"
	"image/png"
	"math"
	"regexp"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// Picture returns the picture that is made of every prompt: hills before a low sun, a PNG in base64.
func Picture() string {
	const width, height = 512, 384
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			fx, fy := float64(x), float64(y)
			c := color.RGBA{uint8(250 - y/6), uint8(170 + y/8), uint8(110 + y/4), 255} // the sky
			if math.Hypot(fx-350, fy-190) < 48 {
				c = color.RGBA{255, 236, 179, 255}
			}
			for hill, ridge := range []float64{230 + 30*math.Sin(fx/60), 275 + 24*math.Sin(fx/45+2), 320 + 18*math.Sin(fx/70+4)} {
				if fy > ridge {
					c = color.RGBA{uint8(90 - 25*hill), uint8(110 - 22*hill), uint8(150 - 28*hill), 255}
				}
			}
			picture.SetRGBA(x, y, c)
		}
	}
	var made bytes.Buffer
	if err := png.Encode(&made, picture); err != nil {
		panic(err) // a buffer takes everything
	}
	return base64.StdEncoding.EncodeToString(made.Bytes())
}

// pictureAsked is in the instructions with which the gateway asks for a picture.
const pictureAsked = "You make one picture with the tool imagegen"

var (
	transparent = regexp.MustCompile(`Set transparent_background to (true|false)`)
	ofPictures  = regexp.MustCompile(`Set num_last_images_to_include to (\d+)`)
)

// pictureCall makes the picture that the gateway asks for, with Codex's own tool.
func pictureCall(q question) []scriptedmodel.Output {
	told := strings.Join(append(q.req.Said("developer"), q.req.Instructions), "\n")
	if !strings.Contains(told, pictureAsked) {
		return nil
	}
	if len(q.req.ToolResults()) > 0 {
		return []scriptedmodel.Output{scriptedmodel.Say("The picture is made.")}
	}
	arguments := map[string]any{"prompt": q.req.UserText()}
	if match := transparent.FindStringSubmatch(told); match != nil {
		arguments["transparent_background"] = match[1] == "true"
	}
	if match := ofPictures.FindStringSubmatch(told); match != nil {
		arguments["num_last_images_to_include"] = json.Number(match[1])
	}
	return []scriptedmodel.Output{scriptedmodel.Call{Namespace: "image_gen", Name: "imagegen", Arguments: encoded(arguments)}}
}

// aboutPicture describes the last picture of the user's last message, if it has one.
func aboutPicture(q question) string {
	url := q.req.Picture()
	if url == "" {
		return ""
	}
	_, data, _ := strings.Cut(url, ";base64,")
	raw, _ := base64.StdEncoding.DecodeString(data) // empty: no picture
	config, format, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return "I have got your picture, but I can look at PNG, JPEG and GIF files only."
	}
	return fmt.Sprintf("I see a picture, a **%s** of %d × %d pixels.", strings.ToUpper(format), config.Width, config.Height)
}
