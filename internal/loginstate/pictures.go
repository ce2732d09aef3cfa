package loginstate

import "time"

// picturesRest is how long a login without pictures leaves them to others, if the provider does not
// say when it has some again.
const picturesRest = 10 * time.Minute

// SpendPictures records that the login has no pictures left until a time; zero: it is not known. All
// else of it may go on.
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
