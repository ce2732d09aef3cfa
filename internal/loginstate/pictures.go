package loginstate

import "time"

// picturesRest is how long a login makes no pictures after it has none left, if the provider does
// not say when it has some again. Other logins make them meanwhile.
const picturesRest = 10 * time.Minute

// SpendPictures records that the login has no pictures left until a time; zero: the time is not
// known. All other uses of the login may go on.
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
