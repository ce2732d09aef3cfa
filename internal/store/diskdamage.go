package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// errDamaged means that a page of the file makes no sense, because a disk or another program has
// changed the file.
var errDamaged = errors.New("the file is damaged; to begin with an empty one, stop Caddy and move the file away")

// recoverDamage runs f, which uses the file. If f panics, recoverDamage returns an error that
// matches [errDamaged]: bbolt panics at a damaged page. If the file was cut, reading it causes a
// memory fault instead, since bbolt has mapped the file into memory. A fault would end the process,
// so recoverDamage turns it into a panic.
func recoverDamage(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w (%v)", errDamaged, reason)
		}
	}()
	return f()
}

// beginTx begins a transaction. If bbolt panics here, it keeps a lock. Each further transaction would wait
// for this lock, and each reading one could not end without it. So beginTx makes f.damage say that the
// file is not used any more.
func (f *boltFile) beginTx(writable bool) (tx *bbolt.Tx, err error) {
	f.beginMu.Lock()
	defer f.beginMu.Unlock()
	if damage := f.damage.Load(); damage != nil {
		return nil, *damage
	}
	err = recoverDamage(func() (err error) {
		tx, err = f.db.Begin(writable)
		return err
	})
	if errors.Is(err, errDamaged) {
		f.damage.Store(&err)
	}
	return tx, err
}

// read runs get, which reads the file. If get panics, other transactions continue. read ends its
// transaction without beginMu, to avoid a deadlock: another goroutine may hold beginMu while bbolt
// enlarges the file, and for that bbolt waits until this transaction has ended.
func (f *boltFile) read(get func(*bbolt.Tx) error) error {
	tx, err := f.beginTx(false)
	if err != nil {
		return err
	}
	defer func() {
		if f.damage.Load() == nil {
			_ = tx.Rollback() // fails only if the transaction has ended
		}
	}()
	return recoverDamage(func() error { return get(tx) })
}

// write runs change, which changes the file. If change panics, the file is not used any more: bbolt
// may still hold the lock of the transaction, so the next change would wait for ever. The caller
// holds the lock of the [Local].
func (f *boltFile) write(change func(*bbolt.Tx) error) error {
	tx, err := f.beginTx(true)
	if err != nil {
		return err
	}
	err = recoverDamage(func() error {
		if err := change(tx); err != nil {
			_ = tx.Rollback() // fails only if the transaction has ended
			return err
		}
		if err := f.checkFreeList(); err != nil {
			return err
		}
		return tx.Commit()
	})
	if errors.Is(err, errDamaged) {
		f.damage.Store(&err)
	}
	return err
}

// checkFreeList checks the header of the page that lists the free pages. bbolt does not check it: with
// random bytes there, a commit would take up to four billion pages for parts of the list, free all of
// them, and need the memory for that.
//
// A page begins with its number (8 bytes), its kind (2), a count (2), and how many pages it continues
// on (4). The first two pages have the state of the file before and after a transaction: behind 32
// other bytes, the page with the list, the number of pages, the number of the transaction, and a
// checksum (8 bytes each).
func (f *boltFile) checkFreeList() error {
	const listKind = 0x10
	number, pageSize := binary.NativeEndian.Uint64, int64(f.db.Info().PageSize)
	page, list, pages, newest := make([]byte, 80), uint64(0), uint64(0), uint64(0)
	for n := range int64(2) {
		if _, err := f.file.ReadAt(page, n*pageSize); err != nil {
			return fmt.Errorf("%w (%w)", errDamaged, err)
		}
		sum := fnv.New64a()
		_, _ = sum.Write(page[16:72])
		if transaction := number(page[64:]); sum.Sum64() == number(page[72:]) && transaction >= newest {
			list, pages, newest = number(page[48:]), number(page[56:]), transaction
		}
	}
	_, err := f.file.ReadAt(page[:16], int64(list)*pageSize)
	continues := uint64(binary.NativeEndian.Uint32(page[12:]))
	if err != nil || number(page) != list || binary.NativeEndian.Uint16(page[8:]) != listKind || list+continues >= pages {
		return fmt.Errorf("%w (page %d does not list the free pages)", errDamaged, list)
	}
	return nil
}
