package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

const (
	damageEntries = 100
	page          = 4096
)

// damagedText is the text of the nth entry.
func damagedText(n int) string { return fmt.Sprint(n, strings.Repeat(" some text", 1500)) }

// filled returns a store on the disk with entries, and the path of its file.
func filled(t *testing.T) (*Disk, string) {
	t.Helper()
	dir := t.TempDir()
	d := openDisk(t, dir)
	for n := range damageEntries {
		must.OK(t, d.Put(t.Context(), "u", id(n), entry("", damagedText(n))))
	}
	return d, filepath.Join(dir, "responses.db")
}

// useDamaged uses a store, several uses at a time, and closes it. Each use has to end in time, with
// the right entry or an error of the store.
func useDamaged(t *testing.T, d *Disk) {
	t.Helper()
	ctx := context.Background()
	var uses sync.WaitGroup
	for first := range 4 {
		uses.Go(func() {
			for n := first; n < damageEntries; n += 4 {
				for _, part := range []Part{Value, Items} {
					pages, err := d.Read(ctx, "u", id(n), Query{Part: part, Limit: MaxEntry})
					if err == nil && (len(pages[0].Records) != 1 || string(pages[0].Records[0]) != damagedText(n)) {
						t.Errorf("%s of entry %d is %.80q", part, n, pages[0].Records)
					}
					isOfStore(t, fmt.Sprint("reading ", n), err)
				}
				if n%10 == first {
					isOfStore(t, "putting", d.Put(ctx, "u", id(1000+n), entry("", "new")))
					isOfStore(t, "deleting", d.Delete(ctx, "u", id(n), Whole))
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		uses.Wait()
		if err := d.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a use of the damaged file does not end")
	}
}

// isOfStore checks that a use of a store succeeded, or failed with an error of the store.
func isOfStore(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotFound) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestReadsWhileGrowing reads the file while it grows: bbolt then waits until no transaction reads,
// and those that begin wait for bbolt.
func TestReadsWhileGrowing(t *testing.T) {
	d, _ := filled(t)
	grown := make(chan struct{})
	var reads sync.WaitGroup
	for first := range 4 {
		reads.Go(func() {
			for n := first; ; n = (n + 1) % damageEntries {
				if err := d.file.read(func(tx *bbolt.Tx) error {
					if tx.Bucket([]byte(Value)).Get(keyOf(id(n), 0)) == nil {
						return ErrNotFound
					}
					return nil
				}); err != nil {
					t.Errorf("entry %d: %v", n, err)
				}
				select {
				case <-grown:
					return
				default:
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(grown)
		large := strings.Repeat("x", 1<<20)
		for n := range 12 {
			isOfStore(t, "putting", d.Put(context.Background(), "u", id(1000+n), entry("", large)))
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the file does not grow")
	}
	reads.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestDamagedFile damages the file of a store while it is used. Each use has to end with what was
// stored or with an error, and the next start with an error or what is left, but none with a panic.
func TestDamagedFile(t *testing.T) {
	var random *rand.ChaCha8
	for what, damage := range map[string]func(file *os.File, size int64) error{
		"zeros": func(file *os.File, size int64) error {
			_, err := file.WriteAt(make([]byte, size-2*page), 2*page)
			return err
		},
		"random bytes": func(file *os.File, size int64) error {
			garbage := make([]byte, size-2*page)
			_, _ = random.Read(garbage)
			_, err := file.WriteAt(garbage, 2*page)
			return err
		},
		"some pages": func(file *os.File, size int64) error {
			garbage := make([]byte, page)
			for at := int64(8 * page); at+page <= size; at += 8 * page {
				_, _ = random.Read(garbage)
				if _, err := file.WriteAt(garbage, at); err != nil {
					return err
				}
			}
			return nil
		},
		"the list of free pages": func(file *os.File, size int64) error { // also lists of earlier transactions
			head, wrong := make([]byte, 16), make([]byte, 16)
			binary.NativeEndian.PutUint64(wrong, 1<<40) // beyond the file
			binary.NativeEndian.PutUint16(wrong[8:], 0x10)
			binary.NativeEndian.PutUint32(wrong[12:], 1<<32-1) // pages on which it continues
			for at := int64(2 * page); at+page <= size; at += page {
				if _, err := file.ReadAt(head, at); err != nil {
					return err
				}
				if binary.NativeEndian.Uint16(head[8:]) != 0x10 {
					continue
				}
				if _, err := file.WriteAt(wrong, at); err != nil {
					return err
				}
			}
			return nil
		},
		"the header": func(file *os.File, _ int64) error {
			_, err := file.WriteAt(make([]byte, 2*page), 0)
			return err
		},
		"half":    func(file *os.File, size int64) error { return file.Truncate(size / 2) },
		"nothing": func(file *os.File, _ int64) error { return file.Truncate(0) },
	} {
		t.Run(what, func(t *testing.T) {
			random = rand.NewChaCha8([32]byte{7}) // the same bytes in any order of these tests
			d, path := filled(t)
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			must.OK(t, err)
			defer file.Close()
			info, err := file.Stat()
			if err == nil {
				err = damage(file, info.Size())
			}
			must.OK(t, err)
			useDamaged(t, d)
			next := NewDisk(filepath.Dir(path))
			next.Limit(1<<30, time.Hour)
			if err := next.Start(); err != nil {
				t.Log("the next start:", err)
				if strings.Contains(err.Error(), "another process") {
					t.Error("the file is still locked")
				}
				return
			}
			useDamaged(t, next)
		})
	}
}
