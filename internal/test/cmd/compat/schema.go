package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// document is one of the files that `codex app-server generate-json-schema` writes: a
// choice of messages.
type document struct {
	definitions map[string]any
	messages    map[string]any // the schemas of the parameters, by method
}

// readDocument reads a file.
func readDocument(path string) (*document, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Definitions map[string]any `json:"definitions"`
		OneOf       []struct {
			Properties struct {
				Method struct {
					Enum []string `json:"enum"`
				} `json:"method"`
				Params any `json:"params"`
			} `json:"properties"`
		} `json:"oneOf"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, err
	}
	d := &document{definitions: file.Definitions, messages: make(map[string]any)}
	for _, one := range file.OneOf {
		for _, method := range one.Properties.Method.Enum {
			d.messages[method] = one.Properties.Params
		}
	}
	return d, nil
}

// missingIn returns the methods and members that this project uses and that the schema
// of a release lacks.
func (u *usage) missingIn(ctx context.Context, codex, home string) ([]string, error) {
	dir := filepath.Join(home, "schema")
	if _, err := codexCommand(ctx, codex, home, "app-server", "generate-json-schema", "--experimental", "--out", dir); err != nil {
		return nil, err
	}
	documents := make(map[string]*document)
	for _, name := range []string{"ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification"} {
		d, err := readDocument(filepath.Join(dir, name+".json"))
		if err != nil {
			return nil, err
		}
		documents[name] = d
	}
	missing := make(map[string]bool)
	for _, method := range u.methods {
		known := false
		for _, d := range documents {
			_, has := d.messages[method]
			known = known || has
		}
		if !known {
			missing[method] = true
		}
	}
	for _, m := range u.messages {
		u.compare(m, documents, missing)
	}
	return slices.Sorted(maps.Keys(missing)), nil
}

// compare looks for the members of a recorded message in the schema.
func (u *usage) compare(m recorded, documents map[string]*document, missing map[string]bool) {
	sent := m.Dir == "to_server"
	names := []string{"ServerRequest", "ServerNotification"}
	if sent {
		names = []string{"ClientRequest", "ClientNotification"}
	}
	var value any
	if json.Unmarshal(m.Message.Params, &value) != nil {
		return // it has none
	}
	for _, name := range names {
		d := documents[name]
		if params, ok := d.messages[m.Message.Method]; ok {
			d.walk(value, []any{params}, m.Message.Method, func(path, member string) {
				if sent || u.names[member] {
					missing[path] = true
				}
			})
			return
		}
	}
	if sent || slices.Contains(u.methods, m.Message.Method) {
		missing[m.Message.Method] = true
	}
}

// walk calls report for the members of a value that no schema of some has.
func (d *document) walk(value any, schemas []any, path string, report func(path, member string)) {
	var objects []map[string]any
	for _, schema := range schemas {
		all, anything := d.alternatives(schema, 0)
		if anything {
			return
		}
		objects = append(objects, all...)
	}
	switch value := value.(type) {
	case []any:
		var items []any
		for _, object := range objects {
			if item, ok := object["items"]; ok {
				items = append(items, item)
			}
		}
		for _, one := range value {
			d.walk(one, items, path, report)
		}
	case map[string]any:
		for member, child := range value {
			var found []any
			for _, object := range objects {
				properties, _ := object["properties"].(map[string]any)
				if schema, ok := properties[member]; ok {
					found = append(found, schema)
				} else if more, ok := object["additionalProperties"]; ok && more != false {
					found = append(found, more)
				}
			}
			if len(found) == 0 {
				report(path+" "+member, member)
				continue
			}
			d.walk(child, found, path+" "+member, report)
		}
	}
}

// maxDepth bounds references to references.
const maxDepth = 20

// alternatives returns the schemas of a schema's choices, and whether it allows
// anything.
func (d *document) alternatives(schema any, depth int) (all []map[string]any, anything bool) {
	object, ok := schema.(map[string]any)
	if !ok || depth > maxDepth {
		return nil, schema == true
	}
	if ref, ok := object["$ref"].(string); ok {
		return d.alternatives(d.lookup(ref), depth+1)
	}
	all = append(all, object)
	choices := 0
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := object[keyword].([]any)
		for _, choice := range list {
			choices++
			more, open := d.alternatives(choice, depth+1)
			if open {
				return nil, true
			}
			all = append(all, more...)
		}
	}
	return all, choices == 0 && object["type"] == nil && object["properties"] == nil && object["enum"] == nil
}

// lookup finds a definition.
func (d *document) lookup(ref string) any {
	var at any = d.definitions
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/definitions/"), "/") {
		table, _ := at.(map[string]any)
		at = table[name]
	}
	return at
}
