PRAGMA journal_mode = WAL;

CREATE TABLE stock (
    id    INTEGER PRIMARY KEY,
    qty   INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0   -- the highest fencing token that claimed this row
);

-- Two orders that saw the same stock sold the same unit twice.
CREATE TABLE orders (n INTEGER PRIMARY KEY, seen INTEGER NOT NULL);

-- Taken once, by the unlucky holder of the act.
CREATE TABLE accident (taken INTEGER NOT NULL);
INSERT INTO accident VALUES (0);
