//! A round of a flow: its files once, by whatever moves them.

/// Moves the files of a flow once.
pub(crate) trait RoundDriver: Send {
    /// Begins a round.
    ///
    /// # Errors
    /// Why it cannot begin.
    fn begin(&mut self) -> Result<(), String>;
    /// Looks how far the round is; none if nothing new is known.
    ///
    /// # Errors
    /// Why that is not known.
    fn sample(&mut self) -> Result<Option<RoundSample>, String>;
    /// Sets the limit of the round, bit/s; 0 for none.
    ///
    /// # Errors
    /// Why it cannot be set.
    fn limit(&mut self, limit_bit_s: u64) -> Result<(), String>;
    /// Ends the round.
    fn cancel(&mut self);
}

/// How far a round is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RoundSample {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Files that have arrived.
    pub files: u64,
    /// What it waits for, if it waits.
    pub waiting_for: String,
    /// How it ended, if it has.
    pub end: Option<RoundEnd>,
}

/// How a round ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RoundEnd {
    /// `done`, `partial`, `failed`, `cancelled`.
    pub state: String,
    /// Files that did not arrive.
    pub failed: u64,
    /// What limited it.
    pub verdict: String,
    /// Why it failed.
    pub error: Option<String>,
    /// Processor time of the agent's clients.
    pub cpu_s: Option<f64>,
    /// How long it took by the clock of whoever moved it, seconds, where that is known.
    pub seconds: Option<f64>,
    /// It was ended to begin again with another limit: that is no end of the flow.
    pub begins_again: bool,
}

impl RoundEnd {
    /// The end of a round that failed.
    pub fn failed(error: String) -> RoundEnd {
        RoundEnd { state: "failed".into(), error: Some(error), ..RoundEnd::default() }
    }
}
