//! Names and spans of time, as Rucio's clients write them.

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

/// A name that is to be in the catalogue.
pub(super) async fn find(request: &RucioRequest, text: &str) -> Result<DataRow, RucioError> {
    Ok(crate::catalogue::find(&request.hub, text).await?)
}

/// When something ends that lasts so many seconds from now.
pub(super) fn lasts(seconds: Option<f64>) -> Option<String> {
    let seconds = seconds.filter(|seconds| seconds.is_finite())?;
    Some(time::show(time::now().saturating_add((seconds * 1000.0) as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_for_ever_has_no_end() {
        assert_eq!(lasts(None), None);
        assert_eq!(lasts(Some(f64::NAN)), None);
        assert!(lasts(Some(60.0)).is_some_and(|end| end > time::show(time::now())));
    }
}
