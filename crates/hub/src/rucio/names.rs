//! Names and lifetimes, as Rucio's clients write them.

use serde::Deserialize;

use super::RucioRequest;
use super::errors::RucioError;
use crate::database::catalogue::DataRow;
use crate::time;

/// A name as Rucio writes it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Did {
    pub scope: String,
    pub name: String,
}

impl Did {
    pub fn text(&self) -> String {
        format!("{}:{}", self.scope, self.name)
    }
}

/// Finds a name in the catalogue; an unknown name is an error (404).
pub(super) async fn find(request: &RucioRequest, text: &str) -> Result<DataRow, RucioError> {
    Ok(crate::catalogue::find(&request.hub, text).await?)
}

/// The end of a lifetime of this many seconds from now; `None` if it does not end.
pub(super) fn expires_in(seconds: Option<f64>) -> Option<String> {
    let seconds = seconds.filter(|seconds| seconds.is_finite())?;
    Some(time::show(time::now().saturating_add((seconds * 1000.0) as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_infinite_lifetime_has_no_end() {
        assert_eq!(expires_in(None), None);
        assert_eq!(expires_in(Some(f64::NAN)), None);
        assert!(expires_in(Some(60.0)).is_some_and(|end| end > time::show(time::now())));
    }
}
