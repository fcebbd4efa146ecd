//! The invariants between the tables of the catalogue, which hold after every transaction.

use sqlx::Row;

use crate::test_catalogue::TestCatalogue;

/// The invariants, each with a query that finds the rows that violate it.
const INVARIANTS: &[(&str, &str)] = &[
    (
        "a replica counts its locks",
        "SELECT r.file, r.store FROM replicas r \
         WHERE r.locks <> (SELECT COUNT(*) FROM locks l WHERE l.file = r.file AND l.store = r.store)",
    ),
    (
        "a lock has a replica",
        "SELECT l.file, l.store FROM locks l LEFT JOIN replicas r ON r.file = l.file AND r.store = l.store WHERE r.file IS NULL",
    ),
    (
        "a lock is ok exactly if its replica is available",
        "SELECT l.file, l.store FROM locks l JOIN replicas r ON r.file = l.file AND r.store = l.store \
         WHERE (l.state = 1) <> (r.state = 0)",
    ),
    (
        "a replica has an end exactly if it has no locks",
        "SELECT file, store FROM replicas WHERE state = 0 AND (locks = 0) <> (unlocked IS NOT NULL)",
    ),
    ("a wanted replica has locks", "SELECT file, store FROM replicas WHERE state = 1 AND locks = 0"),
    (
        "a replica that is being copied belongs to a copy",
        "SELECT r.file, r.store FROM replicas r LEFT JOIN copies c ON c.file = r.file AND c.store = r.store \
         WHERE r.state = 2 AND c.file IS NULL",
    ),
    (
        "a copy belongs to a job",
        "SELECT c.job, c.at FROM copies c LEFT JOIN copy_jobs j ON j.number = c.job WHERE j.number IS NULL",
    ),
    (
        "a rule counts its locks",
        "SELECT u.number, u.name FROM rules u WHERE \
         u.ok <> (SELECT COUNT(*) FROM locks l WHERE l.rule = u.number AND l.state = 1) OR \
         u.replicating <> (SELECT COUNT(*) FROM locks l WHERE l.rule = u.number AND l.state = 0) OR \
         u.stuck <> (SELECT COUNT(*) FROM locks l WHERE l.rule = u.number AND l.state = 2) OR \
         u.bytes <> (SELECT COALESCE(SUM(l.bytes), 0) FROM locks l WHERE l.rule = u.number) OR \
         u.bytes_left <> (SELECT COALESCE(SUM(l.bytes), 0) FROM locks l WHERE l.rule = u.number AND l.state <> 1)",
    ),
    (
        "a fulfilled rule has all its copies",
        "SELECT number, name FROM rules WHERE fulfilled IS NOT NULL AND replicating + stuck > 0",
    ),
    (
        "the bytes that an account holds are counted",
        "SELECT h.store, h.bytes FROM held h WHERE h.bytes <> (SELECT COALESCE(SUM(l.bytes), 0) FROM locks l \
         JOIN rules u ON u.number = l.rule WHERE u.account = h.account AND l.store = h.store)",
    ),
    (
        "the replicas at an endpoint are counted",
        "SELECT s.id, s.bytes FROM stores s WHERE s.bytes <> (SELECT COALESCE(SUM(r.bytes), 0) FROM replicas r WHERE r.store = s.id) \
         OR s.files <> (SELECT COUNT(*) FROM replicas r WHERE r.store = s.id)",
    ),
    (
        "the bytes without locks at an endpoint are counted",
        "SELECT s.id, s.spare FROM stores s WHERE s.spare <> \
         (SELECT COALESCE(SUM(r.bytes), 0) FROM replicas r WHERE r.store = s.id AND r.state = 0 AND r.locks = 0)",
    ),
    (
        "a bad replica with locks is copied again if another replica is available",
        "SELECT r.file, r.store FROM replicas r WHERE r.state = 3 AND r.locks > 0 \
         AND EXISTS (SELECT 1 FROM replicas o WHERE o.file = r.file AND o.state = 0)",
    ),
    (
        "the contents of a dataset are counted",
        "SELECT n.id, n.entries FROM names n WHERE n.kind > 0 AND (n.entries <> (SELECT COUNT(*) FROM contents c WHERE c.parent = n.id) \
         OR n.kind = 1 AND n.bytes <> (SELECT COALESCE(SUM(f.bytes), 0) FROM contents c JOIN names f ON f.id = c.child WHERE c.parent = n.id))",
    ),
];

/// Checks all invariants, and that no endpoint has promised more than its capacity.
pub async fn check(world: &TestCatalogue) {
    for (what, sql) in INVARIANTS {
        let rows = sqlx::query(sqlx::AssertSqlSafe((*sql).to_owned())).fetch_all(&world.database.pool).await.unwrap();
        let found: Vec<(i64, i64)> =
            rows.iter().take(5).map(|row| (row.try_get(0).unwrap(), row.try_get(1).unwrap())).collect();
        assert!(found.is_empty(), "{what}: violated by {found:?}");
    }
    // A replica without locks that is bad or being deleted is no promise, although no other replica gets its space before it is deleted.
    let sql = "SELECT s.endpoint, CAST(SUM(r.bytes) AS BIGINT) FROM replicas r JOIN stores s ON s.id = r.store \
               WHERE r.locks > 0 OR r.state IN (1, 2) GROUP BY s.endpoint";
    for row in sqlx::query(sql).fetch_all(&world.database.pool).await.unwrap() {
        let endpoint: String = row.try_get(0).unwrap();
        let promised: i64 = row.try_get(1).unwrap();
        let capacity = world.topology.storage[&endpoint].capacity_bytes;
        assert!(
            capacity.is_none_or(|capacity| promised as u64 <= capacity),
            "{endpoint} has promised {promised} bytes"
        );
    }
}

/// Checks also what holds once nothing is left to do: every file of a rule has its copies, and only such files are locked.
pub async fn check_quiet(world: &TestCatalogue) {
    check(world).await;
    let below = "WITH RECURSIVE below(rule, id) AS (SELECT number, name FROM rules UNION \
                 SELECT b.rule, c.child FROM below b JOIN contents c ON c.parent = b.id)";
    let missing = format!(
        "{below} SELECT b.rule, b.id FROM below b JOIN names n ON n.id = b.id AND n.kind = 0 JOIN rules u ON u.number = b.rule \
         WHERE u.error IS NULL AND u.copies <> (SELECT COUNT(*) FROM locks l WHERE l.rule = b.rule AND l.file = b.id)"
    );
    let other = format!(
        "{below} SELECT l.rule, l.file FROM locks l WHERE NOT EXISTS \
         (SELECT 1 FROM below b WHERE b.rule = l.rule AND b.id = l.file)"
    );
    for (what, sql) in [("every file of a rule has its copies", missing), ("a rule locks only its own files", other)] {
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&world.database.pool).await.unwrap();
        let found: Vec<(i64, i64)> =
            rows.iter().take(5).map(|row| (row.try_get(0).unwrap(), row.try_get(1).unwrap())).collect();
        assert!(found.is_empty(), "{what}: violated by {found:?}");
    }
}
