//! What a macaroon stands on: it allows no more than its caveats say, and of that what its first holder was given by things
//! that are still there. Written into its identifier, which is signed; does not know what the policy says now.

use crate::actions::Actions;

/// What the access gave of which a macaroon was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What the credential gave by itself: a token by its scopes, a key by its grant.
    pub rights: Actions,
    /// The mark of the token's issuer, which has to be trusted still.
    pub issuer: Option<String>,
    /// The marks of those whose rules gave the rest ([`Who::mark`](crate::policy::Who::mark)).
    pub rules: Vec<String>,
}

impl Standing {
    /// As words, each with a space before it.
    pub(super) fn words(&self) -> String {
        let rights = (!self.rights.is_empty()).then(|| format!(" rights={}", self.rights));
        let issuer = self.issuer.iter().map(|mark| format!(" issuer={mark}"));
        let rules = self.rules.iter().map(|mark| format!(" rule={mark}"));
        rights.into_iter().chain(issuer).chain(rules).collect()
    }

    /// Reads them; none where one is not known.
    pub(super) fn parse(words: &str) -> Option<Standing> {
        words.split(' ').try_fold(Standing::default(), |mut all, word| {
            match word.split_once('=')? {
                ("rights", rights) => all.rights = Actions::parse(rights)?,
                ("issuer", mark) => all.issuer = Some(mark.to_owned()),
                ("rule", mark) => all.rules.push(mark.to_owned()),
                _ => return None,
            }
            Some(all)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        let rules = vec!["a1".to_owned(), "b2".to_owned()];
        let standing = Standing { rights: Actions::FOR_READ, issuer: Some("c3".into()), rules };
        assert_eq!(standing.words(), " rights=read+list+stat issuer=c3 rule=a1 rule=b2");
        assert_eq!(Standing::parse(standing.words().trim_start()), Some(standing));
        for bad in ["", "rights", "rights=fly", "rights=", "other=x", "rule=a  rule=b"] {
            assert_eq!(Standing::parse(bad), None, "{bad:?}");
        }
    }
}
