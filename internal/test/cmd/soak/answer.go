package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// said is the wanted content of one choice. The ids of calls are not compared.
type said = apiclient.Choice

func equal(got, want []said) bool {
	return slices.EqualFunc(got, want, func(g, w said) bool {
		return g.Text == w.Text && g.Finish == w.Finish && len(g.Calls) == len(w.Calls) && g.CalledFirst(w.Calls)
	})
}

// beginOf reports whether an incomplete answer is the beginning of the wanted one.
func beginOf(got, want []said) bool {
	if len(got) > len(want) {
		return false
	}
	for i, g := range got {
		if !strings.HasPrefix(want[i].Text, g.Text) || !g.CalledFirst(want[i].Calls) {
			return false
		}
	}
	return true
}

// readAnswer reads an answer of any API, which must have a valid form and end.
func readAnswer(body io.Reader, status int, q query) (*apiclient.Answer, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("status %d, the body broke off: %w", status, err)
	}
	if status != http.StatusOK {
		a, err := apiclient.ReadError(text, apiclient.At(q.path))
		if err != nil {
			err = fmt.Errorf("status %d, %q: %w", status, text, err)
		}
		return a, err
	}
	a, err := apiclient.Read(text, apiclient.At(q.path), q.stream, len(q.want))
	if err == nil && !a.Ended {
		err = errors.New("the answer has no end")
	}
	return a, err
}
