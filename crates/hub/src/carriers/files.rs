//! The files of endpoints, over HTTP with the hub's own keys: for what the catalogue asks of them.

use std::sync::Arc;
use std::time::Duration;

use model::RelPath;
use model::v1::hub::EndpointKind;
use remote::{Dav, Means, Redirects};
use web::{Dialer, HttpUrl};

use super::{CONNECT, Carriers, SILENCE, origin, trust};
use crate::tape::TapeServer;

/// How long one question is tried again.
const PATIENCE: Duration = Duration::from_secs(20);

impl Carriers {
    /// The server of a file of a described endpoint, and the path there.
    ///
    /// # Errors
    /// It cannot be spoken to: the description says not enough, or it is none that the hub speaks to.
    pub fn file(&self, endpoint: &str, url: &str) -> Result<(Dav, RelPath), String> {
        let Reached { address, dialer, key } = self.reach(endpoint, url)?;
        let target = web::target::parse(address.path()).map_err(|error| error.to_string())?;
        let means = Means {
            dialer,
            token: Arc::new(move || Ok(key.clone())),
            redirects: Redirects::OfItsKind,
            patience: PATIENCE,
        };
        Ok((Dav::new(means, &address, RelPath::root()), target.path))
    }

    /// The tape API's side of a described endpoint.
    ///
    /// # Errors
    /// It cannot be spoken to: the description says not enough, or it is none that the hub speaks to.
    pub fn tape_server(&self, endpoint: &str) -> Result<TapeServer, String> {
        let url = {
            let topology = self.hub.topology.load();
            let described = topology.described_endpoint(endpoint);
            described.and_then(|it| it.urls.first().cloned()).ok_or_else(|| format!("{endpoint} is not described"))?
        };
        let Reached { address, dialer, key } = self.reach(endpoint, &url)?;
        Ok(TapeServer::new(dialer, address, key.as_deref()))
    }

    /// How a URL of a described endpoint is reached over HTTP.
    fn reach(&self, endpoint: &str, url: &str) -> Result<Reached, String> {
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
        let dialer = Dialer { tls, guard: self.guard(true), prepare: None, connect: CONNECT, silence: SILENCE };
        Ok(Reached { address, dialer, key: described.key.clone() })
    }
}

/// How a URL is reached over HTTP.
struct Reached {
    address: HttpUrl,
    dialer: Dialer,
    /// What is shown there.
    key: Option<String>,
}
