// Package apikeys reads and edits a file of API keys. The file has the syntax of a Caddyfile:
// operators know this syntax, it allows comments, caddy fmt formats it, and errors name the line.
//
//	# The laptop of Alice
//	key alice-laptop {
//	    hash    sha256:<64 hexadecimal digits>
//	    user    alice
//	    expires 2027-01-31
//	    models  gpt-5.5 fast
//	}
//
// Only hashes of keys are stored. SHA-256 without salt or stretching is enough for a key
// with 128 random bits, which nobody can guess; a short password would need more.
package apikeys

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/option"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Hash is the SHA-256 of a key.
type Hash [sha256.Size]byte

// Key is the entry of an API key in the file.
type Key struct {
	quota.Key
	Hash    Hash
	Expires time.Time // zero: never

	firstLine, lastLine int // the first and the last line of the entry; the file begins with line 1
}

// Expired reports whether the key is no longer valid.
func (k *Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Set is the content of a file of keys. A Set never changes.
type Set struct {
	Keys   []*Key // in the order of the file
	byHash map[Hash]*Key
	Users  []string // at most two of the users that the keys have, enough to know that there are several
	lends  bool     // a key lends
}

// Find returns the entry of the key that a client has sent, or nil. Find need not run in constant
// time: its duration reveals at most a part of a hash, from which nobody can compute a key.
func (s *Set) Find(presented string) *Key { return s.byHash[sha256.Sum256([]byte(presented))] }

const (
	maxKeys   = 10_000  // of a file
	maxModels = 100     // of an entry
	maxLimits = 8       // of an entry
	maxLimit  = 1 << 50 // the largest number of a limit; sums of such numbers cannot overflow

	// hashPrefix precedes the hexadecimal digits of a hash.
	hashPrefix = "sha256:"
)

// validID matches the ids of keys. The ids are also labels of metrics.
var validID = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)

var errID = errors.New("a key has one id, of up to 64 letters, digits and . _ @ -")

// parse reads a file of keys. Its errors have the file's name and the line, but no secret.
func parse(content []byte, name string) (*Set, error) {
	tokens, err := caddyfile.Tokenize(append(content, '\n'), name) // without the line end, an empty file would be an error
	if err != nil {
		return nil, err
	}
	s := &Set{byHash: make(map[Hash]*Key)}
	ids := make(map[string]bool)
	for d := caddyfile.NewDispenser(tokens); d.Next(); {
		if d.Val() != "key" {
			return nil, d.Err("expected: key <id> {")
		}
		k, err := parseKey(d)
		if err != nil {
			return nil, err
		}
		if ids[k.ID] {
			return nil, d.Errf("there are two keys with the id %s", k.ID)
		}
		if other := s.byHash[k.Hash]; other != nil {
			return nil, d.Errf("the keys %s and %s are the same", other.ID, k.ID)
		}
		if len(s.Keys) == maxKeys {
			return nil, d.Errf("a file may have %d keys", maxKeys)
		}
		ids[k.ID], s.byHash[k.Hash] = true, k
		s.Keys, s.lends = append(s.Keys, k), s.lends || k.Lends
		if len(s.Users) < 2 && !slices.Contains(s.Users, k.User) {
			s.Users = append(s.Users, k.User)
		}
	}
	return s, nil
}

func parseKey(d *caddyfile.Dispenser) (*Key, error) {
	k := &Key{firstLine: d.Line()}
	if !d.AllArgs(&k.ID) || !validID.MatchString(k.ID) {
		return nil, d.WrapErr(errID)
	}
	var seen []string
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		o := options[name]
		if o.read == nil {
			known := slices.Collect(maps.Keys(options))
			return nil, d.Errf("unknown option %.32q of a key%s", name, option.Suggestion(name, known))
		}
		if slices.Contains(seen, name) && !o.repeats {
			return nil, d.Errf("%s is given twice", name)
		}
		seen = append(seen, name)
		if problem := o.read(k, d.RemainingArgs()); problem != "" {
			return nil, d.Errf("%s %s", name, problem)
		}
	}
	k.lastLine = d.Line()
	switch {
	case d.Nesting() != 0:
		return nil, d.Errf("the key %s has no closing brace", k.ID)
	case k.Hash == Hash{}:
		return nil, d.Errf("the key %s has no hash", k.ID)
	case k.Lends && k.PlanShare == 0:
		return nil, d.Errf("the key %s has no plan_share to lend", k.ID)
	case k.Hash == sha256.Sum256(nil):
		return nil, d.Errf("the hash of the key %s is that of nothing: is a variable not set?", k.ID)
	}
	k.User = cmp.Or(k.User, k.ID)
	// What a key has used is counted by the hash and not by the id, since another file may have the
	// same id, and since the counts of a new key with an old id must begin at zero.
	k.Account = hex.EncodeToString(k.Hash[:16])
	return k, nil
}

type keyOption struct {
	read    func(k *Key, args []string) (problem string) // empty: the arguments are valid
	repeats bool                                         // an entry may have the option several times
}

var options = map[string]keyOption{
	"hash":           {read: oneArg(readHash, "must be "+hashPrefix+" and 64 hexadecimal digits")},
	"user":           {read: oneArg(func(k *Key, arg string) bool { k.User = arg; return arg != "" }, "takes one name")},
	"expires":        {read: oneArg(readExpires, "takes a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z")},
	"models":         {read: readModels},
	"max_concurrent": {read: oneArg(readMaxConcurrent, "takes a number above zero")},
	"requests":       {read: readLimit(quota.Requests), repeats: true},
	"tokens":         {read: readLimit(quota.Tokens), repeats: true},
	"spent":          {read: oneArg(func(k *Key, arg string) bool { k.StaysIfSpent = true; return arg == "no" }, "takes only no")},
	"plan_share":     {read: oneArg(readPlanShare, "takes a share above 0 and up to 100%, such as 20% or 12.5%")},
	"lend":           {read: oneArg(func(k *Key, arg string) bool { k.Lends = arg == "on"; return k.Lends || arg == "off" }, "must be on or off")},
}

func oneArg(read func(k *Key, arg string) bool, problem string) func(*Key, []string) string {
	return func(k *Key, args []string) string {
		if len(args) == 1 && read(k, args[0]) {
			return ""
		}
		return problem
	}
}

func readHash(k *Key, arg string) bool {
	digits, ok := strings.CutPrefix(arg, hashPrefix)
	sum, err := hex.DecodeString(digits)
	if ok = ok && err == nil && len(sum) == len(k.Hash); ok {
		k.Hash = Hash(sum)
	}
	return ok
}

// readExpires reads a time or a date. A date means the beginning of that day in UTC.
func readExpires(k *Key, arg string) bool {
	at, err := time.Parse(time.RFC3339, arg)
	if err != nil {
		at, err = time.Parse(time.DateOnly, arg)
	}
	k.Expires = at
	return err == nil && !at.IsZero()
}

func readModels(k *Key, args []string) string {
	if len(args) == 0 || len(args) > maxModels || slices.Contains(args, "") {
		return "takes the names of up to 100 models"
	}
	k.Models = args
	return ""
}

func readMaxConcurrent(k *Key, arg string) bool {
	n, err := strconv.Atoi(arg)
	k.MaxConcurrent = n
	return err == nil && n > 0
}

func readPlanShare(k *Key, arg string) bool {
	number, isPercent := strings.CutSuffix(arg, "%")
	n, err := strconv.ParseFloat(number, 64)
	k.PlanShare = int64(math.Round(10 * n))
	return err == nil && isPercent && n > 0 && n <= 100 && float64(k.PlanShare)/10 == n
}

func readLimit(unit quota.Unit) func(*Key, []string) string {
	return func(k *Key, args []string) string {
		if len(args) != 2 {
			return "takes a number and a window, such as 60 1m or 1000 day"
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(args[0], "_", ""), 10, 64)
		if err != nil || n <= 0 || n > maxLimit {
			return "takes a number above zero and a window"
		}
		window, err := quota.ParseWindow(args[1])
		if length, noLength := caddy.ParseDuration(args[1]); noLength == nil { // also in days, such as 7d
			window, err = quota.ParseWindow(length.String())
		}
		if err != nil {
			return "has a wrong window: " + err.Error()
		}
		if slices.ContainsFunc(k.Limits, func(l quota.Limit) bool { return l.Unit == unit && l.Window == window }) {
			return "has two limits for a window of " + window.String()
		}
		if len(k.Limits) == maxLimits {
			return "is one limit too many"
		}
		k.Limits = append(k.Limits, quota.Limit{Unit: unit, Max: n, Window: window})
		return ""
	}
}

// PlanLimits returns a function that returns the limits of a key in windows: its plan_share, if it has one, and what
// others lend of theirs. A key that lends keeps as much of its unused share as the window has of its time left, and
// borrowers leave what all other keys keep. What one key has borrowed, no other can borrow. A key that lends may use its
// own share as long as the plan has more left than the unused shares of keys that do not lend.
func (s *Set) PlanLimits(windows []usage.Known) func(*quota.Key) []quota.Limit {
	now := time.Now()
	all := make([]struct{ kept, lent, firm float64 }, len(windows)) // by all keys; firm: by those that do not lend
	for i := 0; s.lends && i < len(windows); i++ {
		for _, k := range s.Keys {
			if k.PlanShare > 0 && !k.Expired(now) {
				_, keeps, lends := claim(&windows[i], &k.Key, now)
				if all[i].kept, all[i].lent = all[i].kept+keeps, all[i].lent+lends; !k.Lends {
					all[i].firm += keeps
				}
			}
		}
	}
	return func(k *quota.Key) (limits []quota.Limit) {
		for i := 0; k.PlanShare > 0 && i < len(windows); i++ {
			w, sum := &windows[i], &all[i]
			share, keeps, lends := claim(w, k, now)
			free := float64(w.Costs[k.ID]) + float64(w.Whole)*(1-w.Used/100) // if no other key has a share
			most := max(min(share, free-sum.firm), min(share+max(0, sum.lent-lends), free-(sum.kept-keeps)))
			if !k.Lends || w.Used >= 100 { // a plan that is spent refuses by itself
				most = max(most, share)
			}
			name := (&codexrpc.RateWindow{Window: time.Duration(w.Length) * time.Second}).Name() + " " + w.Meter + " " + w.Login
			limits = append(limits, quota.Limit{
				Unit: quota.PlanShare, Max: min(w.Whole, max(1, int64(most))), Window: quota.PlanWindow(name, time.Unix(w.Resets, 0)), Whole: w.Whole,
			})
		}
		return limits
	}
}

// claim returns a key's share of a window, how much of it the key keeps, and how much it lends; negative: the key has
// used more than its share.
func claim(w *usage.Known, k *quota.Key, now time.Time) (share, keeps, lends float64) {
	share = float64(w.Whole) * float64(k.PlanShare) / 1000
	unused := share - float64(w.Costs[k.ID])
	if keeps = max(0, unused); k.Lends {
		keeps = min(keeps, share*max(0, float64(w.Resets-now.Unix()))/float64(w.Length))
	}
	return share, keeps, unused - keeps
}
