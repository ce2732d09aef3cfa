package turn

import (
	"encoding/json"
	"math"
	"testing"
)

// TestPrice: prices are read as decimal numbers, added without a rest, and written as they came.
func TestPrice(t *testing.T) {
	for text, want := range map[string]string{
		"0.1": "0.1", "12": "12", "1e-3": "0.001", "0.000000001": "0.000000001", "0.0000000004": "0", "1e300": "1000000",
		"": "0", "x": "0", "-1": "0", "NaN": "0", "Inf": "1000000",
	} {
		got, err := json.Marshal(parsePrice(text))
		if err != nil || string(got) != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
		var back Price
		if err := json.Unmarshal(got, &back); err != nil || back != parsePrice(text) {
			t.Errorf("%s is read as %d, %v", got, back, err)
		}
	}
	var sum Price
	for range 10 {
		sum = sum.Add(parsePrice("0.1"))
	}
	if sum.Float() != 1 {
		t.Errorf("ten times 0.1 are %v", sum.Float())
	}
	if got := Price(math.MaxInt64).Add(1); got != math.MaxInt64 {
		t.Errorf("the largest price and more are %d", got)
	}
	for number, wrong := range map[string]bool{"1e40": false, "-1": false, `"1"`: true, "null": true, "{}": true} {
		price := Price(7)
		if err := price.UnmarshalJSON([]byte(number)); (err != nil) != wrong || !wrong && price != 0 && price != math.MaxInt64 {
			t.Errorf("%s is read as %d, %v", number, price, err)
		}
	}
}
