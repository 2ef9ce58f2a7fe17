//! The database: one table of stock, one of orders, in a `SQLite` file that all processes share.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Result, params};

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE stock (
        id    INTEGER PRIMARY KEY,
        qty   INTEGER NOT NULL,
        fence INTEGER NOT NULL DEFAULT 0      -- the highest fencing token that claimed this row
    );
    CREATE TABLE orders (
        n    INTEGER PRIMARY KEY,
        proc INTEGER NOT NULL,
        task INTEGER NOT NULL,
        seen INTEGER NOT NULL                 -- the stock this order saw: twice the same is the
    );                                        -- same unit sold twice
    CREATE TABLE incident (taken INTEGER NOT NULL);
    INSERT INTO incident VALUES (0);
";

/// A connection of one task. Its methods block; call them through `spawn_blocking`.
#[derive(Clone)]
pub(crate) struct Database {
    connection: Arc<Mutex<Connection>>,
}

/// Who bought, and the stock that was read for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) proc: usize,
    pub(crate) task: usize,
    pub(crate) seen: i64,
}

/// What the database says at the end: the proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Orders that were accepted.
    pub(crate) orders: i64,
    /// Units that were sold, each counted once.
    pub(crate) units: i64,
    /// What the stock says is left.
    pub(crate) left: i64,
    /// How often the unit that was sold most was sold.
    pub(crate) most: i64,
}

impl Database {
    /// A new file with `qty` units of product `id`.
    pub(crate) fn create(path: &Path, id: u64, qty: u32) -> Result<()> {
        for suffix in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(suffix);
            let _ = std::fs::remove_file(file);
        }
        let connection = Connection::open(path)?;
        connection.execute_batch(SCHEMA)?;
        connection.execute("INSERT INTO stock (id, qty) VALUES (?1, ?2)", params![key(id), qty])?;
        Ok(())
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        // The demo is about locks, not about disks.
        connection.pragma_update(None, "synchronous", "OFF")?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// First half of a deduction: how many are there?
    pub(crate) fn read(&self, id: u64) -> Result<i64> {
        self.connection()
            .prepare_cached("SELECT qty FROM stock WHERE id = ?1")?
            .query_row([key(id)], |row| row.get(0))
    }

    /// Second half: one less than what was read, and the order.
    pub(crate) fn write(&self, id: u64, order: Order) -> Result<()> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        transaction
            .prepare_cached("UPDATE stock SET qty = ?2 WHERE id = ?1")?
            .execute([key(id), order.seen - 1])?;
        insert(&transaction, order)?;
        transaction.commit()
    }

    /// Fencing, step 1: claim the row before reading it. `false`: a newer holder was here.
    pub(crate) fn claim(&self, id: u64, fence: i64) -> Result<bool> {
        let rows = self
            .connection()
            .prepare_cached("UPDATE stock SET fence = ?2 WHERE id = ?1 AND fence <= ?2")?
            .execute([key(id), fence])?;
        Ok(rows == 1)
    }

    /// Fencing, step 3: write only under the own claim. `false`: a newer holder came in between.
    pub(crate) fn write_fenced(&self, id: u64, order: Order, fence: i64) -> Result<bool> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let rows = transaction
            .prepare_cached("UPDATE stock SET qty = ?2 WHERE id = ?1 AND fence = ?3")?
            .execute([key(id), order.seen - 1, fence])?;
        if rows == 0 {
            return Ok(false); // The transaction rolls back as it is dropped.
        }
        insert(&transaction, order)?;
        transaction.commit()?;
        Ok(true)
    }

    /// `true` for the first caller only: it plays the part of the act's unlucky holder.
    pub(crate) fn take_incident(&self) -> Result<bool> {
        let rows = self
            .connection()
            .prepare_cached("UPDATE incident SET taken = 1 WHERE taken = 0")?
            .execute([])?;
        Ok(rows == 1)
    }

    pub(crate) fn tally(&self, id: u64) -> Result<Tally> {
        let left = self.read(id)?;
        self.connection().query_row(
            "SELECT COALESCE(SUM(c), 0), COUNT(*), COALESCE(MAX(c), 0)
             FROM (SELECT COUNT(*) AS c FROM orders GROUP BY seen)",
            [],
            |row| {
                let (orders, units, most) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(Tally { orders, units, left, most })
            },
        )
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert(connection: &Connection, order: Order) -> Result<()> {
    let Order { proc, task, seen } = order;
    let [proc, task] = [proc, task].map(|index| i64::try_from(index).unwrap_or(i64::MAX));
    connection
        .prepare_cached("INSERT INTO orders (proc, task, seen) VALUES (?1, ?2, ?3)")?
        .execute([proc, task, seen])?;
    Ok(())
}

fn key(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shop(qty: u32) -> (tempfile::TempDir, Database) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shop.db");
        Database::create(&path, 7, qty).unwrap();
        let database = Database::open(&path).unwrap();
        (directory, database)
    }

    fn order(seen: i64) -> Order {
        Order { proc: 0, task: 0, seen }
    }

    #[test]
    fn a_lost_update_shows_in_the_tally() {
        let (_directory, database) = shop(10);
        let seen = database.read(7).unwrap();
        database.write(7, order(seen)).unwrap();
        database.write(7, order(seen)).unwrap();
        let tally = database.tally(7).unwrap();
        assert_eq!(tally, Tally { orders: 2, units: 1, left: 9, most: 2 });
    }

    #[test]
    fn a_zombie_is_refused_and_leaves_no_order() {
        let (_directory, database) = shop(10);
        assert!(database.claim(7, 33).unwrap());
        assert!(database.claim(7, 34).unwrap());
        assert!(!database.claim(7, 33).unwrap());
        assert!(!database.write_fenced(7, order(10), 33).unwrap());
        assert!(database.write_fenced(7, order(10), 34).unwrap());
        assert_eq!(database.tally(7).unwrap().orders, 1);
    }

    #[test]
    fn the_incident_happens_once() {
        let (_directory, database) = shop(1);
        assert!(database.take_incident().unwrap());
        assert!(!database.take_incident().unwrap());
    }
}
