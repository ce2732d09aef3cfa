package wirejson

import "bytes"

// IsBase64 reports whether data is standard, padded base64, which needs no escapes in a JSON string.
func IsBase64(data []byte) bool {
	if len(data)%4 != 0 {
		return false
	}
	digits := bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("=")), []byte("="))
	for _, b := range digits {
		if !isBase64Digit[b] {
			return false
		}
	}
	return true
}

// isBase64Digit[b] reports whether the byte b is a digit of base64.
var isBase64Digit = func() (is [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		is[b] = true
	}
	return is
}()
