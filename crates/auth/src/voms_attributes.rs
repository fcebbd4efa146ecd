//! The groups and roles that VOMS servers attest: what certificates bring, and rules name.

/// The attributes that a VOMS server attests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VomsAttributes {
    /// The virtual organisation.
    pub vo: String,
    /// Its groups and roles that the owner has now, the first one first: `/vo/group/Role=production/Capability=NULL`.
    pub fqans: Vec<String>,
    /// The server, in the slash form.
    pub server: String,
    /// When they end, seconds since 1970.
    pub expires: i64,
}

impl VomsAttributes {
    /// Whether the owner has a group or role, in the form of [`plain_fqan`].
    pub fn has(&self, fqan: &str) -> bool {
        self.fqans.iter().any(|own| plain_fqan(own) == fqan)
    }
}

/// An attribute without the parts that say nothing: `/vo/Role=NULL/Capability=NULL` is the group `/vo`.
pub fn plain_fqan(fqan: &str) -> &str {
    let fqan = fqan.strip_suffix("/Capability=NULL").unwrap_or(fqan);
    fqan.strip_suffix("/Role=NULL").unwrap_or(fqan)
}
