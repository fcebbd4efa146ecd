//! Errors name the operation and the path, and never show raw bytes to a terminal.

use model::Timestamp;
use store::{Error, Result, Store};

use crate::support::{path, write};

pub fn errors_name_the_path_and_the_operation(store: &dyn Store) {
    let (at, shown) = if store.capabilities().any_name {
        (path(b"no/such\n\xff"), "no/such\\x0a\\xff")
    } else {
        (path(b"no/such"), "no/such")
    };
    let mut errors: Vec<(&str, Error)> = Vec::new();
    let mut failing = |operation, result: Result<()>| errors.push((operation, result.unwrap_err()));
    failing("stat", store.stat(&at).map(drop));
    failing("list", store.list(&at).map(drop));
    failing("open", store.open(&at).map(drop));
    failing("make_dir", store.make_dir(&at));
    failing("remove", store.remove(&at));
    failing("rename", store.rename(&at, &path("x"), true));
    if store.capabilities().posix {
        failing("create", write(store, &at, b""));
        failing("read_link", store.read_link(&at).map(drop));
        failing("make_symlink", store.make_symlink(&at, b"x", Timestamp::default(), true, "t"));
        failing("make_hard_link", store.make_hard_link(&path("x"), &at, true, "t"));
        failing("finish_dir", store.finish_dir(&at, 0o755, Timestamp::default()));
    }
    for (operation, error) in errors {
        assert!(error.is_not_found() && !error.is_fatal(), "{operation}: {error}");
        let Error::Io { doing, path, .. } = &error else { panic!("{operation}: {error:?}") };
        assert_eq!(path, shown, "{operation}");
        assert_eq!(error.to_string(), format!("cannot {doing} {shown}"), "{operation}");
        assert!(std::error::Error::source(&error).is_some(), "{operation}");
    }
    // The root shows as a dot, not as nothing.
    let Err(error) = store.remove(&path("")) else { panic!("the root was removed") };
    assert!(!error.to_string().contains("  "), "{error}");
}
