package apikeys

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func hashOf(key string) string {
	return fmt.Sprintf("hash %s%x", hashPrefix, sha256.Sum256([]byte(key)))
}

func TestParse(t *testing.T) {
	set, err := parse([]byte(`# the first
key alice-laptop {
	`+hashOf("one")+` # of one
	user    "Alice A."
	expires 2027-01-31T12:00:00+02:00
	models  gpt-5.5 fast
}

key b@x.org {
	`+hashOf("two")+`
	expires 2027-01-31
}
`), "keys")
	must.OK(t, err)
	one, two := set.Find("one"), set.Find("two")
	if one == nil || two == nil || set.Find("three") != nil || set.Find("") != nil || len(set.Keys) != 2 {
		t.Fatalf("%+v", set)
	}
	if one.ID != "alice-laptop" || one.User != "Alice A." || !one.Expires.Equal(time.Date(2027, 1, 31, 10, 0, 0, 0, time.UTC)) ||
		!reflect.DeepEqual(one.Models, []string{"gpt-5.5", "fast"}) || one.Allows("gpt-5") || !one.Allows("fast") {
		t.Errorf("%+v", one)
	}
	if two.ID != "b@x.org" || two.User != "b@x.org" || !two.Allows("anything") {
		t.Errorf("%+v", two)
	}
	if end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC); two.Expired(end.Add(-1)) || !two.Expired(end) {
		t.Error("the end is not the begin of the day")
	}
	if empty, err := parse([]byte("# nothing\n"), "keys"); err != nil || len(empty.Keys) != 0 || empty.Find("") != nil {
		t.Errorf("%+v, %v", empty, err)
	}
}

// TestParseErrors checks that errors have the file and the line, and show no key.
func TestParseErrors(t *testing.T) {
	const secret = "sk-nobody-may-see-this"
	h := hashOf("x")
	for content, want := range map[string]struct {
		line int
		text string
	}{
		"keys a":                                                 {1, "expected: key <id> {"},
		"key {\n" + h + "\n}":                                    {1, "one id"},
		"key a b {\n" + h + "\n}":                                {1, "one id"},
		"key " + secret + "/ {\n" + h + "\n}":                    {1, "one id"},
		"key a":                                                  {1, "the key a has no hash"},
		"key a {\n}":                                             {2, "the key a has no hash"},
		"key a {\n" + h + "\n":                                   {2, "no closing brace"},
		"key a {\n" + hashOf("") + "\n}":                         {3, "that of nothing"},
		"key a {\nuser x\n}":                                     {3, "the key a has no hash"},
		"key a {\n" + h + "\n" + h + "\n}":                       {3, "hash is given twice"},
		"key a {\nhash " + secret + "\n}":                        {2, "hash must be sha256:"},
		"key a {\nhash sha256:" + secret + "\n}":                 {2, "hash must be sha256:"},
		"key a {\n" + h + "0\n}":                                 {2, "hash must be sha256:"},
		"key a {\n" + h[:len(h)-1] + "\n}":                       {2, "hash must be sha256:"},
		"key a {\n" + h + " " + secret + "\n}":                   {2, "hash must be sha256:"},
		"key a {\n" + h + "\nuser\n}":                            {3, "user takes one name"},
		"key a {\n" + h + "\nuser \"\"\n}":                       {3, "user takes one name"},
		"key a {\n" + h + "\nexpires soon\n}":                    {3, "expires takes a date"},
		"key a {\n" + h + "\nmodels\n}":                          {3, "models takes the names"},
		"key a {\n" + h + "\nmodels x {\ny\n}\n}":                {3, "unknown option"},
		"key a {\n" + h + "\nhome /x\n}":                         {3, `unknown option "home"`},
		"key a {\n" + h + "\n}\nkey a {\n" + hashOf("y") + "\n}": {6, "two keys with the id a"},
		"key a {\n" + h + "\n}\nkey b {\n" + h + "\n}":           {6, "the keys a and b are the same"},
	} {
		_, err := parse([]byte(content), "the-file")
		if err == nil {
			t.Errorf("%q is no error", content)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want.text) || !strings.Contains(got, fmt.Sprintf("the-file:%d", want.line)) || strings.Contains(got, secret) {
			t.Errorf("%q: %s, want line %d, %s", content, got, want.line, want.text)
		}
	}
}

func TestParseLimits(t *testing.T) {
	set, err := parse([]byte("key a {\n"+hashOf("x")+"\nmax_concurrent 4\nrequests 60 1m\nrequests 1_000 day\ntokens 5 7d\ntokens 9 day\nplan_share 12.5%\nlend on\nspent no\n}"), "keys")
	must.OK(t, err)
	var limits []string
	for _, l := range set.Keys[0].Limits {
		limits = append(limits, fmt.Sprint(l.Max, " ", l.Unit, " ", l.Window))
	}
	if got, want := strings.Join(limits, ", "), "60 requests 1m, 1000 requests day, 5 tokens 168h, 9 tokens day"; got != want || set.Keys[0].MaxConcurrent != 4 {
		t.Errorf("%s, %d at once", got, set.Keys[0].MaxConcurrent)
	}
	if k := set.Keys[0]; k.PlanShare != 125 || !k.Lends || !k.StaysIfSpent {
		t.Errorf("%d of the plan, lends %t", k.PlanShare, k.Lends)
	}
	for line, want := range map[string]string{
		"spent yes":                     "spent takes only no",
		"max_concurrent 0":              "max_concurrent takes a number above zero",
		"max_concurrent 1 2":            "max_concurrent takes a number above zero",
		"requests 60":                   "requests takes a number and a window",
		"requests 60 1m x":              "requests takes a number and a window",
		"requests 0 1m":                 "requests takes a number above zero",
		"requests -1 1m":                "requests takes a number above zero",
		"requests 1125899906842625 1m":  "requests takes a number above zero",
		"requests 60 minute":            "requests has a wrong window: it is neither",
		"requests 60 10ms":              "requests has a wrong window",
		"requests 60 367d":              "requests has a wrong window",
		"plan_share 20":                 "plan_share takes a share above 0 and up to 100%",
		"plan_share 0%":                 "plan_share takes a share above 0",
		"plan_share 0.04%":              "plan_share takes a share above 0",
		"plan_share 100.1%":             "plan_share takes a share above 0",
		"plan_share 12.55%":             "plan_share takes a share above 0",
		"plan_share NaN%":               "plan_share takes a share above 0",
		"plan_share 20% 5h":             "plan_share takes a share above 0",
		"plan_share 2%\nplan_share 3%":  "plan_share is given twice",
		"plan_share 2%\nlend yes":       "lend must be on or off",
		"lend on":                       "the key a has no plan_share to lend",
		"requests 1 1m\nrequests 2 60s": "requests has two limits for a window of 1m",
		"requests 1 1h\nrequests 1 1s\nrequests 1 2s\nrequests 1 3s\nrequests 1 4s\nrequests 1 5s\nrequests 1 6s\nrequests 1 7s\nrequests 1 8s": "requests is one limit too many",
	} {
		_, err := parse([]byte("key a {\n"+hashOf("x")+"\n"+line+"\n}"), "keys")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("key a {\n" + hashOf("x") + "\nuser b\nexpires 2027-01-31\nmodels a b\n}"))
	f.Add([]byte("key a {\n" + hashOf("x") + "\nplan_share 12.5%\nlend on\n}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		set, err := parse(content, "keys")
		if err != nil {
			return
		}
		for _, k := range set.Keys {
			if !validID.MatchString(k.ID) || k.User == "" || set.byHash[k.Hash] != k || k.PlanShare < 0 || k.PlanShare > 1000 || k.Lends && k.PlanShare == 0 {
				t.Errorf("%+v", k)
			}
		}
	})
}
