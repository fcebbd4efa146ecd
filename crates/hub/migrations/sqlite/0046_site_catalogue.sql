-- The catalogue of sites: what each site answers (JSON, by the names of the questions), and the round in which sites confirm their answers.
-- Days are counted from 1970; reminders are posted to the URL `notify`. State of a site in the round: 0 asked, 1 opened, 2 corrected, 3 confirmed.
CREATE TABLE site_records (
    site TEXT PRIMARY KEY,
    answers TEXT NOT NULL,
    owner TEXT NOT NULL,
    changed INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    reminded INTEGER NOT NULL DEFAULT -1
);
CREATE TABLE site_round (
    id INTEGER PRIMARY KEY,
    deadline INTEGER NOT NULL,
    notify TEXT NOT NULL DEFAULT ''
);
