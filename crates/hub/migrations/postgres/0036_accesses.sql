-- How often names were fetched, by day (days since 1970).
CREATE TABLE accesses (
    name BIGINT NOT NULL,
    day BIGINT NOT NULL,
    count BIGINT NOT NULL,
    files BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (name, day)
);
CREATE INDEX accesses_of_day ON accesses (day);
