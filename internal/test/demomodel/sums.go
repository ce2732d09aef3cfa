package demomodel

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var (
	percent    = regexp.MustCompile(`(\d+(?:\.\d+)?) ?(?:%|percent) of (\d+(?:\.\d+)?)`)
	squareRoot = regexp.MustCompile(`square root of (\d+(?:\.\d+)?)`)
	expression = regexp.MustCompile(`[-(]*\d[\d.\s()]*(?:[-+*/^][-\s(]*\d[\d.\s()]*)+`)
	dates      = regexp.MustCompile(`\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4}`)
	operators  = strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-", "**", "^", ",", "",
		" plus ", " + ", " minus ", " - ", " times ", " * ", " multiplied by ", " * ", " divided by ", " / ", " to the power of ", " ^ ")
	// signs make an expression ready to print.
	signs = strings.NewReplacer("*", "×", "-", "−", "/", "÷", "^", "\\^")
)

// sum answers a question with a small sum.
func sum(q question) (string, bool) {
	if len(q.text) > maxEnds {
		return "", false
	}
	text := dates.ReplaceAllString(operators.Replace(q.short), "")
	if match := percent.FindStringSubmatch(text); match != nil {
		return fmt.Sprintf("%s %% of %s is **%s**.", match[1], match[2], number(float(match[1])*float(match[2])/100)), true
	}
	if match := squareRoot.FindStringSubmatch(text); match != nil {
		return fmt.Sprintf("√%s = **%s**", match[1], number(math.Sqrt(float(match[1])))), true
	}
	found := strings.TrimSpace(expression.FindString(text))
	if found == "" {
		return "", false
	}
	p := parser{rest: found}
	value, err := p.sum()
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = errors.New("the parentheses do not match")
	}
	switch {
	case err != nil:
		return fmt.Sprintf("I tried to work out `%s`, but %v.", found, err), true
	case math.IsInf(value, 0) || math.IsNaN(value):
		return fmt.Sprintf("`%s` has no result: something is divided by zero, or too large.", found), true
	}
	return fmt.Sprintf("%s = **%s**", signs.Replace(strings.Join(strings.Fields(found), " ")), signs.Replace(number(value))), true
}

func float(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64) // the pattern has matched a number
	return value
}

// number formats a result, without the noise of binary fractions.
func number(value float64) string {
	return strconv.FormatFloat(value, 'g', 12, 64)
}

// parser computes an expression by recursive descent.
type parser struct {
	rest  string
	depth int
}

// maxDepth bounds the parentheses and signs within each other.
const maxDepth = 50

// next takes one of these signs, or returns 0.
func (p *parser) next(signs string) byte {
	p.rest = strings.TrimLeft(p.rest, " \n\t")
	if p.rest == "" || !strings.Contains(signs, p.rest[:1]) {
		return 0
	}
	sign := p.rest[0]
	p.rest = p.rest[1:]
	return sign
}

func (p *parser) sum() (float64, error) {
	value, err := p.product()
	for err == nil {
		sign, other := p.next("+-"), 0.0
		if sign == 0 {
			break
		}
		if other, err = p.product(); sign == '-' {
			other = -other
		}
		value += other
	}
	return value, err
}

func (p *parser) product() (float64, error) {
	value, err := p.power()
	for err == nil {
		sign, other := p.next("*/"), 0.0
		if sign == 0 {
			break
		}
		if other, err = p.power(); sign == '/' {
			other = 1 / other
		}
		value *= other
	}
	return value, err
}

func (p *parser) power() (float64, error) {
	if p.depth++; p.depth > maxDepth {
		return 0, errors.New("it is too deep")
	}
	defer func() { p.depth-- }()
	if p.next("-") != 0 {
		value, err := p.power()
		return -value, err
	}
	value, err := p.operand()
	if err == nil && p.next("^") != 0 {
		var exponent float64
		exponent, err = p.power()
		value = math.Pow(value, exponent)
	}
	return value, err
}

func (p *parser) operand() (float64, error) {
	if p.next("(") != 0 {
		value, err := p.sum()
		if err == nil && p.next(")") == 0 {
			err = errors.New("a parenthesis is not closed")
		}
		return value, err
	}
	p.rest = strings.TrimLeft(p.rest, " \n\t")
	end := strings.IndexFunc(p.rest+" ", func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	value, err := strconv.ParseFloat(p.rest[:end], 64)
	if err != nil {
		return 0, errors.New("a number is missing, or is none")
	}
	p.rest = p.rest[end:]
	return value, nil
}
