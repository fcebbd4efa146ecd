//! The files of endpoints, over HTTP with the hub's own keys: for what the catalogue asks of them.

use std::sync::Arc;
use std::time::Duration;

use model::RelPath;
use model::v1::hub::EndpointKind;
use remote::{Dav, Means, Redirects};
use web::{Dialer, HttpUrl};

use super::{CONNECT, Carriers, SILENCE, origin, trust};

/// How long one question is tried again.
const PATIENCE: Duration = Duration::from_secs(20);

impl Carriers {
    /// The server of a file of a described endpoint, and the path there.
    ///
    /// # Errors
    /// It cannot be spoken to: the description says not enough, or it is none that the hub speaks to.
    pub fn file(&self, endpoint: &str, url: &str) -> Result<(Dav, RelPath), String> {
        let topology = self.hub.topology.load();
        let described = topology.described_endpoint(endpoint).ok_or_else(|| format!("{endpoint} is not described"))?;
        let (address, tls) = match described.kind {
            EndpointKind::S3 => return Err("the hub does not speak to S3 servers by itself".to_owned()),
            EndpointKind::Webdav => (url.replacen("davs://", "https://", 1), Arc::clone(&self.tls)),
            EndpointKind::Node => {
                let server = origin(url).ok_or_else(|| format!("{url} is no URL of a node: lh://HOST[:PORT]/"))?;
                let path = url.strip_prefix("lh://").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
                (format!("{server}{}", path.unwrap_or("/")), trust(described, &self.authorities)?)
            }
        };
        let address = HttpUrl::parse(&address).map_err(|error| error.to_string())?;
        let target = web::target::parse(address.path()).map_err(|error| error.to_string())?;
        let guard = self.guard(true);
        let token = described.key.clone();
        let means = Means {
            dialer: Dialer { tls, guard, prepare: None, connect: CONNECT, silence: SILENCE },
            token: Arc::new(move || Ok(token.clone())),
            redirects: Redirects::OfItsKind,
            patience: PATIENCE,
        };
        Ok((Dav::new(means, &address, RelPath::root()), target.path))
    }
}
