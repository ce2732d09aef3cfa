package prompt

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image/color"
	"image/png"
	"io"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
)

const (
	// MaxPixels is how many pixels an image may have: 8192 by 8192. To decode even a short file, Codex
	// needs some seven bytes and 15 ns for each pixel. Some pixels count more, see [imageKind].
	MaxPixels = 64 << 20
	// maxTotalPixels is how many pixels all images of a request may have. It bounds the time, since Codex
	// decodes the images one by one. Codex answers a call with a history only after decoding all its
	// images, and a call without an answer is given up after 30 s.
	maxTotalPixels = 4 * MaxPixels
)

// imageKind says how often a pixel counts: several times if it costs Codex (0.169) more memory or time.
type imageKind struct {
	name  string
	times int64 // how often a pixel counts
}

var (
	plainImage      = imageKind{"an image", 1}
	webpImage       = imageKind{"a WebP image", 2}                       // a file of 40 bytes can have several transforms
	deepPNG         = imageKind{"a PNG with 16 bits for each colour", 2} // needs 16 bytes of memory for each pixel
	interlacedPNG   = imageKind{"an interlaced PNG", 4}
	progressiveJPEG = imageKind{"a progressive JPEG", 4} // has up to 100 scans, each over all pixels
)

// checkPixels reads an image's size from the start of its base64 data, and fails for too many pixels.
func (p *Part) checkPixels(media string, data []byte) *field.Error {
	width, height, kind, err := imageSize(media, base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // the data end before the size, so nobody can decode the image
	}
	p.pixels = width * height * kind.times
	switch {
	case err != nil || width <= 0 || height <= 0:
		return field.Invalid("does not hold an image whose size can be read")
	case p.pixels > MaxPixels:
		return field.Invalid("has %d by %d pixels, and %s may have %d pixels: make it smaller", width, height, kind.name, MaxPixels/kind.times)
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

// Pixels returns the number of pixels of the largest image in the conversation.
func (c *Conversation) Pixels() int64 { largest, _ := c.pixels(); return largest }

// CheckPixels returns an error if the images of the conversation have too many pixels together.
func (c *Conversation) CheckPixels() *field.Error {
	if _, total := c.pixels(); total > maxTotalPixels {
		return field.Invalid("has images of %d pixels together, and a request may have %d; those of progressive, interlaced, 16-bit and WebP images count several times", total, maxTotalPixels)
	}
	return nil
}

func (c *Conversation) pixels() (largest, total int64) {
	for i := range c.Messages {
		for k := range c.Messages[i].Content {
			n := c.Messages[i].Content[k].pixels
			largest, total = max(largest, n), total+n
		}
	}
	return largest, total
}

var errNoSize = errors.New("the image has no size")

// imageSize reads an image's size and kind from the start of its data. media is one of [ImageTypes].
// It decodes no pixels, and skips what is before the size, such as a camera's comments.
func imageSize(media string, data io.Reader) (width, height int64, kind imageKind, err error) {
	kind = plainImage
	switch media {
	case "image/png":
		return pngSize(data)
	case "image/jpeg":
		return jpegSize(data)
	case "image/gif":
		width, height, err = gifSize(data)
	case "image/webp":
		kind = webpImage
		width, height, err = webpSize(data)
	default:
		err = errNoSize
	}
	return width, height, kind, err
}

func pngSize(data io.Reader) (width, height int64, kind imageKind, err error) {
	r := bufio.NewReader(data)
	head, _ := r.Peek(29)
	c, err := png.DecodeConfig(r)
	kind = plainImage
	switch {
	case len(head) == 29 && head[28] != 0: // the interlace method
		kind = interlacedPNG
	case c.ColorModel == color.Gray16Model, c.ColorModel == color.RGBA64Model, c.ColorModel == color.NRGBA64Model:
		kind = deepPNG
	}
	return int64(c.Width), int64(c.Height), kind, err
}

// jpegSize reads the first frame header. Like Go's decoder, it skips bytes that belong to no segment.
func jpegSize(data io.Reader) (width, height int64, kind imageKind, err error) {
	r := partReader{data: bufio.NewReader(data)}
	r.read(2)
	for r.err == nil {
		for r.read(1)[0] != 0xff && r.err == nil {
		}
		marker := r.read(1)[0]
		for marker == 0xff { // padding
			marker = r.read(1)[0]
		}
		switch {
		case marker == 0 || 0xd0 <= marker && marker <= 0xd7: // no segment begins here
			continue
		case marker == 0xc0, marker == 0xc1, marker == 0xc2:
			kind = plainImage
			if marker == 0xc2 {
				kind = progressiveJPEG
			}
			at := r.read(7)
			return big16(at[5:]), big16(at[3:]), kind, r.err
		case marker == 0xd9, marker == 0xda: // the image ends or begins without a frame header
			return 0, 0, plainImage, cmp.Or(r.err, errNoSize)
		}
		for size := big16(r.read(2)) - 2; size > 0; size -= int64(len(r.buf)) {
			r.read(int(min(size, int64(len(r.buf)))))
		}
	}
	return 0, 0, plainImage, r.err
}

// gifSize returns the larger width and height of the screen and the first frame. Further frames do
// not matter, since they are not decoded.
func gifSize(data io.Reader) (width, height int64, err error) {
	r := partReader{data: data}
	head := r.read(13)
	width, height = little16(head[6:]), little16(head[8:])
	if flags := head[10]; flags&0x80 != 0 {
		r.read(3 << (1 + flags&7)) // colors
	}
	for r.err == nil {
		switch r.read(1)[0] {
		case '!': // an extension
			r.read(1)
			for n := r.read(1)[0]; n > 0 && r.err == nil; n = r.read(1)[0] {
				r.read(int(n))
			}
		case ',': // the first frame
			frame := r.read(9)
			return max(width, little16(frame[4:])), max(height, little16(frame[6:])), r.err
		default: // the image has no frame
			return width, height, r.err
		}
	}
	return 0, 0, r.err
}

// partReader reads an image part by part. After an error, the method read returns zeros.
type partReader struct {
	data io.Reader
	buf  [768]byte
	err  error
}

// read returns the next n bytes; n is at most 768. The bytes are valid until the next call.
func (r *partReader) read(n int) []byte {
	buf := r.buf[:n]
	clear(buf)
	if r.err == nil {
		_, r.err = io.ReadFull(r.data, buf)
	}
	return buf
}

// webpSize returns the size of a WebP image's canvas or, without a canvas, of its only frame.
func webpSize(data io.Reader) (width, height int64, err error) {
	r := partReader{data: data}
	switch string(r.read(20)[12:16]) {
	case "VP8X":
		at := r.read(10)
		return 1 + little24(at[4:]), 1 + little24(at[7:]), r.err
	case "VP8L": // the size is in the first 5 bytes; a small image may have no more than these
		bits := int64(binary.LittleEndian.Uint32(r.read(5)[1:]))
		return 1 + bits&0x3fff, 1 + bits>>14&0x3fff, r.err
	case "VP8 ":
		at := r.read(10)
		return little16(at[6:]) & 0x3fff, little16(at[8:]) & 0x3fff, r.err
	}
	return 0, 0, cmp.Or(r.err, errNoSize)
}

func big16(b []byte) int64 { return int64(binary.BigEndian.Uint16(b)) }

func little16(b []byte) int64 { return int64(binary.LittleEndian.Uint16(b)) }

func little24(b []byte) int64 { return little16(b) | int64(b[2])<<16 }

// maxColorProfile is the most bytes that all colour profiles of a PNG may have together after unpacking.
// Most have kilobytes, those of printers one or two megabytes. Codex unpacks without a limit: 256 KB can
// become 256 MB. A PNG may have only one profile, but Codex tries all until the checksum of one is right.
// Codex unpacks no texts (zTXt, iTXt), and nothing after the pixels.
const maxColorProfile = 4 << 20

// profileCost is how many bytes are added to the size of each profile: a reader of zlib takes as much
// memory, and a file may have a million empty profiles.
const profileCost = 64 << 10

// pngSignatureSize is the size of the signature that every PNG begins with.
const pngSignatureSize = 8

// checkColorProfile returns an error if the base64 data of a PNG have profiles of more than
// maxColorProfile bytes together. It unpacks no more. Data that are no PNG, or end early, pass this check.
func checkColorProfile(data []byte) *field.Error {
	png := base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data))
	r := partReader{data: png}
	r.read(pngSignatureSize)
	for left := int64(maxColorProfile + profileCost); r.err == nil; { // one profile may have maxColorProfile
		head := r.read(8)
		chunk := &io.LimitedReader{R: png, N: int64(binary.BigEndian.Uint32(head))}
		switch string(head[4:]) {
		case "iCCP":
			left -= profileCost
			if left -= profileSize(chunk, left+1); left < 0 { // nothing is unpacked if left is negative
				return field.Invalid("has a colour profile of more than %d bytes, or many: save it without the profile", maxColorProfile)
			}
		case "IDAT", "IEND":
			return nil // a profile comes before the pixels
		}
		if r.err == nil {
			_, r.err = io.CopyN(io.Discard, png, chunk.N+4) // the rest, and the checksum
		}
	}
	return nil
}

// profileSize returns the unpacked size of an iCCP chunk's profile. It stops at limit, or at an error.
func profileSize(chunk io.Reader, limit int64) int64 {
	r := partReader{data: chunk}
	for r.err == nil && r.read(1)[0] != 0 { // the name of the profile ends with a zero
	}
	r.read(1) // the method: there is only zlib
	packed, err := zlib.NewReader(chunk)
	if r.err != nil || err != nil {
		return 0
	}
	n, _ := io.CopyN(io.Discard, packed, limit)
	return n
}
