package claims

import "io"

// Bytes are bytes that are kept for a reader who may be slow, such as a client. claim counts their
// memory: [Claim.Keep], which makes all Bytes, enlarges the claim, and the last Write releases it.
type Bytes struct {
	data  []byte
	claim *Claim
}

// Keep returns data as Bytes. It first enlarges a claim that is too small; if that fails, it returns false.
func (c *Claim) Keep(data []byte) (Bytes, bool) {
	missing := int64(len(data)) - c.size
	return Bytes{data, c}, missing <= 0 || c.Grow(missing)
}

// Len returns the number of bytes that are not written yet.
func (b *Bytes) Len() int { return len(b.data) }

// Write writes the next bytes, at most n. With the last bytes, it releases the claim, even after an error.
func (b *Bytes) Write(w io.Writer, n int) error {
	piece := b.data[:min(n, len(b.data))]
	if b.data = b.data[len(piece):]; len(b.data) == 0 {
		b.data = nil // frees the memory
		if b.claim != nil {
			defer b.claim.Release()
		}
	}
	_, err := w.Write(piece)
	return err
}
