package responsestore

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// errDamaged is matched by the error of a use of the file that met a page which makes no sense,
// because a disk or another program has changed the file.
var errDamaged = errors.New("the file is damaged; to begin with an empty one, stop Caddy and move the file away")

// recoverDamage runs f, which uses the file, and returns an error that matches [errDamaged] if f panics:
// bbolt panics at a damaged page. bbolt maps the file into memory, where reading beyond the end of
// a file that was cut is a fault. guarded makes a fault a panic: it would end the process.
func recoverDamage(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w (%v)", errDamaged, reason)
		}
	}()
	return f()
}

// beginTx begins a transaction. If it panics, the file is abandoned: bbolt then keeps a lock that all
// transactions need when they begin, and those that only read also when they end.
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

// read runs get, which reads the file. A panic of get harms no other use. Its end must not wait for
// those that begin: they may wait until the file has grown, for which bbolt waits until this ends.
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

// write runs change, which changes the file. If change panics, the file is abandoned: bbolt may keep
// the lock of the transaction, for which the next change would wait without end. The caller holds
// the lock of d.
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
