//! Scopes of storage: `storage.read:/path` (WLCG profile 1.3) and `read:/path` (SciTokens 2.0).
//!
//! A scope that is not about storage is ignored. A malformed scope of storage makes the whole token invalid, since its issuer meant
//! something that is not understood here.

use model::name::RelPath;

use super::error::{TokenError, shown};
use crate::actions::Actions;
use crate::issuer::Profile;

/// The actions that a token allows below a path of its issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The actions.
    pub actions: Actions,
    /// The path.
    pub path: RelPath,
    /// The path ended with a slash: it must be a directory.
    pub dir_only: bool,
}

/// The actions of a scope's name; none where it is not about storage.
fn actions(name: &str, profile: Profile) -> Option<Actions> {
    match name {
        "storage.read" => Some(Actions::FOR_READ),
        "storage.create" => Some(Actions::FOR_CREATE),
        "storage.modify" => Some(Actions::FOR_MODIFY),
        "storage.stage" => Some(Actions::FOR_STAGE),
        "storage.poll" => Some(Actions::POLL),
        "read" if profile == Profile::SciTokens => Some(Actions::FOR_READ),
        "write" if profile == Profile::SciTokens => Some(Actions::FOR_MODIFY),
        _ => None,
    }
}

/// The capabilities of a `scope` claim.
pub(super) fn capabilities(scope: &str, profile: Profile) -> Result<Vec<Capability>, TokenError> {
    let mut found = Vec::new();
    for one in scope.split(' ').filter(|one| !one.is_empty()) {
        let (name, path) = one.split_once(':').unwrap_or((one, ""));
        let Some(actions) = actions(name, profile) else { continue };
        if path.is_empty() {
            return Err(TokenError::ScopeWithoutPath(shown(one)));
        }
        let parsed = parse_path(path).ok_or_else(|| TokenError::ScopePath(shown(one)))?;
        // The root is a directory anyway.
        let dir_only = path.ends_with('/') && !parsed.is_root();
        found.push(Capability { actions, path: parsed, dir_only });
    }
    Ok(found)
}

/// Parses a path with percent-encoded components, which are separated before they are decoded. An encoded slash is refused, because
/// other software could read it as another path.
pub(crate) fn parse_path(text: &str) -> Option<RelPath> {
    let mut decoded = Vec::with_capacity(text.len());
    for part in text.strip_prefix('/')?.split('/') {
        let part = decode(part)?;
        if part.contains(&b'/') {
            return None;
        }
        decoded.push(b'/');
        decoded.extend_from_slice(&part);
    }
    RelPath::parse(&decoded).ok()
}

/// Undoes percent-encoding; none where it is damaged.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let digit = |bytes: &mut std::str::Bytes<'_>| char::from(bytes.next()?).to_digit(16);
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (digit(&mut bytes)?, digit(&mut bytes)?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(scope: &str) -> Result<Capability, TokenError> {
        capabilities(scope, Profile::Wlcg).map(|mut all| all.remove(0))
    }

    #[test]
    fn paths_of_scopes_are_normalised_or_refused() {
        for (text, path, dir_only) in [
            ("/", "", false),
            ("//", "", false),
            ("/a/b", "a/b", false),
            ("/a//./b/", "a/b", true),
            ("/a%20b/%63", "a b/c", false),
            ("/%252e%252e", "%2e%2e", false),
        ] {
            let capability = one(&format!("storage.read:{text}")).unwrap();
            assert_eq!((capability.path.as_bytes(), capability.dir_only), (path.as_bytes(), dir_only), "{text}");
        }
        for text in ["a", "/..", "/a/../b", "/%2e%2e", "/%2E./x", "/a%2fb", "/a%00", "/%", "/%2", "/%zz", "/%+1"] {
            assert!(matches!(one(&format!("storage.read:{text}")), Err(TokenError::ScopePath(_))), "{text}");
        }
    }

    #[test]
    fn a_storage_scope_without_a_path_is_refused() {
        for scope in ["storage.read", "storage.read:", "openid storage.modify"] {
            assert!(matches!(capabilities(scope, Profile::Wlcg), Err(TokenError::ScopeWithoutPath(_))), "{scope}");
        }
    }

    #[test]
    fn scopes_of_each_profile_give_its_capabilities() {
        let count = |scope, profile| capabilities(scope, profile).map(|all| all.len());
        assert_eq!(count("read:/a write:/b openid storage.read:/c", Profile::SciTokens), Ok(3));
        assert_eq!(count("read:/a write openid  compute.read storage.unknown:/x", Profile::Wlcg), Ok(0));
        assert_eq!(one("storage.stage:/a").map(|c| c.actions.contains(Actions::READ)), Ok(false));
        assert_eq!(one("storage.create:/a").map(|c| c.actions.contains(Actions::STAT)), Ok(true));
        assert_eq!(one("storage.poll:/a").map(|c| c.actions.contains(Actions::STAT)), Ok(false));
    }

    proptest! {
        #[test]
        fn no_path_leads_out(text in "(/|\\.|%2e|%2f|%2F|%00|%5c|a|%){0,12}") {
            if let Some(path) = parse_path(&text) {
                prop_assert!(!path.as_bytes().split(|b| *b == b'/').any(|part| part == b".." || part == b"."));
                prop_assert!(!path.as_bytes().contains(&0));
            }
        }
    }
}
