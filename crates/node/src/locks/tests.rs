//! Which changes of which principals locks prevent.

use super::*;

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

fn lock(at: &str, scope: Scope, is_deep: bool) -> Lock {
    Lock {
        token: format!("urn:{at}"),
        export: "d".into(),
        path: path(at),
        scope,
        is_deep,
        owner: String::new(),
        holder: "key:a".into(),
        expires: unix_seconds() + 60,
    }
}

fn shows(tokens: &[&str]) -> SubmittedLocks {
    let tokens = tokens.iter().map(|at| format!("urn:{at}")).collect();
    SubmittedLocks { holder: "key:a".into(), tokens }
}

fn with(all: &[Lock]) -> Locks {
    let locks = Locks::of(None);
    all.iter().for_each(|lock| locks.take(lock.clone()).unwrap());
    locks
}

/// Whether a change of an existing or absent entry is allowed.
fn may(locks: &Locks, at: &str, change: Change, is_there: bool, shown: &SubmittedLocks) -> bool {
    locks.check("d", &path(at), change, &|| is_there, shown).is_ok()
}

#[test]
fn a_lock_keeps_others_out_and_its_holder_in() {
    let locks = with(&[lock("a/f", Scope::Exclusive, false)]);
    assert!(!may(&locks, "a/f", Change::Put, true, &SubmittedLocks::none()));
    assert!(!may(&locks, "a/f", Change::Gone, true, &SubmittedLocks::none()));
    assert!(may(&locks, "a/f", Change::Put, true, &shows(&["a/f"])));
    let other_holder = SubmittedLocks { holder: "key:b".into(), ..shows(&["a/f"]) };
    assert!(!may(&locks, "a/f", Change::Put, true, &other_holder), "only the holder of a lock can use its token");
    assert!(may(&locks, "a/g", Change::Put, false, &SubmittedLocks::none()));
    assert!(!may(&locks, "a", Change::Gone, true, &SubmittedLocks::none()), "with what is below it");
    assert!(may(&locks, "a", Change::Gone, true, &shows(&["a/f"])));
    assert!(
        locks.check("e", &path("a/f"), Change::Put, &|| true, &SubmittedLocks::none()).is_ok(),
        "of another export"
    );
}

#[test]
fn a_lock_on_a_directory_protects_its_names() {
    let locks = with(&[lock("a", Scope::Exclusive, false)]);
    assert!(!may(&locks, "a/new", Change::Put, false, &SubmittedLocks::none()));
    assert!(!may(&locks, "a/f", Change::Gone, true, &SubmittedLocks::none()));
    assert!(may(&locks, "a/f", Change::Put, true, &SubmittedLocks::none()), "its bytes are not the directory's");
    assert!(may(&locks, "a/b/new", Change::Put, false, &SubmittedLocks::none()));
    assert!(may(&locks, "a/new", Change::Put, false, &shows(&["a"])));
    let deep = with(&[lock("a", Scope::Exclusive, true)]);
    assert!(!may(&deep, "a/b/f", Change::Put, true, &SubmittedLocks::none()));
    assert!(may(&deep, "a/b/f", Change::Gone, true, &shows(&["a"])));
    assert!(may(&deep, "ab", Change::Put, false, &SubmittedLocks::none()), "a name is no prefix of another");
}

#[test]
fn locks_share_a_path_only_if_all_are_shared() {
    let locks = with(&[lock("f", Scope::Shared, false)]);
    let second = Lock { token: "urn:2".into(), holder: "key:b".into(), ..lock("f", Scope::Shared, false) };
    locks.take(second).unwrap();
    assert!(matches!(locks.take(lock("f", Scope::Exclusive, false)), Err(LockRefused::Conflict(_))));
    assert!(
        matches!(locks.take(lock("", Scope::Exclusive, true)), Err(LockRefused::Conflict(_))),
        "what is below counts"
    );
    assert!(locks.take(lock("", Scope::Exclusive, false)).is_ok());
    assert!(may(&locks, "f", Change::Put, true, &shows(&["f"])), "any one of them will do");
    assert!(!may(&locks, "f", Change::Put, true, &SubmittedLocks::none()));
    let locks = with(&[lock("a", Scope::Exclusive, true)]);
    assert!(matches!(locks.take(lock("a/b/f", Scope::Shared, false)), Err(LockRefused::Conflict(_))));
}

#[test]
fn locks_expire_and_are_released() {
    let over = Lock { expires: unix_seconds() - 1, ..lock("f", Scope::Exclusive, false) };
    let locks = with(&[over]);
    assert!(may(&locks, "f", Change::Put, true, &SubmittedLocks::none()));
    assert!(locks.is_empty());
    let locks = with(&[lock("a/f", Scope::Exclusive, false), lock("g", Scope::Exclusive, false)]);
    assert!(!locks.release("d", &path("a/f"), &shows(&["g"])));
    assert!(locks.release("d", &path("a/f"), &shows(&["a/f"])));
    assert!(locks.covering("d", &path("a/f")).is_empty());
    assert!(locks.refresh("d", &path("a/f"), &shows(&["a/f"]), LONGEST).is_none());
    let refreshed = locks.refresh("d", &path("g"), &shows(&["g"]), LONGEST).unwrap();
    assert!(refreshed.left() > Duration::from_secs(3500));
    locks.remove_below("d", &RelPath::root());
    assert!(locks.is_empty());
}

#[test]
fn one_holder_cannot_take_all_locks() {
    let locks = Locks::of(None);
    for at in 0..LOCKS_MAX.each {
        locks.take(lock(&format!("f{at}"), Scope::Shared, false)).unwrap();
    }
    assert_eq!(locks.take(lock("more", Scope::Shared, false)), Err(LockRefused::Full));
    let other = Lock { holder: "key:b".into(), ..lock("more", Scope::Shared, false) };
    assert!(locks.take(other).is_ok());
}

#[test]
fn locks_outlive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    let odd = Lock { owner: "<b xmlns=\"\">me</b>".into(), ..lock("a/\u{fc} %", Scope::Shared, true) };
    Locks::of(Some(&state)).take(odd.clone()).unwrap();
    let again = Locks::of(Some(&state));
    assert_eq!(again.covering("d", &path("a/\u{fc} %/below")), std::slice::from_ref(&odd));
    let refusal = again.check("d", &odd.path, Change::Put, &|| true, &SubmittedLocks::none()).unwrap_err().to_string();
    assert!(refusal.contains("me (key:a)") && refusal.contains("until 20"), "{refusal}");
    assert!(again.release("d", &odd.path, &shows(&["a/\u{fc} %"])));
    assert!(Locks::of(Some(&state)).is_empty());
    std::fs::write(dir.path().join("locks.json"), "nonsense").unwrap();
    assert!(Locks::of(Some(&state)).is_empty());
}
