package prompt

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
)

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
