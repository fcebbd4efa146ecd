-- Proxies that users have delegated to the hub, and keys for which they may sign one. Times are milliseconds since 1970. Private keys are
-- PKCS#8 in base64, in clear as the keys of endpoints are: docs/security.md.

CREATE TABLE delegation_requests (
    id TEXT NOT NULL,
    -- The full name of whoever asked, as jobs have it: an id alone is 64 bits of a hash.
    owner TEXT NOT NULL,
    private_key TEXT NOT NULL,
    request TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (id, owner)
);

CREATE TABLE delegations (
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    private_key TEXT NOT NULL,
    -- PEM, the proxy first.
    chain TEXT NOT NULL,
    -- The attributes (FQANs), JSON.
    attributes TEXT NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (id, owner)
);
