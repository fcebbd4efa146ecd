-- The catalogue of sites: what each site answers (JSON, by the names of the questions), and the round in which sites confirm their answers.
-- Days are counted from 1970; reminders are posted to the URL `notify`. State of a site in the round: 0 asked, 1 opened, 2 corrected, 3 confirmed.
CREATE TABLE site_records (
    site TEXT PRIMARY KEY,
    answers TEXT NOT NULL,
    owner TEXT NOT NULL,
    changed BIGINT NOT NULL,
    state BIGINT NOT NULL DEFAULT 0,
    reminded BIGINT NOT NULL DEFAULT -1
);
CREATE TABLE site_round (
    id BIGINT PRIMARY KEY,
    deadline BIGINT NOT NULL,
    notify TEXT NOT NULL DEFAULT ''
);
