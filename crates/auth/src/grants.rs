//! All grants of a node, by which a key becomes an access. Does not know where they are stored.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::access::{Access, Denied};
use crate::grant::{Grant, hex};

/// All grants of a state directory: the content of its `grants.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// The grants, oldest first.
    #[serde(default, rename = "grant")]
    pub list: Vec<Grant>,
}

impl Grants {
    /// The access that a key gives at the time `now`, seconds since 1970.
    ///
    /// # Errors
    /// [`Denied::UnknownKey`] where no grant has this id and secret; [`Denied::Expired`] where the grant has expired.
    pub fn check(&self, id: &[u8; 8], secret: &[u8; 32], now: i64) -> Result<Access, Denied> {
        let id = hex(id);
        let grant = self.list.iter().find(|g| g.id == id).ok_or(Denied::UnknownKey)?;
        let hash = hex(&Sha256::digest(secret));
        if !bool::from(hash.as_bytes().ct_eq(grant.secret_sha256.as_bytes())) {
            return Err(Denied::UnknownKey);
        }
        if let Some(expires) = grant.expires.filter(|expires| *expires <= now) {
            return Err(Denied::Expired { seconds_ago: now - expires });
        }
        Ok(Access::Granted(grant.clone()))
    }
}

#[cfg(test)]
mod tests {
    use model::RelPath;

    use super::*;
    use crate::grant::Rights;

    fn grants() -> Grants {
        let mut grant = Grant::new([7; 8], &[9; 32], "data".into(), &RelPath::root(), Rights::Read, 100);
        grant.expires = Some(200);
        Grants { list: vec![grant] }
    }

    #[test]
    fn a_key_gives_access_until_it_expires() {
        assert!(grants().check(&[7; 8], &[9; 32], 199).is_ok());
        assert_eq!(grants().check(&[7; 8], &[8; 32], 150), Err(Denied::UnknownKey));
        assert_eq!(grants().check(&[6; 8], &[9; 32], 150), Err(Denied::UnknownKey));
        assert_eq!(grants().check(&[7; 8], &[9; 32], 260), Err(Denied::Expired { seconds_ago: 60 }));
        assert_eq!(Grants::default().check(&[7; 8], &[9; 32], 0), Err(Denied::UnknownKey));
    }

    #[test]
    fn a_wrong_clock_has_no_lasting_effect_on_grants() {
        let grants = grants();
        // Far ahead, then set right, then at the start of the epoch, as of a clock without a battery.
        for (now, allowed) in [(199, true), (i64::MAX, false), (199, true), (0, true), (-1, true), (200, false)] {
            assert_eq!(grants.check(&[7; 8], &[9; 32], now).is_ok(), allowed, "at {now}");
        }
    }

    #[test]
    fn the_secret_is_not_kept() {
        let kept = serde_json::to_string(&grants()).unwrap();
        assert!(!kept.contains(&hex(&[9; 32])));
        assert_eq!(serde_json::from_str::<Grants>(&kept).unwrap(), grants());
    }
}
