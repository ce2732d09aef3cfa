package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// usage is what this project uses of Codex.
type usage struct {
	methods  []string        // in the source of codexrpc
	names    map[string]bool // of members that codexrpc reads or writes
	messages []recorded      // of the recordings
	flags    map[string]bool // the features that are set
}

// recorded is a message of a recording.
type recorded struct {
	Dir     string `json:"dir"`
	Message struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"message"`
}

var (
	methodName = regexp.MustCompile(`^[a-zA-Z]+(/[a-zA-Z]+)+$`)
	tagName    = regexp.MustCompile(`json:"(\w+)`)
	pathName   = regexp.MustCompile(`^\w+(\.\w+)*$`) // of gjson
)

// ownFeatures are set in the config.toml of a private home.
var ownFeatures = []string{"plugins", "apps", "hooks", "memories", "respect_system_proxy"}

// readUsed reads the source and the recordings.
func readUsed() (*usage, error) {
	u := &usage{names: make(map[string]bool), flags: make(map[string]bool)}
	sources, _ := filepath.Glob("codexrpc/*.go")
	methods := make(map[string]bool)
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if err := u.readSource(path, methods); err != nil {
			return nil, err
		}
	}
	u.methods = slices.Sorted(maps.Keys(methods))
	recordings, _ := filepath.Glob("testdata/transcripts/*.jsonl")
	for _, path := range recordings {
		if err := u.readRecording(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(u.methods) == 0 || len(u.messages) == 0 {
		return nil, fmt.Errorf("no source or no recordings: run this in the root of the repository")
	}
	for _, feature := range ownFeatures {
		u.flags[feature] = true
	}
	return u, nil
}

// readSource reads the methods and the members in the strings of a source file.
func (u *usage) readSource(path string, methods map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if _, isImport := node.(*ast.ImportSpec); isImport || !ok || literal.Kind != token.STRING {
			return !isImport
		}
		text, _ := strconv.Unquote(literal.Value)
		for _, found := range tagName.FindAllStringSubmatch(text, -1) {
			u.names[found[1]] = true
		}
		switch {
		case methodName.MatchString(text):
			methods[text] = true
		case pathName.MatchString(text):
			for name := range strings.SplitSeq(text, ".") {
				u.names[name] = true
			}
		}
		return true
	})
	return nil
}

func (u *usage) readRecording(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var m recorded
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		if m.Message.Method == "" {
			continue
		}
		u.messages = append(u.messages, m)
		var params struct {
			Config struct {
				Features map[string]any `json:"features"`
			} `json:"config"`
		}
		_ = json.Unmarshal(m.Message.Params, &params) // most have no config
		for feature := range params.Config.Features {
			u.flags[feature] = true
		}
	}
	return lines.Err()
}

// features returns the features that a release does not list, or as removed or
// deprecated.
func (u *usage) features(ctx context.Context, codex, home string) (found []string, err error) {
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
	for _, feature := range slices.Sorted(maps.Keys(u.flags)) {
		switch stage, known := stages[feature]; {
		case !known:
			found = append(found, feature+": unknown")
		case stage == "removed" || stage == "deprecated":
			found = append(found, feature+": "+stage)
		}
	}
	return found, nil
}
