//! Third-party copies between two servers that are not nodes: one server pulls the file from the other, or pushes it there, at the request
//! of the hub (COPY, as the WLCG uses it). The data does not pass through the hub; the result is compared with the source.

use std::sync::Arc;
use std::time::Duration;

use model::Expected;
use model::fault::Blame;
use model::v1::hub::Endpoint;
use remote::dav::third::{CopyError, ServerCopy};
use remote::{Dav, Redirects, ServerSettings};
use rustls::ClientConfig;
use web::client::Guard;
use web::{Dialer, HttpUrl};

use crate::progress::TransferResult;

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(20);
/// How long a server may be silent during a copy: some report progress only every half minute.
const SILENCE: Duration = Duration::from_secs(300);
/// For how long a request is retried.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of a copy.
pub struct ThirdPartyEnd {
    /// The URL of the file.
    pub url: String,
    /// The description of its endpoint; the default if it is not described.
    pub endpoint: Endpoint,
    /// Permits the addresses to which the hub may connect for it.
    pub guard: Arc<Guard>,
}

impl ThirdPartyEnd {
    /// The server of this end, and the path of the file there.
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
        let settings = ServerSettings {
            dialer,
            token: Arc::new(move || Ok(token.clone())),
            redirects: Redirects::SameKind,
            patience: PATIENCE,
        };
        Ok((Dav::new(settings, &address, model::RelPath::root()), target.path))
    }
}

/// Options of a copy.
#[derive(Clone, Debug)]
pub struct ThirdPartyOptions {
    /// Whether an existing target may be replaced.
    pub replace: bool,
    /// The size and checksum that the file must have.
    pub expected: Expected,
    /// The SciTags number with which its flows are marked.
    pub scitag: Option<u16>,
}

/// Copies a file. `progress` is called with the bytes that have arrived; it ends the copy by returning `false`. Blocks until the end.
pub fn copy(
    from: &ThirdPartyEnd,
    to: &ThirdPartyEnd,
    options: &ThirdPartyOptions,
    tls: &Arc<ClientConfig>,
    progress: &dyn Fn(u64) -> bool,
) -> TransferResult {
    let config = |reason: String| TransferResult::Failed { fault: "config".into(), reason };
    let ((source, source_path), (target, target_path)) = match (from.open(tls), to.open(tls)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(reason), _) | (_, Err(reason)) => return config(reason),
    };
    let ThirdPartyOptions { replace, expected, scitag } = options.clone();
    let (from, to) = ((&source, &source_path), (&target, &target_path));
    let between = ServerCopy { from, to, replace, expected, scitag, progress };
    match between.run() {
        Ok(bytes) => TransferResult::Done { bytes },
        Err(CopyError::Cancelled) => TransferResult::Cancelled,
        Err(CopyError::Cannot(why)) => config(format!(
            "neither server can copy from or to the other ({why}); a gateway can: longhaul hub endpoint set NAME --gateway NODE"
        )),
        Err(CopyError::Failed(error)) => {
            let fault = if error.is_not_found() { model::Fault::Missing } else { error.fault() };
            TransferResult::Failed { fault: fault.word().into(), reason: model::fault::with_causes(&error) }
        }
    }
}
