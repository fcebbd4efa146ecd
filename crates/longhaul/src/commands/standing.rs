//! How something stands, as plug-ins of a monitoring system say it: a word and an exit code (Monitoring Plugins
//! Development Guidelines).

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All is as it should be.
    Well = 0,
    /// Somebody should look.
    Warning = 1,
    /// Somebody should come.
    Critical = 2,
    /// It could not be found out.
    Unknown = 3,
}

impl Standing {
    /// The word that such a line begins with.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Well => "OK",
            Standing::Warning => "WARNING",
            Standing::Critical => "CRITICAL",
            Standing::Unknown => "UNKNOWN",
        }
    }

    /// What decides: a bound that is known to be broken badly does not wait for what is missing, a warning does. At a
    /// total outage all is lost and nothing takes any time.
    fn weight(self) -> u8 {
        match self {
            Standing::Well => 0,
            Standing::Warning => 1,
            Standing::Unknown => 2,
            Standing::Critical => 3,
        }
    }

    /// Both together.
    pub fn and(self, other: Standing) -> Standing {
        if other.weight() > self.weight() { other } else { self }
    }
}
