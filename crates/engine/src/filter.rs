//! Which entries take part in a job: `--include` and `--exclude`, in the order given; the first rule that fits decides.
//!
//! As rsync taught people: a pattern with a slash inside is anchored at the source root, one without fits a name at any
//! depth; a trailing slash fits directories only; `*` stops at slashes, `**` does not. What is in a directory that is
//! left out is not looked at.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use model::RelPath;
use model::fault::Fault;
use model::spec::Filter;
use wire::frame::Refusal;

struct Rule {
    include: bool,
    matcher: GlobMatcher,
    anchored: bool,
    dirs_only: bool,
}

/// The rules of a job.
pub struct Filters(Vec<Rule>);

impl Filters {
    /// Reads the patterns.
    pub fn new(filters: &[Filter]) -> Result<Filters, Refusal> {
        filters.iter().map(rule).collect::<Result<_, _>>().map(Filters)
    }

    /// No rules: everything takes part.
    pub fn none() -> Filters {
        Filters(Vec::new())
    }

    /// Whether an entry takes part; its path is below the source root.
    pub fn takes(&self, path: &RelPath, is_dir: bool) -> bool {
        let whole = Path::new(OsStr::from_bytes(path.as_bytes()));
        let name = whole.file_name().map(Path::new).unwrap_or(whole);
        let fits = |rule: &&Rule| {
            (is_dir || !rule.dirs_only) && rule.matcher.is_match(if rule.anchored { whole } else { name })
        };
        self.0.iter().find(fits).is_none_or(|rule| rule.include)
    }
}

fn rule(filter: &Filter) -> Result<Rule, Refusal> {
    let dirs_only = filter.pattern.ends_with('/');
    let pattern = filter.pattern.trim_end_matches('/');
    let anchored = pattern.contains('/');
    let glob = GlobBuilder::new(pattern.trim_start_matches('/')).literal_separator(true).build();
    let unreadable = |e: globset::Error| {
        let reason = format!("the pattern {:?} cannot be read: {}", filter.pattern, e.kind());
        Refusal::new(Fault::Config, reason)
    };
    Ok(Rule { include: filter.include, matcher: glob.map_err(unreadable)?.compile_matcher(), anchored, dirs_only })
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
    fn a_slash_anchors() {
        assert!(!takes(&[(false, "/top")], "top", false) && takes(&[(false, "/top")], "a/top", false));
        assert!(!takes(&[(false, "a/*.o")], "a/x.o", false));
        assert!(takes(&[(false, "a/*.o")], "a/b/x.o", false) && !takes(&[(false, "a/**/*.o")], "a/b/c/x.o", false));
        assert!(!takes(&[(false, "*.{o,a}")], "deep/er/lib.a", false));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_named() {
        let refusal = Filters::new(&[Filter { include: false, pattern: "a[".into() }]).err().unwrap();
        assert_eq!(refusal.fault, Fault::Config);
        assert!(refusal.reason.contains("\"a[\""), "{}", refusal.reason);
    }
}
