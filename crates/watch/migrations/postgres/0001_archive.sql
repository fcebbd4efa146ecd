-- What is measured: one row for each test of a pair, or for the counters of an interface.
CREATE TABLE series (
    id BIGSERIAL PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    test TEXT NOT NULL,
    UNIQUE (source, target, test)
);

-- Rows that have not been packed yet: the last hours.
CREATE TABLE samples (
    series BIGINT NOT NULL,
    at BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (series, at)
);

-- Packed rows: a day of a series each. Level 0: as measured, 1: minutes, 2: hours.
CREATE TABLE chunks (
    level BIGINT NOT NULL,
    day BIGINT NOT NULL,
    series BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX chunks_by_day ON chunks (level, day, series);

-- What nodes said, whole.
CREATE TABLE reports (
    series BIGINT NOT NULL,
    at BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (series, at)
);

-- Up to where the measurements of a node are stored.
CREATE TABLE cursors (
    node TEXT PRIMARY KEY,
    next BIGINT NOT NULL
);

CREATE TABLE alarms (
    id BIGSERIAL PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    kind TEXT NOT NULL,
    since BIGINT NOT NULL,
    ended BIGINT,
    body TEXT NOT NULL
);
CREATE INDEX alarms_by_time ON alarms (since);

CREATE TABLE annotations (
    id BIGSERIAL PRIMARY KEY,
    at BIGINT NOT NULL,
    place TEXT NOT NULL,
    text TEXT NOT NULL,
    author TEXT NOT NULL
);
CREATE INDEX annotations_by_time ON annotations (at);
