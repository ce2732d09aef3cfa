package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// ownFeatures are set in the config.toml of a private home.
var ownFeatures = []string{"plugins", "apps", "hooks", "memories", "respect_system_proxy"}

// readFeatures returns the features in the thread configurations of recordings, and ownFeatures.
func readFeatures() ([]string, error) {
	set := make(map[string]bool)
	recordings, _ := filepath.Glob("testdata/transcripts/*.jsonl")
	for _, path := range recordings {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			for feature := range gjson.Get(line, "message.params.config.features").Map() {
				set[feature] = true
			}
		}
	}
	if len(set) == 0 {
		return nil, errors.New("no recordings: run this in the root of the repository")
	}
	for _, feature := range ownFeatures {
		set[feature] = true
	}
	return slices.Sorted(maps.Keys(set)), nil
}

// lacking returns those features that a release does not list, or as removed or deprecated.
func lacking(ctx context.Context, codex, home string, features []string) (found []string, err error) {
	text, err := codexCommand(ctx, codex, home, "features", "list")
	if err != nil {
		return nil, err
	}
	stages := make(map[string]string)
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) >= 3 {
			stages[words[0]] = strings.Join(words[1:len(words)-1], " ")
		}
	}
	for _, feature := range features {
		switch stage, known := stages[feature]; {
		case !known:
			found = append(found, feature+": unknown")
		case stage == "removed" || stage == "deprecated":
			found = append(found, feature+": "+stage)
		}
	}
	return found, nil
}
