package loginstate

import "time"

// picturesRest is how long a login that has used up its pictures is not used for pictures, if the
// provider does not say when it gets more. Other logins make pictures meanwhile.
const picturesRest = 10 * time.Minute

// SpendPictures records that the login has no pictures left until a time. The zero time means that
// the time is not known: it is then picturesRest from now. The login can still be used for
// everything else.
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
