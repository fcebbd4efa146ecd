//! Which entries take part in a job: `--include` and `--exclude`, in the order given; the first rule that fits decides.
//!
//! The rules of rsync: a pattern with a slash inside is anchored at the source root, one without fits a name at any
//! depth; a trailing slash fits directories only; `*` stops at slashes, `**` does not. An excluded directory is not read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet};
use model::fault::Fault;
use model::spec::Filter;
use model::{Refusal, RelPath};

struct Rule {
    include: bool,
    matcher: GlobSet,
    anchored: bool,
    dirs_only: bool,
    always: bool,
}

/// The rules of a job.
pub struct Filters(Vec<Rule>);

impl Filters {
    /// Parses the patterns.
    ///
    /// # Errors
    /// A pattern does not parse, or is too complex.
    pub fn new(filters: &[Filter]) -> Result<Filters, Refusal> {
        filters.iter().map(rule).collect::<Result<_, _>>().map(Filters)
    }

    /// Filters that exclude every entry. They replace rules that do not parse, so that no file is removed by mistake.
    pub fn nothing() -> Filters {
        let matcher = GlobSet::empty();
        Filters(vec![Rule { include: false, matcher, anchored: false, dirs_only: false, always: true }])
    }

    /// Whether an entry takes part; its path is below the source root.
    pub fn takes(&self, path: &RelPath, is_dir: bool) -> bool {
        let whole = Path::new(OsStr::from_bytes(path.as_bytes()));
        let name = whole.file_name().map(Path::new).unwrap_or(whole);
        let fits = |rule: &&Rule| {
            let path = if rule.anchored { whole } else { name };
            rule.always || (is_dir || !rule.dirs_only) && rule.matcher.is_match(path)
        };
        self.0.iter().find(fits).is_none_or(|rule| rule.include)
    }
}

fn rule(filter: &Filter) -> Result<Rule, Refusal> {
    let dirs_only = filter.pattern.ends_with('/');
    let pattern = filter.pattern.trim_end_matches('/');
    let anchored = pattern.contains('/');
    // A set of one glob: a set returns an error where a pattern is too complex, a single matcher panics.
    let glob = GlobBuilder::new(pattern.trim_start_matches('/')).literal_separator(true).build();
    let set = glob.and_then(|glob| GlobSet::builder().add(glob).build());
    let unreadable = |e: globset::Error| {
        let reason = format!("the pattern {:?} cannot be read: {}", filter.pattern, e.kind());
        Refusal::new(Fault::Config, reason)
    };
    Ok(Rule { include: filter.include, matcher: set.map_err(unreadable)?, anchored, dirs_only, always: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(rules: &[(bool, &str)], path: &str, is_dir: bool) -> bool {
        let rules: Vec<Filter> =
            rules.iter().map(|(include, p)| Filter { include: *include, pattern: (*p).into() }).collect();
        Filters::new(&rules).unwrap().takes(&RelPath::parse(path.as_bytes()).unwrap(), is_dir)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let only_fits = [(true, "*/"), (true, "*.fits"), (false, "*")];
        assert!(takes(&only_fits, "a/b/x.fits", false) && takes(&only_fits, "a/b", true));
        assert!(!takes(&only_fits, "a/b/x.log", false));
        assert!(takes(&[], "anything", false));
        assert!(takes(&[(false, "tmp/")], "tmp", false) && !takes(&[(false, "tmp/")], "a/tmp", true));
    }

    #[test]
    fn a_slash_anchors_a_pattern_at_the_root() {
        assert!(!takes(&[(false, "/top")], "top", false) && takes(&[(false, "/top")], "a/top", false));
        assert!(!takes(&[(false, "a/*.o")], "a/x.o", false));
        assert!(takes(&[(false, "a/*.o")], "a/b/x.o", false) && !takes(&[(false, "a/**/*.o")], "a/b/c/x.o", false));
        assert!(!takes(&[(false, "*.{o,a}")], "deep/er/lib.a", false));
    }

    #[test]
    fn a_pattern_that_is_too_complex_does_not_panic() {
        let deep = format!("{}a{}", "{".repeat(400), "}".repeat(400));
        // Refused or read, never a panic.
        let _ = Filters::new(&[Filter { include: false, pattern: deep }]);
        assert!(!Filters::nothing().takes(&RelPath::parse(b"a").unwrap(), false));
    }

    #[test]
    fn the_refusal_of_a_pattern_names_it() {
        let refusal = Filters::new(&[Filter { include: false, pattern: "a[".into() }]).err().unwrap();
        assert_eq!(refusal.fault, Fault::Config);
        assert!(refusal.reason.contains("\"a[\""), "{}", refusal.reason);
    }
}
