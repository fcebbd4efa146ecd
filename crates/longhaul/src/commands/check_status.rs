//! The status that a plug-in of a monitoring system reports: a word and an exit code (Monitoring Plugins Development
//! Guidelines).

/// The status of a check; its value is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStatus {
    /// All is well.
    Well = 0,
    /// An operator should look at it.
    Warning = 1,
    /// An operator must act.
    Critical = 2,
    /// The check could not be made.
    Unknown = 3,
}

impl CheckStatus {
    /// The word that the plug-in's line begins with.
    pub fn word(self) -> &'static str {
        match self {
            CheckStatus::Well => "OK",
            CheckStatus::Warning => "WARNING",
            CheckStatus::Critical => "CRITICAL",
            CheckStatus::Unknown => "UNKNOWN",
        }
    }

    /// The rank of a status: critical is above unknown, unknown above warning. In a total outage every packet is lost and there is no
    /// round-trip time: the missing figure must not hide the loss.
    fn rank(self) -> u8 {
        match self {
            CheckStatus::Well => 0,
            CheckStatus::Warning => 1,
            CheckStatus::Unknown => 2,
            CheckStatus::Critical => 3,
        }
    }

    /// The status of two checks together: the one of higher rank.
    pub fn and(self, other: CheckStatus) -> CheckStatus {
        if other.rank() > self.rank() { other } else { self }
    }
}
