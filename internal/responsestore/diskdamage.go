package responsestore

import (
	"errors"
	"fmt"
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

// beginTx begins a transaction. If bbolt panics, it keeps a lock. Each transaction needs this lock
// to begin, and a reading transaction also needs it to end. So the file is not used any more.
func (d *Disk) beginTx(writable bool) (tx *bbolt.Tx, err error) {
	d.beginMu.Lock()
	defer d.beginMu.Unlock()
	if damage := d.damage.Load(); damage != nil {
		return nil, *damage
	}
	err = recoverDamage(func() (err error) {
		tx, err = d.db.Begin(writable)
		return err
	})
	if errors.Is(err, errDamaged) {
		d.damage.Store(&err)
	}
	return tx, err
}

// read runs get, which reads the file. If get panics, other transactions continue. read ends its
// transaction without beginMu, to avoid a deadlock: another goroutine may hold beginMu while bbolt
// enlarges the file, and for that bbolt waits until this transaction has ended.
func (d *Disk) read(get func(*bbolt.Tx) error) error {
	tx, err := d.beginTx(false)
	if err != nil {
		return err
	}
	defer func() {
		if d.damage.Load() == nil {
			_ = tx.Rollback() // fails only if the transaction has ended
		}
	}()
	return recoverDamage(func() error { return get(tx) })
}

// write runs change, which changes the file. If change panics, the file is not used any more: bbolt
// may still hold the lock of the transaction, so the next change would wait for ever. The caller
// holds the lock of d.
func (d *Disk) write(change func(*bbolt.Tx) error) error {
	tx, err := d.beginTx(true)
	if err != nil {
		return err
	}
	err = recoverDamage(func() error {
		if err := change(tx); err != nil {
			_ = tx.Rollback() // fails only if the transaction has ended
			return err
		}
		return tx.Commit()
	})
	if errors.Is(err, errDamaged) {
		d.damage.Store(&err)
	}
	return err
}
