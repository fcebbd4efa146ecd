//! Third-party copies between two servers that are no nodes: one is asked to pull from the other, or to push to it (COPY, as the WLCG uses it).
//! The payload does not pass the hub; the result is compared with the source.

use std::sync::Arc;
use std::time::Duration;

use model::Expected;
use model::fault::Blame;
use model::v1::hub::Endpoint;
use remote::dav::third::{Between, CopyError};
use remote::{Dav, Means, Redirects};
use rustls::ClientConfig;
use web::client::Guard;
use web::{Dialer, HttpUrl};

use crate::progress::Finished;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);
/// How long a server may be silent in a copy: some report progress only every half a minute.
const SILENCE: Duration = Duration::from_secs(300);
/// How long a request is tried again.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of a copy.
pub struct ThirdPartyEnd {
    /// The URL of the file.
    pub url: String,
    /// The description of its endpoint; the default where it is not described.
    pub endpoint: Endpoint,
    /// The addresses that may be dialled for it.
    pub guard: Arc<Guard>,
}

impl ThirdPartyEnd {
    /// The server of this end, and the path there.
    fn open(&self, tls: &Arc<ClientConfig>) -> Result<(Dav, model::RelPath), String> {
        let address = HttpUrl::parse(&self.url).map_err(|error| error.to_string())?;
        let target = web::target::parse(address.path()).map_err(|error| error.to_string())?;
        let dialer = Dialer {
            tls: Arc::clone(tls),
            guard: Arc::clone(&self.guard),
            prepare: None,
            connect: CONNECT,
            silence: SILENCE,
        };
        let token = self.endpoint.key.clone();
        let means = Means {
            dialer,
            token: Arc::new(move || Ok(token.clone())),
            redirects: Redirects::OfItsKind,
            patience: PATIENCE,
        };
        Ok((Dav::new(means, &address, model::RelPath::root()), target.path))
    }
}

/// Options of a copy.
#[derive(Clone, Debug)]
pub struct ThirdPartyOptions {
    /// An existing target may be replaced.
    pub replace: bool,
    /// The size and checksum that the file must have.
    pub expected: Expected,
    /// The SciTags number that its flows are marked with.
    pub scitag: Option<u16>,
}

/// Copies a file. `progress` is called with the bytes that have arrived; it ends the copy by returning `false`. Blocks until the end.
pub fn copy(
    from: &ThirdPartyEnd,
    to: &ThirdPartyEnd,
    wanted: &ThirdPartyOptions,
    tls: &Arc<ClientConfig>,
    progress: &dyn Fn(u64) -> bool,
) -> Finished {
    let config = |reason: String| Finished::Failed { fault: "config".into(), reason };
    let ((source, source_path), (target, target_path)) = match (from.open(tls), to.open(tls)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(reason), _) | (_, Err(reason)) => return config(reason),
    };
    let ThirdPartyOptions { replace, expected, scitag } = wanted.clone();
    let (from, to) = ((&source, &source_path), (&target, &target_path));
    let between = Between { from, to, replace, expected, scitag, progress };
    match between.run() {
        Ok(bytes) => Finished::Done { bytes },
        Err(CopyError::Cancelled) => Finished::Cancelled,
        Err(CopyError::Cannot(why)) => config(format!(
            "neither server copies from or to the other ({why}); a gateway would: longhaul hub endpoint set NAME --gateway NODE"
        )),
        Err(CopyError::Failed(error)) => {
            let fault = if error.is_not_found() { model::Fault::Missing } else { error.fault() };
            Finished::Failed { fault: fault.word().into(), reason: model::fault::with_causes(&error) }
        }
    }
}
