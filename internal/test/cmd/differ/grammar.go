package main

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// grammar.txt has the requests that are drawn. A line without a tab names a rule. Each line with
// a tab below it is one of its alternatives. In an alternative
//
//	<<rule>>       is one of the rule's alternatives
//	<<rule?>>      is that or nothing
//	<<rule*3>>     are up to three different alternatives of the rule
//	<<name=rule>>  is one, to which each later <<name>> of the case is equal
//	<<case>>       is the mark of the case
//
// A case consists of steps with " ;; " between them, see [parseStep].
//
//go:embed grammar.txt
var grammarText string

var (
	rules     = parseRules(grammarText)
	reference = regexp.MustCompile(`<<(?:(\w+)=)?(\w+)(\?|\*\d)?>>`)
)

func parseRules(text string) map[string][]string {
	rules := make(map[string][]string)
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if alternative, ok := strings.CutPrefix(line, "\t"); ok {
			rules[name] = append(rules[name], alternative)
		} else {
			name = line
		}
	}
	return rules
}

// drawing is a case that is being drawn.
type drawing struct {
	*rand.Rand
	bound map[string]string // what <<name=rule>> has chosen, and the mark of the case
}

// expand returns an alternative of a rule without references.
func (d *drawing) expand(rule string) string {
	if text, ok := d.bound[rule]; ok {
		return text
	}
	alternatives := rules[rule]
	if alternatives == nil {
		panic(fmt.Sprintf("grammar.txt has no rule %q", rule))
	}
	return d.replace(alternatives[d.IntN(len(alternatives))])
}

func (d *drawing) replace(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		m := reference.FindStringSubmatch(found)
		name, rule, repeat := m[1], m[2], m[3]
		switch {
		case repeat == "?" && d.IntN(2) == 0:
			return ""
		case strings.HasPrefix(repeat, "*"):
			var all strings.Builder
			order := d.Perm(len(rules[rule]))
			for _, i := range order[:d.IntN(min(int(repeat[1]-'0'), len(order))+1)] {
				all.WriteString(d.replace(rules[rule][i]))
			}
			return all.String()
		}
		chosen := d.expand(rule)
		if name != "" {
			d.bound[name] = chosen
		}
		return chosen
	})
}

// step is a request of a case.
type step struct {
	method, path string
	header       []string // NAME:VALUE
	body         string
}

// parseStep reads "METHOD PATH +NAME:VALUE… BODY". The method POLL repeats a GET until the response
// has ended, SOCKET sends each member of the body, a list, over one WebSocket.
func parseStep(text string) (s step) {
	s.method, text, _ = strings.Cut(strings.TrimSpace(text), " ")
	s.path, text, _ = strings.Cut(text, " ")
	for strings.HasPrefix(text, "+") {
		var header string
		header, text, _ = strings.Cut(text, " ")
		s.header = append(s.header, header[1:])
	}
	s.body = text
	return s
}

func (s step) String() string {
	return fmt.Sprintf("%s %s %q\n    %s", s.method, s.path, s.header, s.body)
}

// drawCase draws the case of a number from a rule. The same seed and number give the same case.
func drawCase(rule string, seed uint64, number int) (steps []step) {
	d := &drawing{rand.New(rand.NewPCG(seed, uint64(number))), map[string]string{"case": mark(number)}}
	texts := strings.Split(d.expand(rule), " ;; ")
	for _, text := range texts {
		s := parseStep(text)
		if d.IntN(len(texts)) == 0 {
			d.breakStep(&s)
		}
		steps = append(steps, s)
	}
	return steps
}

// mark returns the text by which what reaches the model is found.
func mark(number int) string { return fmt.Sprintf("case%dx", number) }
