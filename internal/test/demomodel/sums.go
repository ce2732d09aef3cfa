package demomodel

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var (
	percent    = regexp.MustCompile(`(\d+(?:\.\d+)?) ?(?:%|percent) of (\d+(?:\.\d+)?)`)
	expression = regexp.MustCompile(`[-(]*\d[\d.\s()]*(?:[-+*/^][-\s(]*\d[\d.\s()]*)+`)
	powers     = regexp.MustCompile(`\d+(?:\.\d+)? ?\^ ?-?\d+(?:\.\d+)?`)
	numberIn   = regexp.MustCompile(`\d+(?:\.\d+)?(?:e[-+]?\d+)?`)
	dates      = regexp.MustCompile(`\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4}`)
	operators  = strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-", "**", "^", ",", "",
		" plus ", " + ", " minus ", " - ", " times ", " * ", " multiplied by ", " * ", " divided by ", " / ", " to the power of ", " ^ ")
	// signs make an expression ready to print.
	signs = strings.NewReplacer("*", "×", "-", "−", "/", "÷", "^", "\\^")
)

// sum answers a question with a small sum.
func sum(q question) string {
	if len(q.text) > maxEnds {
		return ""
	}
	text := dates.ReplaceAllString(operators.Replace(q.short), "")
	if match := percent.FindStringSubmatch(text); match != nil {
		return fmt.Sprintf("%s %% of %s is **%s**.", match[1], match[2], number(float(match[1])*float(match[2])/100))
	}
	found := strings.Join(strings.Fields(expression.FindString(text)), " ")
	if found == "" {
		return ""
	}
	value := compute(found)
	if math.IsInf(value, 0) || math.IsNaN(value) {
		return fmt.Sprintf("`%s` has no result: something is divided by zero, too large, or more than I can read.", found)
	}
	return fmt.Sprintf("%s = **%s**", signs.Replace(found), signs.Replace(number(value)))
}

// float returns a number, or NaN.
func float(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return value
}

// number formats a result, without the noise of binary fractions.
func number(value float64) string {
	return strconv.FormatFloat(value, 'g', 12, 64)
}

// compute returns the value of an expression, or NaN.
func compute(expression string) float64 {
	expression = powers.ReplaceAllStringFunc(expression, func(power string) string {
		base, exponent, _ := strings.Cut(power, "^")
		return strconv.FormatFloat(math.Pow(float(strings.TrimSpace(base)), float(strings.TrimSpace(exponent))), 'g', -1, 64)
	})
	// With numbers that are not whole, it is an expression of Go.
	expression = numberIn.ReplaceAllStringFunc(expression, func(text string) string {
		return "float64(" + strconv.FormatFloat(float(text), 'g', -1, 64) + ")"
	})
	found, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
	if err != nil || found.Value == nil {
		return math.NaN()
	}
	value, _ := constant.Float64Val(found.Value)
	return value
}
