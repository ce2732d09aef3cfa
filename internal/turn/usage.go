package turn

import (
	"math"
	"strconv"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

// maxPendingText is how many bytes of a response's text and calls are kept, to count their tokens.
// Of the bytes that are not kept, four count as one token.
const maxPendingText = 8 << 10

// usage adds up a turn's tokens. Codex reports the usage of each complete response, and a little
// later the thread's total, with earlier turns and responses that broke off. For an interrupted
// response it reports neither: this package counts the tokens of its text and calls.
type usage struct {
	responses    codexrpc.Usage  // of the complete model responses
	lastResponse *codexrpc.Usage // of the last complete response; nil: not known
	fromThread   codexrpc.Usage  // the total of the thread, less its usage before the turn
	price        Price           // of the responses
	sentTokens   int64           // tokens that the client got, if the limit of tokens ended the turn

	pendingText     []byte // text and calls of the current response
	excessBytes     int    // how many bytes of the text and calls are not in pendingText
	estimatedTokens int64  // tokens of the text and calls of a response that was interrupted

	askedAgain   bool // Codex has asked the model for a further response, whose usage has not come
	inputMissing bool // a further response was interrupted: no reported usage includes its input
}

func (u *usage) addText(text string) {
	n := min(len(text), maxPendingText-len(u.pendingText))
	u.pendingText = append(u.pendingText, text[:n]...)
	u.excessBytes += len(text) - n
}

// clearText forgets the recorded text. It is called when the usage for this text has come.
func (u *usage) clearText() { u.pendingText, u.excessBytes = u.pendingText[:0], 0 }

// interrupted counts an interrupted response's tokens, since Codex will not report its usage.
func (u *usage) interrupted() {
	u.inputMissing, u.askedAgain = u.inputMissing || u.askedAgain, false
	u.estimatedTokens += int64(tokens.Count(string(u.pendingText)) + (u.excessBytes+3)/4)
	u.clearText()
}

func (u *usage) addResponse(e *codexrpc.Event) {
	u.clearText()
	u.askedAgain, u.lastResponse = false, e.Usage
	if e.Usage != nil {
		u.responses = u.responses.Add(*e.Usage)
	}
	if e.Text != "" {
		u.price = u.price.Add(parsePrice(e.Text))
	}
}

// Context returns how many tokens the model's last complete response has read and written; 0: not known.
func (m *Machine) Context() int {
	if last := m.usage.lastResponse; last != nil {
		return int(last.InputTokens + last.OutputTokens)
	}
	return 0
}

func (u *usage) setThreadTotal(threadTotal *codexrpc.Usage, before codexrpc.Usage) {
	if threadTotal == nil || threadTotal.InputTokens+threadTotal.OutputTokens == 0 {
		return // not a usage: for a conversation that is too long, Codex reports only the size of the context, as the total
	}
	u.clearText()
	u.fromThread = threadTotal.Sub(before)
}

// total returns the usage of the complete responses or, if it is more, what the thread used in this turn,
// which includes responses that broke off. It adds output tokens that Codex has not reported: of an
// interrupted response, or sent before the limit of tokens ended the turn. estimated says that total added
// some, or that the input of an interrupted response is missing.
func (u *usage) total() (total codexrpc.Usage, estimated bool) {
	total = u.responses
	if u.fromThread.TotalTokens > total.TotalTokens {
		total = u.fromThread
	}
	added := max(u.estimatedTokens, u.sentTokens-total.OutputTokens)
	if added > 0 {
		total.OutputTokens += added
		total.TotalTokens += added
	}
	return total, added > 0 || u.inputMissing
}

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
