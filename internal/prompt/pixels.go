package prompt

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
)

const (
	// MaxPixels is how many pixels an image may have: as many as 8192 by 8192. Codex decodes the
	// image, which needs some seven bytes of memory for each pixel, even if the file is short. If a
	// PNG has two bytes for each colour, a pixel needs sixteen bytes, and counts twice.
	MaxPixels = 64 << 20
	// maxAllPixels is how many pixels the images of a request may have together. It is larger than
	// MaxPixels since Codex decodes one image after the other.
	maxAllPixels = 16 * MaxPixels
)

// checkPixels reads the size of an image from the header of its data in base64, and refuses an image
// with too many pixels.
func (p *Part) checkPixels(media string, data []byte) *field.Error {
	width, height, deep, err := imageSize(media, base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // the data end before the size, so nobody can decode the image
	}
	if p.pixels = width * height; deep {
		p.pixels *= 2
	}
	switch {
	case err != nil || width <= 0 || height <= 0:
		return field.Invalid("does not hold an image whose size can be read")
	case p.pixels > MaxPixels && deep:
		return field.Invalid("has %d by %d pixels with 16 bits for each colour, and such an image may have %d pixels: make it smaller", width, height, MaxPixels/2)
	case p.pixels > MaxPixels:
		return field.Invalid("has %d by %d pixels, and an image may have %d pixels: make it smaller", width, height, MaxPixels)
	}
	return nil
}

// CheckImage checks the data URL of an image, and returns how many pixels the image has.
func CheckImage(url string) (pixels int64, f *field.Error) {
	var p Part
	_, rest, _ := strings.Cut(url, ":")
	f = p.checkImageData([]byte(rest))
	return p.pixels, f
}

// Pixels returns how many pixels the largest image of the conversation has.
func (c *Conversation) Pixels() int64 { largest, _ := c.pixels(); return largest }

// CheckPixels returns an error if the images of the conversation have too many pixels together.
func (c *Conversation) CheckPixels() *field.Error {
	if _, all := c.pixels(); all > maxAllPixels {
		return field.Invalid("has images of %d pixels together, and a request may have %d", all, maxAllPixels)
	}
	return nil
}

func (c *Conversation) pixels() (largest, all int64) {
	for i := range c.Messages {
		for k := range c.Messages[i].Content {
			n := c.Messages[i].Content[k].pixels
			largest, all = max(largest, n), all+n
		}
	}
	return largest, all
}

var errNoSize = errors.New("the image has no size")

// imageSize reads the size of an image from the beginning of its data. media is one of
// [ImageTypes]. deep reports whether the image has two bytes for each colour. imageSize decodes no
// pixels, and skips the data before the size, such as the comments of a camera.
func imageSize(media string, from io.Reader) (width, height int64, deep bool, err error) {
	switch media {
	case "image/png":
		c, err := png.DecodeConfig(from)
		switch c.ColorModel {
		case color.Gray16Model, color.RGBA64Model, color.NRGBA64Model:
			deep = true
		}
		return int64(c.Width), int64(c.Height), deep, err
	case "image/jpeg":
		c, err := jpeg.DecodeConfig(from)
		return int64(c.Width), int64(c.Height), false, err
	case "image/gif":
		width, height, err = gifSize(from)
	case "image/webp":
		width, height, err = webpSize(from)
	default:
		err = errNoSize
	}
	return width, height, false, err
}

// gifSize returns the size of a GIF: the larger width and the larger height of its screen and its
// first frame. Further frames do not matter, since only the first one is decoded.
func gifSize(from io.Reader) (width, height int64, err error) {
	g := skipper{from: from}
	head := g.next(13)
	width, height = little16(head[6:]), little16(head[8:])
	g.skipColors(head[10])
	for g.err == nil {
		switch g.next(1)[0] {
		case '!':
			g.next(1)
			for n := g.next(1)[0]; n > 0 && g.err == nil; n = g.next(1)[0] {
				g.next(int(n))
			}
		case ',':
			frame := g.next(9)
			return max(width, little16(frame[4:])), max(height, little16(frame[6:])), g.err
		default: // it has no frame
			return width, height, g.err
		}
	}
	return 0, 0, g.err
}

// skipper reads the parts of a file. After an error, it returns zeros.
type skipper struct {
	from io.Reader
	buf  [768]byte
	err  error
}

// next returns the next n bytes; n is at most 768. They are valid until the next call.
func (s *skipper) next(n int) []byte {
	part := s.buf[:n]
	clear(part)
	if s.err == nil {
		_, s.err = io.ReadFull(s.from, part)
	}
	return part
}

// skipColors skips a table of colours, if the flags say that there is one.
func (s *skipper) skipColors(flags byte) {
	if flags&0x80 != 0 {
		s.next(3 << (1 + flags&7))
	}
}

// webpSize returns the size of a WebP image: of its canvas if it has one, else of its only frame.
func webpSize(from io.Reader) (width, height int64, err error) {
	s := skipper{from: from}
	switch string(s.next(20)[12:16]) {
	case "VP8X":
		at := s.next(10)
		return 1 + little24(at[4:]), 1 + little24(at[7:]), s.err
	case "VP8L": // a whole image may be a file of 28 bytes, so no more than 5 bytes are read
		bits := int64(binary.LittleEndian.Uint32(s.next(5)[1:]))
		return 1 + bits&0x3fff, 1 + bits>>14&0x3fff, s.err
	case "VP8 ":
		at := s.next(10)
		return little16(at[6:]) & 0x3fff, little16(at[8:]) & 0x3fff, s.err
	}
	return 0, 0, cmp.Or(s.err, errNoSize)
}

func little16(b []byte) int64 { return int64(binary.LittleEndian.Uint16(b)) }

func little24(b []byte) int64 { return little16(b) | int64(b[2])<<16 }
