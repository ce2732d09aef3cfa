package prompt

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func dataURLOf(file []byte) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
}

// encoded returns images of a size in all formats that the standard library writes.
func encoded(t testing.TB, width, height int) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	var out bytes.Buffer
	keep := func(name string, err error) {
		must.OK(t, err)
		files[name] = bytes.Clone(out.Bytes())
		out.Reset()
	}
	paletted := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	keep("png", png.Encode(&out, paletted))
	keep("jpeg", jpeg.Encode(&out, paletted, nil))
	keep("gif", gif.Encode(&out, paletted, nil))
	return files
}

func pngHeader(width, height uint32) []byte {
	header := append([]byte("IHDR"), make([]byte, 13)...)
	binary.BigEndian.PutUint32(header[4:], width)
	binary.BigEndian.PutUint32(header[8:], height)
	header[12], header[13] = 8, 2
	file := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	return binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(header))
}

// deep makes the beginning of a PNG that of one with 16 bits for each colour.
func deep(file []byte) []byte { return withHeaderByte(file, 12, 16) }

// interlaced makes the beginning of a PNG that of an interlaced one.
func interlaced(file []byte) []byte { return withHeaderByte(file, 16, 1) }

func withHeaderByte(file []byte, at int, value byte) []byte {
	header := file[12:29]
	header[at] = value
	return binary.BigEndian.AppendUint32(file[:29:29], crc32.ChecksumIEEE(header))
}

// jpegHeader returns the beginning of a JPEG of a size whose frame header has this marker.
func jpegHeader(marker byte, width, height uint16) []byte {
	file := []byte{0xff, 0xd8, 0xff, 0xd0, 0, 0xff, 0, 0xff, 0xff, marker, 0, 11, 8}
	file = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(file, height), width)
	return append(file, 1, 1, 0x11, 0)
}

func webp(kind, chunk string) []byte {
	return []byte("RIFF\x30\x00\x00\x00WEBP" + kind + "\x0a\x00\x00\x00" + chunk)
}

// TestImageSize checks that sizes are read in all formats, also behind what a camera has added.
func TestImageSize(t *testing.T) {
	files := encoded(t, 300, 20)
	comment := append([]byte("\xff\xd8\xff\xe1\xff\xff"), make([]byte, 0xffff-2)...)
	files["jpeg with much before"] = append(append(comment, comment[2:]...), files["jpeg"][2:]...)
	at := 13 + bytes.IndexByte(files["gif"][13:], ',')
	files["gif with much before"] = bytes.Join([][]byte{files["gif"][:at], {'!', 0xfe}, append(bytes.Repeat(append([]byte{200}, make([]byte, 200)...), 900), 0), files["gif"][at:]}, nil)
	small := bytes.Clone(files["gif"])
	copy(small[6:], "\x01\x00\x01\x00")
	files["gif with a larger frame"] = small
	files["webp"] = webp("VP8 ", "\x00\x00\x00\x9d\x01\x2a\x2c\x01\x14\x00")
	files["webp lossless"] = webp("VP8L", "\x2f\x2b\xc1\x04\x00")
	files["webp with a canvas"] = webp("VP8X", "\x00\x00\x00\x00\x2b\x01\x00\x13\x00\x00")
	for name, file := range files {
		want := int64(6000)
		if strings.Contains(name, "webp") {
			want *= 2
		}
		if pixels, f := CheckImage(dataURLOf(file)); f != nil || pixels != want {
			t.Errorf("%s: %d pixels, %v", name, pixels, f)
		}
	}
}

// TestTooManyPixels checks that short files of large images are refused, at the edge.
func TestTooManyPixels(t *testing.T) {
	for name, test := range map[string]struct {
		file []byte
		ok   bool
	}{
		"png of the largest size":   {pngHeader(8192, 8192), true},
		"png of one row more":       {pngHeader(8192, 8193), false},
		"png without height":        {pngHeader(8192, 0), false},
		"deep png of the largest":   {deep(pngHeader(8192, 4096)), true},
		"deep png, one row more":    {deep(pngHeader(8192, 4097)), false},
		"interlaced png":            {interlaced(pngHeader(4096, 4096)), true},
		"interlaced, one row more":  {interlaced(pngHeader(4096, 4097)), false},
		"jpeg":                      {jpegHeader(0xc0, 8192, 8192), true},
		"jpeg, one row more":        {jpegHeader(0xc1, 8192, 8193), false},
		"progressive jpeg":          {jpegHeader(0xc2, 4096, 4096), true},
		"progressive, one row more": {jpegHeader(0xc2, 4096, 4097), false},
		"webp of the largest size":  {webp("VP8X", "\x00\x00\x00\x00\xff\x1f\x00\xff\x0f\x00"), true},
		"webp of one row more":      {webp("VP8X", "\x00\x00\x00\x00\xff\x1f\x00\x00\x10\x00"), false},
		"gif":                       {[]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00;"), false},
		"webp lossless":             {webp("VP8L", "\x2f\xff\xff\xff\x0f\x00\x00\x00"), false},
		"webp with a canvas":        {webp("VP8X", "\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff"), false},
		"webp without a size":       {webp("VP9 ", "0123456789"), false},
		"jpeg without a size":       {[]byte("\xff\xd8\xff\xda\x00\x02 and pixels"), false},
	} {
		if _, f := CheckImage(dataURLOf(test.file)); (f == nil) != test.ok {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// TestPixelsTogether checks the bound of all images of a request.
func TestPixelsTogether(t *testing.T) {
	part := Part{URL: wirejson.AppendString(nil, dataURLOf(pngHeader(8192, 8192)))}
	if f := part.checkURL(); f != nil {
		t.Fatal(f)
	}
	c := Conversation{Messages: []Message{{Content: []Part{part}}, {Content: make([]Part, 3)}}}
	for i := range c.Messages[1].Content {
		c.Messages[1].Content[i] = part
	}
	if f := c.CheckPixels(); f != nil || c.Pixels() != MaxPixels {
		t.Errorf("%v, %d pixels", f, c.Pixels())
	}
	c.Messages = append(c.Messages, Message{Content: []Part{{pixels: 1}}})
	if c.CheckPixels() == nil {
		t.Error("one pixel more is accepted")
	}
}

// FuzzImageSize checks that the sizes are those that the standard library reads, or of a GIF's
// larger frame, and that whatever it can decode has a size.
func FuzzImageSize(f *testing.F) {
	for _, file := range encoded(f, 7, 5) {
		f.Add(file)
	}
	f.Add(jpegHeader(0xc2, 7, 5))
	f.Add(webp("VP8L", "\x2f\xff\xff\xff\x0f\x00\x00\x00"))
	f.Add(webp("VP8X", "\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, file []byte) {
		media := http.DetectContentType(file)
		width, height, _, err := imageSize(media, bytes.NewReader(file))
		if width < 0 || height < 0 || width > 1<<31 || height > 1<<31 {
			t.Fatalf("%d by %d", width, height)
		}
		want, _, wantErr := image.DecodeConfig(bytes.NewReader(file))
		if wantErr != nil || strings.Contains(media, "webp") {
			return
		}
		if got := fmt.Sprint(width, height); err == nil && got != fmt.Sprint(want.Width, want.Height) && media != "image/gif" || width < int64(want.Width) && err == nil {
			t.Fatalf("%s: %s, want %d %d", media, got, want.Width, want.Height)
		}
		if err != nil {
			if _, _, err := image.Decode(bytes.NewReader(file)); err == nil {
				t.Fatalf("%s can be decoded, but its size cannot be read", media)
			}
		}
	})
}

// pngWith returns the beginning of a PNG with a chunk before its pixels.
func pngWith(kind string, data []byte) []byte {
	chunk := append([]byte(kind), data...)
	file := binary.BigEndian.AppendUint32(pngHeader(6, 4), uint32(len(data)))
	file = binary.BigEndian.AppendUint32(append(file, chunk...), crc32.ChecksumIEEE(chunk))
	return append(file, "\x00\x00\x00\x00IDAT"...)
}

// profile returns the data of a chunk iCCP whose profile has this many bytes.
func profile(size int) []byte {
	var out bytes.Buffer
	out.WriteString("sRGB\x00\x00")
	w := zlib.NewWriter(&out)
	_, _ = w.Write(make([]byte, size)) // a bytes.Buffer does not fail
	_ = w.Close()
	return out.Bytes()
}

// TestColorProfiles checks that a PNG whose profile becomes large is refused, wherever the profile
// stands, and others are not.
func TestColorProfiles(t *testing.T) {
	text, huge := bytes.Repeat([]byte("comment"), 10_000), profile(64<<20)
	tooLarge := pngWith("iCCP", profile(maxColorProfile+1))
	pngs := func(chunks ...[]byte) []byte { // the beginning of a PNG with several chunks
		file := bytes.Clone(pngHeader(6, 4))
		for _, c := range chunks {
			file = append(file, c[33:len(c)-8]...)
		}
		return append(file, "\x00\x00\x00\x00IDAT"...)
	}
	wrongSum := pngWith("iCCP", profile(3<<10))
	wrongSum[len(wrongSum)-9]++
	unpacked, half := pngWith("iCCP", []byte("name\x00\x00plain")), pngWith("iCCP", profile(maxColorProfile/2+1))
	for name, c := range map[string]struct {
		file  []byte
		taken bool
	}{
		"none":               {pngHeader(6, 4), true},
		"small":              {pngWith("iCCP", profile(3<<10)), true},
		"largest":            {pngWith("iCCP", profile(maxColorProfile)), true},
		"too large":          {tooLarge, false},
		"far too large":      {pngWith("iCCP", huge), false},
		"behind a comment":   {pngs(pngWith("tEXt", text), tooLarge), false},
		"twice":              {pngs(tooLarge, pngWith("iCCP", huge)), false},
		"two small ones":     {pngs(wrongSum, wrongSum), true},
		"behind a wrong sum": {pngs(wrongSum, tooLarge), false},
		"behind a plain one": {pngs(unpacked, tooLarge), false},
		"behind many":        {pngs(append(slices.Repeat([][]byte{wrongSum}, 100), tooLarge)...), false},
		"large together":     {pngs(half, half), false},
		"many empty ones":    {pngs(slices.Repeat([][]byte{pngWith("iCCP", []byte("\x00\x00\x78\x9c"))}, 100)...), false},
		"cut while large":    {pngWith("iCCP", huge)[:60<<10], false},
		"cut":                {pngWith("iCCP", huge)[:100], true},
		"not packed":         {pngWith("iCCP", []byte("name\x00\x00plain")), true},
		"without a name":     {pngWith("iCCP", []byte("name")), true},
		"of another size":    {append(pngHeader(6, 4), "\xff\xff\xff\xffiCCPx\x00\x00"...), true},
		"behind the pixels":  {append(pngHeader(6, 4), "\x00\x00\x00\x00IEND"...), true},
		"in a large comment": {pngWith("tEXt", huge), true},
	} {
		_, f := CheckImage(dataURLOf(c.file))
		if (f == nil) != c.taken || f != nil && !strings.Contains(f.Problem, "colour profile") {
			t.Errorf("%s: %v", name, f)
		}
	}
}
