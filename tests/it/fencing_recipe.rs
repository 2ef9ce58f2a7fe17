//! The column and the statements of README that let a database refuse a late holder, as they stand
//! there.

use redlock::{FencingToken, Lease, LockError, redis_lock};
use rusqlite::{Connection, OptionalExtension, named_params};

use crate::clients::client;

/// column, claim, read, write
fn statements() -> [String; 4] {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("```sql\n").expect("README has the recipe");
    let (recipe, _) = rest.split_once("```").expect("the block ends");
    let statement = |line: &str| line.split("--").next().unwrap_or_default().trim().to_owned();
    let lines: Vec<String> =
        recipe.lines().filter(|line| !line.is_empty()).map(statement).collect();
    lines.try_into().expect("a column and three statements, a line each")
}

/// Ten in stock, of a product that was there before its table had the column.
struct Stock {
    database: Connection,
    /// claim, read, write
    sql: [String; 3],
}

impl Stock {
    fn new() -> Self {
        let database = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE stock (id INTEGER PRIMARY KEY, qty BIGINT);
            INSERT INTO stock VALUES (42, 10)";
        let [column, sql @ ..] = statements();
        database.execute_batch(table).unwrap();
        database.execute_batch(&column).unwrap();
        Self { database, sql }
    }

    fn claim(&self, id: i64, token: FencingToken) -> usize {
        let token = i64::from(token);
        let parameters = named_params! {":id": id, ":token": token};
        self.database.execute(&self.sql[0], parameters).unwrap()
    }

    fn read(&self, id: i64) -> i64 {
        let id = named_params! {":id": id};
        self.database.query_row(&self.sql[1], id, |row| row.get(0)).unwrap()
    }

    fn write(&self, id: i64, token: FencingToken, qty: i64) -> usize {
        let token = i64::from(token);
        let parameters = named_params! {":id": id, ":token": token, ":qty": qty};
        self.database.execute(&self.sql[2], parameters).unwrap()
    }

    fn fence(&self, id: i64) -> Option<i64> {
        let fence = "SELECT fence FROM stock WHERE id = ?1";
        self.database.query_row(fence, [id], |row| row.get(0)).optional().unwrap()
    }
}

fn token() -> FencingToken {
    Lease::current().unwrap().fencing_token()
}

#[redis_lock(key = "stock-<id>", client = redlock)]
async fn deduct(redlock: &redlock::Redlock, stock: &Stock, id: i64) -> Result<(), LockError> {
    assert_eq!(stock.claim(id, token()), 1);
    let qty = stock.read(id);
    assert_eq!(stock.write(id, token(), qty - 1), 1);
    Ok(())
}

/// Two lines of a cart name the same product.
#[redis_lock(key = "stock-<id>", client = redlock)]
async fn order(redlock: &redlock::Redlock, stock: &Stock, id: i64) -> Result<(), LockError> {
    assert_eq!(stock.claim(id, token()), 1);
    deduct(redlock, stock, id).await?;
    deduct(redlock, stock, id).await
}

#[tokio::test]
async fn calls_that_re_enter_claim_again() {
    let stock = Stock::new();
    order(&client().await, &stock, 42).await.unwrap();
    assert_eq!(stock.read(42), 8);
}

#[tokio::test]
async fn a_stale_holder_is_refused_at_its_claim_and_at_its_write() {
    let (redlock, stock) = (client().await, Stock::new());
    let stale = redlock.lock("stock-42").acquire().await.unwrap();
    let old = stale.fencing_token();
    assert_eq!(stock.claim(42, old), 1);
    let seen = stock.read(42);
    stale.release().await.unwrap();
    deduct(&redlock, &stock, 42).await.unwrap();
    assert_eq!(stock.write(42, old, seen - 1), 0);
    assert_eq!(stock.claim(42, old), 0);
    assert_eq!(stock.read(42), 9);
}

#[tokio::test]
async fn a_missing_row_is_told_from_a_newer_holder_by_its_fence() {
    let (redlock, stock) = (client().await, Stock::new());
    let guard = redlock.lock("stock-7").acquire().await.unwrap();
    assert_eq!((stock.claim(7, guard.fencing_token()), stock.fence(7)), (0, None));
    assert_eq!(stock.claim(42, guard.fencing_token()), 1);
    assert!(stock.fence(42).is_some());
}
