-- Files of the queue that are read from tape: they are brought to disk first, and let go when they have been read.
CREATE TABLE stages (
    -- The row of the queue.
    file INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    endpoint TEXT NOT NULL,
    -- 0: to be asked for; 1: asked for; 2: on disk.
    state INTEGER NOT NULL DEFAULT 0,
    -- The server's id of the request, and when it was made.
    request TEXT,
    asked INTEGER,
    -- How often it could not be brought, and why.
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    not_before INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX stages_of_queue ON stages (queue) WHERE state < 2;
CREATE INDEX stages_due ON stages (state, not_before);
