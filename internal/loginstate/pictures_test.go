package loginstate

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPicturesSpent: a login without pictures has some again when the provider says, or after a while.
func TestPicturesSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		if l.PicturesSpent() {
			t.Error("a new login has no pictures")
		}
		for said, rest := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: picturesRest} {
			var until time.Time
			if said > 0 {
				until = time.Now().Add(said)
			}
			l.SpendPictures(until)
			if time.Sleep(rest - 1); !l.PicturesSpent() {
				t.Errorf("said %v: it has some too early", said)
			}
			if time.Sleep(time.Nanosecond); l.PicturesSpent() {
				t.Errorf("said %v: it has none", said)
			}
			if _, rests := l.Rests(); rests {
				t.Error("it rests for everything")
			}
		}
	})
}
