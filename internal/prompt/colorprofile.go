package prompt

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"io"

	"github.com/caddy-codex/caddy-codex/internal/field"
)

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
