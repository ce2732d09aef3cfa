package loginstate

import "time"

// picturesRest is how long a login makes no pictures after it has used up its pictures, if the
// provider does not say when the login may make more. Other logins make pictures meanwhile.
const picturesRest = 10 * time.Minute

// SpendPictures records that the login has no pictures left until the given time. A zero time means
// that the time is not known; SpendPictures then assumes picturesRest from now. The login can still
// be used for everything else.
func (l *Login) SpendPictures(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.picturesFrom = until; until.IsZero() {
		l.picturesFrom = time.Now().Add(picturesRest)
	}
}

// PicturesSpent reports whether the login has no pictures left, as far as that is known.
func (l *Login) PicturesSpent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.picturesFrom)
}
