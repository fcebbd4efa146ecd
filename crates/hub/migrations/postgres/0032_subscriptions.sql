-- Rules that new data gets by itself.

-- `filter` and `rules` are JSON.
CREATE TABLE subscriptions (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL,
    community TEXT NOT NULL,
    filter TEXT NOT NULL,
    rules TEXT NOT NULL,
    comment TEXT,
    created BIGINT NOT NULL,
    expires BIGINT,
    suspended BIGINT NOT NULL DEFAULT 0,
    -- Why the last rules could not be made.
    error TEXT
);

-- Names that have got the rules of a subscription: they get them once.
CREATE TABLE subscribed (
    subscription BIGINT NOT NULL,
    name BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (subscription, name)
);

-- Names that a subscription has still to be compared with; 0 for all subscriptions.
CREATE TABLE news (
    number BIGINT PRIMARY KEY,
    name BIGINT NOT NULL,
    subscription BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL DEFAULT 0
);
