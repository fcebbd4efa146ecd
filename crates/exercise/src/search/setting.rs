//! Parameters of a search, and the settings of their grid.

use std::collections::BTreeMap;
use std::fmt;

use model::units::Bytes;
use serde::{Deserialize, Serialize};

use super::SETTINGS_MAX;

/// What a search may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterName {
    /// Clients at once.
    Clients,
    /// Streams of each client.
    Streams,
    /// The window of each stream, bytes; 0 leaves it to the kernel.
    Window,
    /// Files that each client is started with.
    Files,
}

/// A parameter and the values that may be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Which one.
    pub name: ParameterName,
    /// Its values, in any order.
    pub values: Vec<u64>,
}

/// A value for each parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting {
    values: BTreeMap<ParameterName, u64>,
}

/// Why a search is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// It has no slots.
    #[error("the search has no slots; give it at least one")]
    NoSlots,
    /// It has no parameters.
    #[error("the search varies nothing; give it clients, streams, window or files")]
    NoParameters,
    /// A parameter has no values.
    #[error("the parameter {name} has no values; write for example [1, 2, 4, 8]")]
    NoValues {
        /// Which one.
        name: ParameterName,
    },
    /// A parameter occurs twice.
    #[error("the parameter {name} occurs twice; join its values")]
    Repeated {
        /// Which one.
        name: ParameterName,
    },
    /// A value is 0 that must not be.
    #[error("0 {name} cannot be tried; begin with 1 (only a window may be 0: that of the kernel)")]
    Zero {
        /// Which one.
        name: ParameterName,
    },
    /// The grid is too large.
    #[error(
        "the search has {settings} settings, at most {SETTINGS_MAX} are possible; leave values out: six slots need few"
    )]
    TooManySettings {
        /// The number of settings.
        settings: usize,
    },
    /// A trial of a setting that is not in the grid.
    #[error("{setting} is not a setting of this search")]
    UnknownSetting {
        /// The setting.
        setting: Setting,
    },
}

impl ParameterName {
    /// All of them.
    pub const ALL: [ParameterName; 4] =
        [ParameterName::Clients, ParameterName::Streams, ParameterName::Window, ParameterName::Files];

    /// Its word in a file.
    pub fn word(self) -> &'static str {
        match self {
            ParameterName::Clients => "clients",
            ParameterName::Streams => "streams",
            ParameterName::Window => "window",
            ParameterName::Files => "files",
        }
    }

    /// The parameter of a word; none if there is no such parameter.
    pub fn of_word(word: &str) -> Option<ParameterName> {
        ParameterName::ALL.into_iter().find(|name| name.word() == word)
    }
}

impl fmt::Display for ParameterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Setting {
    /// A setting of these values.
    pub fn new(values: impl IntoIterator<Item = (ParameterName, u64)>) -> Setting {
        Setting { values: values.into_iter().collect() }
    }

    /// The value of a parameter; none if it is not varied.
    pub fn value(&self, name: ParameterName) -> Option<u64> {
        self.values.get(&name).copied()
    }

    /// Whether each of its values is at least that of another setting of the same grid. The window of the kernel is not known, so it is at
    /// least itself only.
    pub(super) fn asks_at_least(&self, other: &Setting) -> bool {
        self.values().all(|(name, value)| match other.value(name) {
            Some(0) => value == 0,
            Some(asked) => value >= asked,
            None => false,
        })
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = (ParameterName, u64)> {
        self.values.iter().map(|(name, value)| (*name, *value))
    }
}

impl fmt::Display for Setting {
    /// `4 clients, 2 streams, window 2.00 MiB, 60 files`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.values().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            match name {
                ParameterName::Window if value == 0 => f.write_str("window of the kernel")?,
                ParameterName::Window => write!(f, "window {}", Bytes(value))?,
                _ if value == 1 => write!(f, "1 {}", name.word().trim_end_matches('s'))?,
                _ => write!(f, "{value} {name}")?,
            }
        }
        Ok(())
    }
}

/// All settings of some parameters, in order: fewest clients first.
pub(super) fn grid(parameters: &[Parameter]) -> Result<Vec<Setting>, SearchError> {
    let mut by_name: BTreeMap<ParameterName, Vec<u64>> = BTreeMap::new();
    for Parameter { name, values } in parameters {
        let mut values = values.clone();
        values.sort_unstable();
        values.dedup();
        let name = *name;
        match values.first() {
            None => return Err(SearchError::NoValues { name }),
            Some(0) if name != ParameterName::Window => return Err(SearchError::Zero { name }),
            Some(_) => {}
        }
        if by_name.insert(name, values).is_some() {
            return Err(SearchError::Repeated { name });
        }
    }
    if by_name.is_empty() {
        return Err(SearchError::NoParameters);
    }
    let settings = by_name.values().fold(1usize, |product, values| product.saturating_mul(values.len()));
    if settings > SETTINGS_MAX {
        return Err(SearchError::TooManySettings { settings });
    }
    let mut grid = vec![Setting::new([])];
    for (name, values) in by_name {
        let with = |setting: &Setting, value: u64| Setting::new(setting.values().chain([(name, value)]));
        grid = grid.iter().flat_map(|setting| values.iter().map(|value| with(setting, *value))).collect();
    }
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: ParameterName, values: &[u64]) -> Parameter {
        Parameter { name, values: values.to_vec() }
    }

    #[test]
    fn a_grid_has_each_setting_once() {
        let parameters =
            [parameter(ParameterName::Window, &[1 << 20, 0]), parameter(ParameterName::Clients, &[4, 1, 2, 1])];
        let grid = grid(&parameters).unwrap();
        let shown: Vec<String> = grid.iter().map(Setting::to_string).collect();
        assert_eq!(
            shown,
            [
                "1 client, window of the kernel",
                "1 client, window 1.00 MiB",
                "2 clients, window of the kernel",
                "2 clients, window 1.00 MiB",
                "4 clients, window of the kernel",
                "4 clients, window 1.00 MiB",
            ]
        );
        assert_eq!((grid[3].value(ParameterName::Clients), grid[3].value(ParameterName::Files)), (Some(2), None));
    }

    #[test]
    fn a_grid_without_sense_is_refused() {
        let refusal = |parameters: &[Parameter]| grid(parameters).unwrap_err();
        let name = ParameterName::Streams;
        assert_eq!(refusal(&[]), SearchError::NoParameters);
        assert_eq!(refusal(&[parameter(name, &[])]), SearchError::NoValues { name });
        assert_eq!(refusal(&[parameter(name, &[1, 0])]), SearchError::Zero { name });
        assert_eq!(refusal(&[parameter(name, &[1]), parameter(name, &[2])]), SearchError::Repeated { name });
        let many: Vec<u64> = (1..=200).collect();
        let large = [parameter(name, &many), parameter(ParameterName::Clients, &many)];
        assert_eq!(refusal(&large), SearchError::TooManySettings { settings: 40_000 });
    }

    #[test]
    fn a_setting_asks_at_least_as_much_if_no_value_is_less() {
        let setting =
            |clients, window| Setting::new([(ParameterName::Clients, clients), (ParameterName::Window, window)]);
        assert!(setting(4, 8).asks_at_least(&setting(4, 8)));
        assert!(setting(8, 16).asks_at_least(&setting(4, 8)));
        assert!(!setting(8, 4).asks_at_least(&setting(4, 8)));
        assert!(!setting(2, 16).asks_at_least(&setting(4, 8)));
        assert!(setting(8, 0).asks_at_least(&setting(4, 0)));
        assert!(!setting(8, 16).asks_at_least(&setting(4, 0)) && !setting(8, 0).asks_at_least(&setting(4, 8)));
    }

    #[test]
    fn names_and_settings_have_words() {
        for name in ParameterName::ALL {
            assert_eq!(ParameterName::of_word(name.word()), Some(name));
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{name}\""));
        }
        assert_eq!(ParameterName::of_word("buffer"), None);
        let setting = Setting::new([(ParameterName::Streams, 2), (ParameterName::Files, 1)]);
        let json = serde_json::to_string(&setting).unwrap();
        assert_eq!(json, r#"{"streams":2,"files":1}"#);
        assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
    }
}
