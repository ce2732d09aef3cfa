package jsontext

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. The result is valid JSON and valid UTF-8 for
// any s: bytes that are not UTF-8 become U+FFFD. U+2028 and U+2029 are escaped, since
// old JavaScript reads them as line breaks. < > and & are not, since nothing here ends
// up in HTML.
func AppendString[T text](dst []byte, s T) []byte {
	b := View(s)
	dst = append(dst, '"')
	for start, i := 0, 0; ; {
		if i < len(b) && b[i] < utf8.RuneSelf {
			i = plainEnd(b, i)
		}
		if i == len(b) {
			return append(append(dst, b[start:]...), '"')
		}
		r, size := utf8.DecodeRune(b[i:])
		if r >= utf8.RuneSelf && r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		dst = appendEscaped(append(dst, b[start:i]...), r)
		i += size
		start = i
	}
}

// appendEscaped appends a character that must not stand in a JSON string as it is.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case utf8.RuneError:
		return append(dst, "\ufffd"...)
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}
