package turn

import (
	"math"
	"strconv"
)

// Price is what a provider charges, in billionths of its unit of money, whichever that is. 0 may mean that
// the price is unknown.
type Price int64

const (
	priceUnit = 1e9 // the Price of one unit of money
	// maxPrice bounds one response's price; a Price has room for the sum of thousands of these.
	maxPrice = 1e6 * priceUnit
)

// parsePrice reads a decimal in the provider's unit of money. A number above maxPrice counts as maxPrice, a
// negative number and any other text as 0.
func parsePrice(text string) Price {
	price, err := strconv.ParseFloat(text, 64)
	if err != nil || !(price > 0) {
		return 0
	}
	return Price(math.Round(min(price*priceUnit, maxPrice)))
}

// Add returns the sum of p and q, at most the largest Price.
func (p Price) Add(q Price) Price {
	if q > math.MaxInt64-p {
		return math.MaxInt64
	}
	return p + q
}

// Float returns the price in the provider's unit of money.
func (p Price) Float() float64 { return float64(p) / priceUnit }

// MarshalJSON returns the price in the provider's unit of money, as a number.
func (p Price) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, p.Float(), 'f', -1, 64), nil
}

// UnmarshalJSON reads a number: a negative one as 0, one that is too large as the largest Price.
func (p *Price) UnmarshalJSON(number []byte) error {
	price, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return err
	}
	if *p = Price(math.MaxInt64); price*priceUnit < math.MaxInt64 {
		*p = Price(math.Round(max(0, price*priceUnit)))
	}
	return nil
}
