-- Rules that new data gets by itself.

-- `filter` and `rules` are JSON.
CREATE TABLE subscriptions (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL,
    community TEXT NOT NULL,
    filter TEXT NOT NULL,
    rules TEXT NOT NULL,
    comment TEXT,
    created INTEGER NOT NULL,
    expires INTEGER,
    suspended INTEGER NOT NULL DEFAULT 0,
    -- Why the last rules could not be made.
    error TEXT
);

-- Names that have got the rules of a subscription: they get them once.
CREATE TABLE subscribed (
    subscription INTEGER NOT NULL,
    name INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (subscription, name)
) WITHOUT ROWID;

-- Names that a subscription has still to be compared with; 0 for all subscriptions.
CREATE TABLE news (
    number INTEGER PRIMARY KEY,
    name INTEGER NOT NULL,
    subscription INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0
);
