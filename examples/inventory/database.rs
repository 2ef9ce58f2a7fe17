//! The database: one table of stock, one of orders, in an `SQLite` file that all processes share.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, params};
use serde::Serialize;

use crate::Result;

const FENCED_OUT: &str = "a newer holder has claimed the row";

/// A connection of one task. Its methods block.
pub(crate) struct Database(Mutex<Connection>);

/// What the database says at the end: the proof.
#[derive(Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) orders: i64,
    /// Units that were sold, each counted once.
    pub(crate) units: i64,
    pub(crate) left: i64,
    /// How often the unit that was sold most was sold.
    pub(crate) most_sold_unit: i64,
}

impl Tally {
    /// Every unit of the stock was sold once.
    pub(crate) fn is_exact(&self, stock: u32) -> bool {
        self.orders == self.units && self.units == i64::from(stock) && self.left == 0
    }

    /// How many units were lost or came from nowhere while they were moved.
    pub(crate) fn adrift(&self, stock: u32) -> i64 {
        self.left - i64::from(stock)
    }

    /// Orders that cannot be delivered. Where stock was left over they are the orders of units
    /// that had been sold before.
    pub(crate) fn oversold(&self, stock: u32) -> i64 {
        let beyond = self.orders - i64::from(stock);
        if beyond > 0 { beyond } else { self.orders - self.units }
    }
}

impl Database {
    /// A new file with so many units of each product.
    pub(crate) fn create(path: &Path, stock: &[(u64, u32)]) -> Result<Self> {
        let database = Self::open(path)?;
        database.connection().execute_batch(include_str!("schema.sql"))?;
        let insert = "INSERT INTO stock (id, qty) VALUES (?1, ?2)";
        for (id, qty) in stock {
            database.connection().execute(insert, params![id, qty])?;
        }
        Ok(database)
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        // The demo is about locks, not about disks.
        connection.pragma_update(None, "synchronous", "OFF")?;
        Ok(Self(Mutex::new(connection)))
    }

    /// First half of a deduction: how many are there? With fencing the row is claimed first.
    pub(crate) fn read(&self, id: u64, fence: Option<u64>) -> Result<i64> {
        let connection = self.connection();
        if let Some(fence) = fence {
            let claim = "UPDATE stock SET fence = ?2 WHERE id = ?1 AND fence <= ?2";
            if connection.prepare_cached(claim)?.execute([id, fence])? == 0 {
                return Err(FENCED_OUT.into());
            }
        }
        let mut read = connection.prepare_cached("SELECT qty FROM stock WHERE id = ?1")?;
        Ok(read.query_row([id], |row| row.get(0))?)
    }

    /// Second half: one less than what was read, and the order. With fencing only while the own
    /// claim stands.
    pub(crate) fn write(&self, id: u64, seen: i64, fence: Option<u64>) -> Result<()> {
        let write = "UPDATE stock SET qty = ?2 WHERE id = ?1 AND (?3 IS NULL OR fence = ?3)";
        let order = "INSERT INTO orders (seen) VALUES (?1)";
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        if transaction.prepare_cached(write)?.execute(params![id, seen - 1, fence])? == 0 {
            return Err(FENCED_OUT.into()); // The transaction rolls back as it is dropped.
        }
        transaction.prepare_cached(order)?.execute([seen])?;
        Ok(transaction.commit()?)
    }

    /// Sets what lies on two shelves.
    pub(crate) fn put(&self, shelves: [(u64, i64); 2]) -> Result<()> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        for (id, qty) in shelves {
            let write = "UPDATE stock SET qty = ?2 WHERE id = ?1";
            transaction.prepare_cached(write)?.execute(params![id, qty])?;
        }
        Ok(transaction.commit()?)
    }

    /// `true` for the first caller only: it is the unlucky holder of the act.
    pub(crate) fn take_accident(&self) -> Result<bool> {
        let take = "UPDATE accident SET taken = 1 WHERE taken = 0";
        Ok(self.connection().execute(take, [])? == 1)
    }

    pub(crate) fn tally(&self) -> Result<Tally> {
        let tally =
            "SELECT COALESCE(SUM(c), 0), COUNT(*), COALESCE(MAX(c), 0), (SELECT SUM(qty) FROM stock)
             FROM (SELECT COUNT(*) AS c FROM orders GROUP BY seen)";
        Ok(self.connection().query_row(tally, [], |row| {
            let (orders, units) = (row.get(0)?, row.get(1)?);
            Ok(Tally { orders, units, most_sold_unit: row.get(2)?, left: row.get(3)? })
        })?)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_update_shows_in_the_tally() {
        let directory = tempfile::tempdir().unwrap();
        let shop = Database::create(&directory.path().join("shop.db"), &[(7, 2)]).unwrap();
        for seen in [2, 2, 1] {
            shop.write(7, seen, None).unwrap();
        }
        let Tally { orders, units, left, most_sold_unit } = shop.tally().unwrap();
        assert_eq!((orders, units, left, most_sold_unit), (3, 2, 0, 2));
        assert!(!shop.tally().unwrap().is_exact(2));
        assert_eq!((shop.tally().unwrap().oversold(2), shop.tally().unwrap().oversold(9)), (1, 1));
    }

    #[test]
    fn a_zombie_is_refused_and_leaves_no_order() {
        let directory = tempfile::tempdir().unwrap();
        let shop = Database::create(&directory.path().join("shop.db"), &[(7, 1)]).unwrap();
        shop.read(7, Some(33)).unwrap();
        assert_eq!(shop.read(7, Some(34)).unwrap(), 1);
        shop.read(7, Some(33)).unwrap_err();
        shop.write(7, 1, Some(33)).unwrap_err();
        assert!(!shop.tally().unwrap().is_exact(1));
        shop.write(7, 1, Some(34)).unwrap();
        assert!(shop.tally().unwrap().is_exact(1));
        assert_eq!([(); 2].map(|()| shop.take_accident().unwrap()), [true, false]);
    }
}
