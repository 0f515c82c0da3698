//! The few calls of LMDB that a comparison needs, behind types that keep its rules.

use lmdb_master_sys as lmdb;
use meta::MetaError;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io::Error;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

/// Address space of the map.
const MAP_BYTES: usize = 1 << 30;
const FILE_MODE: u32 = 0o600;

fn check(code: c_int) -> Result<(), MetaError> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: it returns a string that lives as long as the program, or in a buffer of the C library.
    let text = unsafe { CStr::from_ptr(lmdb::mdb_strerror(code)) };
    Err(Error::other(text.to_string_lossy().into_owned()).into())
}

/// As [`check`], `false` for a key that is not there.
fn found(code: c_int) -> Result<bool, MetaError> {
    if code == lmdb::MDB_NOTFOUND {
        return Ok(false);
    }
    check(code).map(|()| true)
}

fn val(bytes: &[u8]) -> lmdb::MDB_val {
    lmdb::MDB_val {
        mv_size: bytes.len(),
        // Never written through: LMDB copies keys and data.
        mv_data: bytes.as_ptr().cast_mut().cast::<c_void>(),
    }
}

/// An open environment with its one table.
pub(crate) struct Engine {
    env: *mut lmdb::MDB_env,
    table: lmdb::MDB_dbi,
}

// SAFETY: an environment may be used by any thread (lmdb.h, "Caveats"); it is opened with MDB_NOTLS, so that readers are not tied to
// threads either. Transactions are neither `Send` nor `Sync`.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}

impl Engine {
    pub(crate) fn open(dir: &Path) -> Result<Self, MetaError> {
        let path = CString::new(dir.as_os_str().as_bytes()).expect("no zero in a path of a test");
        let mut engine = Self {
            env: null_mut(),
            table: 0,
        };
        // SAFETY: the pointers are to our own variables, which live over each call. The environment is opened once in this
        // process, in a directory of the test alone. What failed to open is closed by `drop`.
        unsafe {
            check(lmdb::mdb_env_create(&raw mut engine.env))?;
            check(lmdb::mdb_env_set_mapsize(engine.env, MAP_BYTES))?;
            check(lmdb::mdb_env_open(
                engine.env,
                path.as_ptr(),
                lmdb::MDB_NOTLS,
                FILE_MODE,
            ))?;
        }
        let tx = engine.begin(0)?;
        let mut table = 0;
        // SAFETY: the transaction is alive, and no other one opens a table.
        check(unsafe { lmdb::mdb_dbi_open(tx.tx, null_mut(), 0, &raw mut table) })?;
        tx.commit()?;
        engine.table = table;
        Ok(engine)
    }

    fn begin(&self, flags: u32) -> Result<Transaction<'_>, MetaError> {
        let mut tx = null_mut();
        // SAFETY: the environment is open, and outlives the transaction by its lifetime.
        check(unsafe { lmdb::mdb_txn_begin(self.env, null_mut(), flags, &raw mut tx) })?;
        Ok(Transaction {
            tx,
            table: self.table,
            of: PhantomData,
        })
    }

    /// Waits for the writer before.
    pub(crate) fn write(&self) -> Result<Transaction<'_>, MetaError> {
        self.begin(0)
    }

    pub(crate) fn read(&self) -> Result<Transaction<'_>, MetaError> {
        self.begin(lmdb::MDB_RDONLY)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.env.is_null() {
            // SAFETY: made by `mdb_env_create`; transactions borrow it, so none is left.
            unsafe { lmdb::mdb_env_close(self.env) };
        }
    }
}

/// A transaction; dropped, it has not happened.
pub(crate) struct Transaction<'e> {
    tx: *mut lmdb::MDB_txn,
    table: lmdb::MDB_dbi,
    of: PhantomData<&'e Engine>,
}

impl Transaction<'_> {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, MetaError> {
        let (mut key, mut data) = (val(key), val(&[]));
        // SAFETY: the transaction is alive and key and data are ours.
        let code = unsafe { lmdb::mdb_get(self.tx, self.table, &raw mut key, &raw mut data) };
        // SAFETY: what was found lies in the map until the transaction writes or ends; `self` is borrowed as long.
        Ok(found(code)?.then(|| unsafe { bytes_of(data) }))
    }

    /// Calls `visit` for pairs from `start` on, in order, until it says no.
    pub(crate) fn each(
        &self,
        start: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MetaError> {
        let mut cursor = null_mut();
        // SAFETY: the transaction is alive.
        check(unsafe { lmdb::mdb_cursor_open(self.tx, self.table, &raw mut cursor) })?;
        let (mut key, mut data) = (val(start), val(&[]));
        let mut step = lmdb::MDB_SET_RANGE;
        let ended = loop {
            // SAFETY: the cursor is open, key and data are ours.
            let code = unsafe { lmdb::mdb_cursor_get(cursor, &raw mut key, &raw mut data, step) };
            match found(code) {
                Ok(true) => {}
                other => break other.map(drop),
            }
            // SAFETY: both lie in the map until the transaction writes or ends, and `visit` cannot make it do so.
            if !unsafe { visit(bytes_of(key), bytes_of(data)) } {
                break Ok(());
            }
            step = lmdb::MDB_NEXT;
        };
        // SAFETY: opened above, and its transaction is alive.
        unsafe { lmdb::mdb_cursor_close(cursor) };
        ended
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), MetaError> {
        let (mut key, mut data) = (val(key), val(value));
        // SAFETY: the transaction is alive; LMDB copies both.
        check(unsafe { lmdb::mdb_put(self.tx, self.table, &raw mut key, &raw mut data, 0) })
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), MetaError> {
        let mut key = val(key);
        // SAFETY: the transaction is alive.
        found(unsafe { lmdb::mdb_del(self.tx, self.table, &raw mut key, null_mut()) }).map(drop)
    }

    pub(crate) fn commit(mut self) -> Result<(), MetaError> {
        let tx = std::mem::replace(&mut self.tx, null_mut());
        // SAFETY: alive until now, and never used again: also when it fails it is freed.
        check(unsafe { lmdb::mdb_txn_commit(tx) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.tx.is_null() {
            // SAFETY: alive until now, and never used again.
            unsafe { lmdb::mdb_txn_abort(self.tx) };
        }
    }
}

/// # Safety
/// The bytes must live and stay as they are for `'b`.
unsafe fn bytes_of<'b>(found: lmdb::MDB_val) -> &'b [u8] {
    // SAFETY: LMDB gives an address and a length, and the caller promises the rest.
    unsafe { std::slice::from_raw_parts(found.mv_data.cast::<u8>(), found.mv_size) }
}
