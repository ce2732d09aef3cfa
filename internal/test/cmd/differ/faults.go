package main

import (
	"strings"

	"github.com/tidwall/gjson"
)

// place is where a value is in a body.
type place struct {
	begin, value, end int // of its member of an object, or of itself in a list; of the value
	inObject          bool
}

// places appends the places of all values in an object or list, those around others first.
func places(all []place, body string, in gjson.Result) []place {
	var inside []gjson.Result
	in.ForEach(func(name, value gjson.Result) bool {
		p := place{value.Index, value.Index, value.Index + len(value.Raw), in.IsObject()}
		if p.inObject {
			p.begin = strings.LastIndex(body[:p.value], name.Raw)
		}
		all, inside = append(all, p), append(inside, value)
		return true
	})
	for _, value := range inside {
		if value.IsObject() || value.IsArray() {
			all = places(all, body, value)
		}
	}
	return all
}

// breakStep puts up to four faults into about half of all steps.
func (d *drawing) breakStep(s *step) {
	faults := [...]int{0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4}[d.IntN(12)]
	if faults > 0 && d.IntN(8) == 0 {
		d.breakOutside(s)
	}
	for range faults {
		if all := places(nil, s.body, gjson.Parse(s.body)); len(all) > 0 {
			// The first ones have the fields of the API.
			s.body = d.breakAt(s.body, all[min(d.IntN(len(all)), d.IntN(2*len(all)))])
		}
	}
	if faults > 0 && d.IntN(25) == 0 {
		cut := d.IntN(len(s.body) + 1)
		s.body = s.body[:cut] + d.expand("garbage") + s.body[min(len(s.body), cut+d.IntN(3)):]
	}
}

// breakOutside changes what is no part of the JSON.
func (d *drawing) breakOutside(s *step) {
	switch d.IntN(4) {
	case 0:
		s.method = d.expand("method")
	case 1:
		s.path = strings.Replace(s.path, "/", d.expand("path"), 1)
	case 2:
		s.header = append(s.header, d.expand("header"))
	case 3:
		s.body = d.expand("garbage") + s.body
	}
}

// breakAt changes, removes or doubles the value at a place, or adds another one after it.
func (d *drawing) breakAt(body string, p place) string {
	before, after := body[:p.end], body[p.end:]
	switch kind := d.IntN(6); {
	case kind == 0 && p.inObject:
		return before + d.expand("field") + after
	case kind == 0:
		return before + "," + d.expand("junk") + after
	case kind == 1: // a name twice
		return before + "," + body[p.begin:p.value] + d.expand("junk") + after
	case kind == 2 && strings.HasPrefix(after, ","):
		return body[:p.begin] + after[1:]
	case kind == 2:
		return strings.TrimSuffix(body[:p.begin], ",") + after
	}
	return body[:p.value] + d.expand("junk") + after
}
