//! Errors of the store as failures of a copy that HTTP ordered.

use model::fault::with_causes;

use crate::copies::progress::Failure;
use crate::http::refused::status_in_store;

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        let full = status_in_store(&error) == 507;
        let text = with_causes(&error);
        let hint = if full { " (ENOSPC: no space left on device)" } else { "" };
        let fault = model::fault::Blame::fault(&error);
        Failure::new(fault, if full { 507 } else { 500 }, format!("{text}{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_full_device_has_status_507_whenever_it_is_found() {
        for (errno, status) in [(Errno::NOSPC, 507), (Errno::DQUOT, 507), (Errno::IO, 500)] {
            let (path, source) = (String::from("run/f"), std::io::Error::from(errno));
            let late = store::Error::Late { path: path.clone(), source };
            let early = store::Error::Io { doing: "write", path, source: errno.into() };
            assert_eq!([late, early].map(|error| Failure::from(error).status), [status; 2], "{errno}");
        }
    }
}
