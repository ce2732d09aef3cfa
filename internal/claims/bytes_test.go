package claims

import (
	"bytes"
	"errors"
	"testing"
)

// TestBytes checks that bytes are claimed until the last of them is written.
func TestBytes(t *testing.T) {
	b := NewBudget(100, 0, NewCrowd(nil))
	claim := b.Claim("a")
	if _, ok := claim.Keep(make([]byte, 101)); ok || b.Held() != 0 {
		t.Errorf("%d bytes of 100 are held", b.Held())
	}
	if !claim.Grow(10) {
		t.Fatal("there is room")
	}
	if _, ok := claim.Keep(make([]byte, 5)); !ok || b.Held() != 10 {
		t.Errorf("%d bytes are held, and 10 were claimed before", b.Held())
	}
	kept, ok := claim.Keep([]byte("0123456789abcdef"))
	if !ok || b.Held() != 16 {
		t.Fatalf("%d bytes are held", b.Held())
	}
	var out bytes.Buffer
	for want := range []int{16, 9, 2} {
		if kept.Len() == 0 || b.Held() != 16 {
			t.Errorf("write %d: %d bytes are left, %d held", want, kept.Len(), b.Held())
		}
		if err := kept.Write(&out, 7); err != nil {
			t.Error(err)
		}
	}
	if out.String() != "0123456789abcdef" || kept.Len() != 0 || b.Held() != 0 {
		t.Errorf("%q is written, %d bytes are left, %d held", out.String(), kept.Len(), b.Held())
	}
	kept, _ = claim.Keep([]byte("x"))
	if err := kept.Write(failing{}, 7); !errors.Is(err, errFailing) || b.Held() != 0 {
		t.Errorf("%v, %d bytes are held", err, b.Held())
	}
	var none Bytes
	if err := none.Write(&out, 7); err != nil || none.Len() != 0 {
		t.Errorf("nothing: %v", err)
	}
}

var errFailing = errors.New("broken")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }
