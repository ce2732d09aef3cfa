package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddy-codex/caddy-codex/internal/recorder"
)

// lastYear bounds the times in a head: the replay waits for them, in virtual time.
const lastYear = 2200

// Load reads the file of a recorded request. The error says in one sentence what is wrong with the file.
func Load(text []byte) ([]recorder.Entry, error) {
	text = bytes.TrimSpace(text)
	first, _, _ := bytes.Cut(text, []byte("\n"))
	var head recorder.Head
	if e, err := recorder.Parse(first); err == nil && len(e) > 0 && e[0].Dir == recorder.FromClient {
		_ = json.Unmarshal(e[0].Message, &head) // a newer one may have other members
	}
	switch {
	case len(text) == 0:
		return nil, errors.New("the file is empty")
	case head.Version == 0:
		return nil, errors.New("the file is no recording of a request: its first line has no head with a version")
	case head.Version != recorder.Version:
		return nil, fmt.Errorf("the file has version %d of the format, and this replay knows version %d: use that of the release that made the file", head.Version, recorder.Version)
	}
	if head.Time.Year() > lastYear {
		return nil, fmt.Errorf("the file is damaged: its head has a time in the year %d", head.Time.Year())
	}
	if _, err := http.NewRequest(head.Method, origin+head.Path, http.NoBody); err != nil {
		return nil, fmt.Errorf("the file is damaged: its head has no valid request: %w", err)
	}
	entries, err := recorder.Parse(text)
	if err != nil {
		if _, before := recorder.Parse(text[:bytes.LastIndexByte(text, '\n')]); before == nil {
			return nil, errors.New("the file is cut off within its last line")
		}
		return nil, fmt.Errorf("the file is damaged: %w", err)
	}
	if entries[len(entries)-1].Dir != recorder.End {
		return nil, errors.New("the file is cut off: its last line is not the end of the request")
	}
	return entries, nil
}
