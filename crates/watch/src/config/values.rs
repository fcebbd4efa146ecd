//! Values of the file that several of its tables have.

use std::time::Duration;

use model::units::BitRate;

use super::ConfigError;

/// A value of the file, or why it is invalid.
pub(super) type ConfigResult<T> = Result<T, ConfigError>;

/// Checks a name: it becomes a part of URLs, tables and metrics.
pub(super) fn check_name(name: &str) -> ConfigResult<()> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if (1..=120).contains(&name.len()) && name.chars().all(is_good) {
        Ok(())
    } else {
        Err(ConfigError::new(format!("name {name:?}"), "a name has letters, digits, and . - _ : (120 at most)"))
    }
}

fn time(at: &str, text: &str) -> ConfigResult<Duration> {
    model::duration::parse(text).map_err(|error| ConfigError::new(at, error.to_string()))
}

pub(super) fn time_within(
    at: &str,
    text: Option<&str>,
    default: Duration,
    bounds: (Duration, Duration),
) -> ConfigResult<Duration> {
    let span = text.map_or(Ok(default), |text| time(at, text))?;
    if !(bounds.0..=bounds.1).contains(&span) {
        let least = model::duration::show(bounds.0);
        let most = model::duration::show(bounds.1);
        return Err(ConfigError::new(at, format!("it must be from {least} to {most}")));
    }
    Ok(span)
}

pub(super) fn rate(at: &str, text: Option<&str>) -> ConfigResult<Option<BitRate>> {
    let read = |text: &str| text.parse().map_err(|error| ConfigError::new(at, format!("{error}")));
    text.map(read).transpose()
}
