//! The path that a name has at an endpoint.

use std::str::FromStr;

use md5::{Digest, Md5};

use crate::name::DataName;

/// How an endpoint lays out its files. Both layouts are those of Rucio, so that a Rucio catalogue and this one can use the same directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Naming {
    /// `scope/name`: people find their files.
    #[default]
    Identity,
    /// `scope/ab/cd/name`, where `abcd…` is the MD5 of `scope:name`: no directory has more than a small part of all files.
    Hash,
}

impl Naming {
    /// The word in JSON and TOML.
    pub fn word(self) -> &'static str {
        match self {
            Naming::Identity => "identity",
            Naming::Hash => "hash",
        }
    }

    /// The path of a file below the directory of an endpoint.
    pub fn path(self, name: &DataName) -> String {
        match self {
            Naming::Identity => format!("{}/{}", directory(name.scope()), name.name()),
            Naming::Hash => {
                let digest = Md5::digest(name.to_string());
                let (first, second) = (digest[0], digest[1]);
                format!("{}/{first:02x}/{second:02x}/{}", directory(name.scope()), name.name())
            }
        }
    }
}

impl Naming {
    /// All names that a file at this path may have. The scope is the first directory; the scope of a user or group is any number of the
    /// first directories.
    pub fn names(self, path: &str) -> Vec<DataName> {
        let parts: Vec<&str> = path.split('/').collect();
        let ends = 1..if is_divided(path) { parts.len() } else { parts.len().min(2) };
        let name = |end: usize| {
            let rest = match self {
                Naming::Identity => parts[end..].join("/"),
                Naming::Hash => parts.get(end + 2..)?.join("/"),
            };
            DataName::new(&parts[..end].join("."), &rest).ok().filter(|name| self.path(name) == path)
        };
        ends.filter_map(name).collect()
    }

    /// The likeliest name of a file at a path: of `user/ann/…` the scope is `user.ann`.
    pub fn name(self, path: &str) -> Option<DataName> {
        let names = self.names(path);
        names.iter().find(|name| name.scope().contains('.')).or(names.first()).cloned()
    }
}

fn is_divided(scope: &str) -> bool {
    scope.starts_with("user") || scope.starts_with("group")
}

/// The directory of a scope. Those of users are all below `user`, those of groups below `group`: `user.ann` is `user/ann`.
fn directory(scope: &str) -> String {
    if is_divided(scope) { scope.replace('.', "/") } else { scope.to_owned() }
}

impl FromStr for Naming {
    type Err = String;

    fn from_str(word: &str) -> Result<Naming, String> {
        let all = [Naming::Identity, Naming::Hash];
        let found = all.into_iter().find(|naming| naming.word() == word);
        found.ok_or_else(|| format!("{word:?} is not a valid naming: identity or hash"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(naming: Naming, name: &str) -> String {
        naming.path(&name.parse().unwrap())
    }

    #[test]
    fn a_name_has_the_path_that_rucio_gives_it() {
        assert_eq!(path(Naming::Identity, "test:run/f0"), "test/run/f0");
        // The path that Rucio itself computes.
        assert_eq!(path(Naming::Hash, "test:f0"), "test/fd/6d/f0");
        assert!(path(Naming::Hash, "user.ann:f0").starts_with("user/ann/"));
        assert_eq!(path(Naming::Identity, "group.x.y:f0"), "group/x/y/f0");
    }

    #[test]
    fn the_name_is_found_from_the_path() {
        for text in [
            "test:f0",
            "test:run/f0",
            "user.ann:f0",
            "user.ann:a/b/c",
            "group.x.y:f",
            "group.x.y.z:f/g",
            "userdata:f0",
            "userdata:run/f0",
        ] {
            for naming in [Naming::Identity, Naming::Hash] {
                let name: DataName = text.parse().unwrap();
                let found = naming.name(&naming.path(&name));
                assert!(found.is_some_and(|found| naming.path(&found) == naming.path(&name)), "{text} by {naming:?}");
                assert!(naming.names(&naming.path(&name)).contains(&name), "{text} by {naming:?}");
            }
        }
        assert_eq!(Naming::Hash.name("test/00/00/f0"), None, "the directories are not the hash of the name");
        assert_eq!(Naming::Identity.name("f0"), None);
    }

    #[test]
    fn a_naming_is_read_from_its_word() {
        assert_eq!("hash".parse(), Ok(Naming::Hash));
        assert!("md5".parse::<Naming>().unwrap_err().contains("identity or hash"));
    }
}
