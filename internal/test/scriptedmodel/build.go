package scriptedmodel

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxCalls bounds the calls or blocks of one directive.
const maxCalls = 1000

type builder struct {
	callID   string   // ID of the calls that follow; empty if each has its own
	sections []Script // the last one is being built
}

// build returns the sections of a script: the answer to the prompt, then those to each section's
// results. plain is an ordinary question after the directives, which then must be settings.
func build(directives []directive, plain string) ([]Script, error) {
	b := &builder{sections: make([]Script, 1)}
	for _, d := range directives {
		if err := b.add(d); err != nil {
			return nil, fmt.Errorf("the directive %s%s: %w", d.name, abridge(d.arg, 100), err)
		}
	}
	if first := b.sections[0]; plain != "" && (first.Output != nil || first.End != nil) {
		return nil, fmt.Errorf("%q is no directive, and follows some that are more than settings", abridge(plain, 100))
	}
	for i := range b.sections {
		b.sections[i].Output = withText(b.sections[i])
	}
	return b.sections, nil
}

// withText returns the output of s, or some text if s breaks off without output.
func withText(s Script) []Output {
	if len(s.Output) > 0 {
		return s.Output
	}
	switch s.End.(type) {
	case Incomplete, Cut:
		return []Output{Say("This answer stops in the middle of")}
	}
	return nil
}

func (b *builder) add(d directive) error {
	s := &b.sections[len(b.sections)-1]
	switch d.name {
	case "say:", "verbatim:":
		s.Output = append(s.Output, Say(d.arg))
	case "reason:":
		s.Output = append(s.Output, Reason(d.arg))
	case "tool:", "usetool:":
		return b.addCalls(s, d)
	case "then":
		return b.then(s, d.arg)
	case "callid=":
		b.callID = d.arg
	case "chunk=", "delay=", "firstdelay=", "usage:", "price=":
		return set(s, d)
	default:
		return setEnd(s, d)
	}
	return nil
}

// then starts the next section with the settings of the last one.
func (b *builder) then(last *Script, arg string) error {
	if arg != "" {
		return errors.New("it takes no argument")
	}
	for _, out := range last.Output {
		if _, ok := out.(Call); ok {
			b.sections = append(b.sections, settings(*last))
			return nil
		}
	}
	return errors.New("there is no tool call before it")
}

// addCalls adds the calls of a tool: or usetool: directive.
func (b *builder) addCalls(s *Script, d directive) error {
	n, arg := 1, d.arg
	if first, rest, _ := strings.Cut(arg, " "); first != "" {
		if number, err := strconv.Atoi(first); err == nil {
			n, arg = number, strings.TrimLeft(rest, blank)
		}
	}
	end := strings.IndexAny(arg+" ", blank)
	name, arguments := arg[:end], cmp.Or(strings.Trim(arg[end:], blank), "{}")
	if name == "" || n < 1 || n > maxCalls {
		return fmt.Errorf("want a number from 1 to %d, if any, and a name", maxCalls)
	}
	var blocks []string
	for i := 1; i <= n; i++ {
		args := strings.ReplaceAll(arguments, "%d", strconv.Itoa(i))
		if d.name == "tool:" {
			s.Output = append(s.Output, Call{Name: name, Arguments: args, ID: b.callID})
			continue
		}
		block, err := useToolBlock(name, []byte(args))
		if err != nil {
			return err
		}
		blocks = append(blocks, block)
	}
	if blocks != nil {
		s.Output = append(s.Output, Say(strings.Join(blocks, "\n")))
	}
	return nil
}

func set(s *Script, d directive) (err error) {
	switch d.name {
	case "chunk=":
		if d.arg == "all" {
			s.Chunk = ChunkAll
			return nil
		}
		if s.Chunk, err = strconv.Atoi(d.arg); err != nil || s.Chunk < 1 {
			return errors.New(`want a number of bytes, or "all"`)
		}
	case "delay=":
		s.Delay, err = duration(d.arg)
	case "firstdelay=":
		s.FirstDelay, err = duration(d.arg)
	case "usage:":
		s.Usage, err = parseUsage(d.arg)
	case "price=":
		s.Price = d.arg
	}
	return err
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxStream {
		return 0, fmt.Errorf("want a duration such as 20ms, up to %v", maxStream)
	}
	return d, nil
}

func parseUsage(text string) (*Usage, error) {
	numbers := strings.Split(text, ",")
	u := new(Usage)
	fields := []*int{&u.Input, &u.Cached, &u.Output, &u.Reasoning, &u.CacheWrite}
	if len(numbers) != len(fields) && len(numbers) != len(fields)-1 {
		return nil, errors.New("want four or five numbers, with commas between them")
	}
	for i, number := range numbers {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a number of tokens", number)
		}
		*fields[i] = n
	}
	return u, nil
}

// setEnd applies a directive that sets the end of the response.
func setEnd(s *Script, d directive) error {
	if s.End != nil {
		return errors.New("a response has one end")
	}
	word, rest, _ := strings.Cut(d.arg, " ")
	rest = strings.TrimLeft(rest, blank)
	switch d.name {
	case "http:":
		return setHTTPError(s, word, rest)
	case "limit:":
		return setUsageLimit(s, word, rest)
	case "fail:":
		if word == "" {
			return errors.New("want a code")
		}
		s.End = Failed{Code: word, Message: cmp.Or(rest, failureMessages[word], "scripted "+word)}
		return nil
	case "incomplete:":
		if word == "" || rest != "" {
			return errors.New("want a reason")
		}
		s.End = Incomplete{Reason: word}
		return nil
	}
	if d.arg != "" {
		return errors.New("it takes no argument")
	}
	s.End = Cut{}
	if d.name == "hang" {
		s.End = Hang{}
	}
	return nil
}

func setUsageLimit(s *Script, resetsIn, plan string) error {
	e := UsageLimit{Plan: plan}
	if resetsIn != "" {
		seconds, err := strconv.Atoi(resetsIn)
		if err != nil || seconds < 0 || strings.ContainsAny(plan, blank) {
			return errors.New("want the seconds until the plan resets, or 0, and the name of a plan, if any")
		}
		e.ResetsIn = time.Duration(seconds) * time.Second
	}
	s.End = e
	return nil
}

func setHTTPError(s *Script, status, retryAfter string) error {
	e := HTTPError{}
	var err error
	if e.Status, err = strconv.Atoi(status); err != nil || e.Status < 400 || http.StatusText(e.Status) == "" {
		return errors.New("want an HTTP status that is an error")
	}
	if retryAfter != "" {
		seconds, err := strconv.Atoi(retryAfter)
		if err != nil || seconds < 1 {
			return errors.New("want the seconds after which to try again")
		}
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	s.End = e
	return nil
}
