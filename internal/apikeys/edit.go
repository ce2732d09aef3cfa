package apikeys

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// keyPrefix begins each key of Add. Some clients accept only keys that begin with sk-.
const keyPrefix = "sk-codex-"

// Option is a line in the entry of a key: the name of the option and its arguments.
type Option []string

// Add makes and returns a key, and adds its hash to the file at path. If there is no file, Add makes one.
func Add(path, id string, options []Option) (key string, err error) {
	key = keyPrefix + rand.Text() // 130 random bits
	sum := sha256.Sum256([]byte(key))
	if !validID.MatchString(id) {
		return "", errID
	}
	added, err := formatEntry(id, append([]Option{{"hash", hashPrefix + hex.EncodeToString(sum[:])}}, options...))
	if err != nil {
		return "", err
	}
	set, err := parse([]byte(added), "the new key")
	if err != nil {
		return "", err
	}
	if set.Keys[0].Expired(time.Now()) {
		return "", errors.New("the new key would have expired already")
	}
	err = edit(path, true, func(content string, set *Set) (string, error) {
		if slices.ContainsFunc(set.Keys, func(k *Key) bool { return k.ID == id }) {
			return "", fmt.Errorf("%s has a key with the id %s; revoke it, or choose another id", path, id)
		}
		for content != "" && !strings.HasSuffix(content, "\n\n") {
			content += "\n"
		}
		return content + added, nil
	})
	return key, err
}

// Revoke removes the entry of a key, and the comments directly above it, from the file at path.
func Revoke(path, id string) error {
	return edit(path, false, func(content string, set *Set) (string, error) {
		i := slices.IndexFunc(set.Keys, func(k *Key) bool { return k.ID == id })
		if i < 0 {
			return "", fmt.Errorf("%s has no key with the id %s", path, id)
		}
		lines := slices.Collect(strings.Lines(content))
		first, last := set.Keys[i].firstLine-1, set.Keys[i].lastLine
		for first > 0 && strings.HasPrefix(strings.TrimSpace(lines[first-1]), "#") {
			first--
		}
		if last < len(lines) && strings.TrimSpace(lines[last]) == "" && (first == 0 || strings.TrimSpace(lines[first-1]) == "") {
			last++ // of the two empty lines around the entry, only one stays
		}
		remaining := strings.Join(slices.Delete(lines, first, last), "")
		return cmp.Or(remaining, "\n"), nil // never empty: at first, a running Caddy would take an empty file for one that is still being written
	})
}

// editTimeout is how long a command waits for another command that changes the same file.
const editTimeout = 2 * time.Second

// createNewFile creates the file at path. The file exists while another command edits. Then createNewFile
// waits, at most for editTimeout.
func createNewFile(path string) (*os.File, error) {
	for end := time.Now().Add(editTimeout); ; time.Sleep(editTimeout / 200) {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) || time.Now().After(end) {
			return file, err
		}
	}
}

// edit atomically replaces the content of the file at path by the result of change, which must be a valid
// file of keys. An existing file keeps its owner and mode. If create is true, edit makes a missing file,
// which only its owner can read. If root runs the command, the owner of the directory owns the new file.
func edit(path string, create bool, change func(content string, set *Set) (string, error)) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	newPath := path + ".new"
	file, err := createNewFile(newPath)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is being changed by another command; if there is none, remove %s", path, newPath)
	}
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close() // it may be closed already
		if err != nil {
			_ = os.Remove(newPath)
		}
	}()
	set, content, err := (&File{path: path}).load()
	if errors.Is(err, fs.ErrNotExist) && create {
		set = new(Set)
		if err := adoptOwner(path, file); err != nil {
			return fmt.Errorf("giving %s the owner of its directory: %w", path, err)
		}
	} else if err != nil {
		return err
	} else if err := keepOwner(path, file); err != nil {
		return fmt.Errorf("keeping the owner of %s: %w", path, err)
	}
	changed, err := change(string(content), set)
	if err != nil {
		return err
	}
	if _, err := parse([]byte(changed), path); err != nil {
		return fmt.Errorf("the change would break the file: %w", err)
	}
	_, err = file.WriteString(changed)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(newPath, path)
}

var unquotedArg = regexp.MustCompile(`^[A-Za-z0-9._@:/+%-]+$`)

func formatEntry(id string, options []Option) (string, error) {
	entry := "key " + id + " {\n"
	for _, o := range options {
		entry += "\t" + o[0]
		for _, arg := range o[1:] {
			quoted, ok := quote(arg)
			if !ok {
				return "", fmt.Errorf("%s: %q cannot be written in a file of keys", o[0], arg)
			}
			entry += " " + quoted
		}
		entry += "\n"
	}
	return entry + "}\n", nil
}

// quote returns an argument as it is written in the file, with quotes if it needs them. It reports false
// if the argument has control characters, backticks or invalid UTF-8, which the syntax cannot express.
func quote(arg string) (quoted string, ok bool) {
	if unquotedArg.MatchString(arg) {
		return arg, true
	}
	return "`" + arg + "`", !strings.Contains(arg, "`") && utf8.ValidString(arg) && !strings.ContainsFunc(arg, unicode.IsControl)
}
