-- How often names were fetched, by day (days since 1970).
CREATE TABLE accesses (
    name INTEGER NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (name, day)
) WITHOUT ROWID;
CREATE INDEX accesses_of_day ON accesses (day);
