//! The provenance of a macaroon: the rules and issuers that gave its first holder the rights. The macaroon allows what its caveats say
//! only as far as these still exist. The provenance is part of the identifier, which is signed. Does not know the present policy.

use crate::actions::Actions;

/// The origin of the rights from which a macaroon was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The actions that the credential gave by itself: a token by its scopes, a key by its grant.
    pub rights: Actions,
    /// The mark of the token's issuer, which must still be trusted.
    pub issuer: Option<String>,
    /// The marks of the subjects whose rules gave the rest ([`RuleSubject::mark`](crate::policy::RuleSubject::mark)).
    pub rules: Vec<String>,
}

impl Provenance {
    /// Writes it as words, each with a space before it.
    pub(super) fn words(&self) -> String {
        let rights = (!self.rights.is_empty()).then(|| format!(" rights={}", self.rights));
        let issuer = self.issuer.iter().map(|mark| format!(" issuer={mark}"));
        let rules = self.rules.iter().map(|mark| format!(" rule={mark}"));
        rights.into_iter().chain(issuer).chain(rules).collect()
    }

    /// Parses the words; `None` where one is unknown.
    pub(super) fn parse(words: &str) -> Option<Provenance> {
        words.split(' ').try_fold(Provenance::default(), |mut all, word| {
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
    fn a_provenance_is_read_back_from_its_words() {
        let rules = vec!["a1".to_owned(), "b2".to_owned()];
        let provenance = Provenance { rights: Actions::FOR_READ, issuer: Some("c3".into()), rules };
        assert_eq!(provenance.words(), " rights=read+list+stat issuer=c3 rule=a1 rule=b2");
        assert_eq!(Provenance::parse(provenance.words().trim_start()), Some(provenance));
        for bad in ["", "rights", "rights=fly", "rights=", "other=x", "rule=a  rule=b"] {
            assert_eq!(Provenance::parse(bad), None, "{bad:?}");
        }
    }
}
