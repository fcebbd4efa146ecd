//! Which tests are ordered when an alarm is raised.

use serde::Deserialize;

use super::ConfigError;
use super::values::ConfigResult;

/// Source ports of the sweep.
const PORTS: (u16, u16) = (2, 64);
const PORTS_DEFAULT: u16 = 32;
/// Orders of the whole watch in an hour.
const PER_HOUR: (u32, u32) = (1, 120);
const PER_HOUR_DEFAULT: u32 = 12;

/// The tests that are ordered when an alarm of loss or throughput is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagnosisConfig {
    /// Orders of the whole watch in an hour at most.
    pub per_hour: u32,
    /// Source ports of the sweep.
    pub ports: u16,
}

impl Default for DiagnosisConfig {
    fn default() -> DiagnosisConfig {
        DiagnosisConfig { per_hour: PER_HOUR_DEFAULT, ports: PORTS_DEFAULT }
    }
}

/// `true`, `false`, or a table of settings.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "true, false, or a table of per-hour and ports")]
pub(super) enum FileDiagnosis {
    On(bool),
    Set(FileSettings),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileSettings {
    per_hour: Option<u32>,
    ports: Option<u16>,
}

/// The settings of a file; none where nothing is ordered.
pub(super) fn diagnosis(file: Option<FileDiagnosis>) -> ConfigResult<Option<DiagnosisConfig>> {
    let default = DiagnosisConfig::default();
    let settings = match file {
        Some(FileDiagnosis::On(false)) => return Ok(None),
        None | Some(FileDiagnosis::On(true)) => default,
        Some(FileDiagnosis::Set(file)) => DiagnosisConfig {
            per_hour: file.per_hour.unwrap_or(default.per_hour),
            ports: file.ports.unwrap_or(default.ports),
        },
    };
    if (PER_HOUR.0..=PER_HOUR.1).contains(&settings.per_hour) && (PORTS.0..=PORTS.1).contains(&settings.ports) {
        Ok(Some(settings))
    } else {
        Err(ConfigError::new("diagnosis", "per-hour is 1 to 120, ports 2 to 64; false orders nothing"))
    }
}
