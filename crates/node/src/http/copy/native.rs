//! A copy between two nodes of ours moves by the native engine, with as many streams as the path is worth.
//!
//! The other node lends a key for the one file, to the credentials that our client gave us for it. What cannot be begun
//! this way goes on over HTTP, which every node speaks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::{AccessKey, Fingerprint};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use engine::Trust;
use engine::control::{Control, Label};
use engine::receive::TargetPlace;
use engine::scan::SourceRoot;
use engine::session::{Connect, Means, Session};
use engine::transfer::{Ends, Note, Transfer};
use model::fault::Blame;
use model::id::{JobId, Uuid};
use model::locator::Place;
use model::spec::{Options, Steer, Sync};
use model::{Algorithm, Digest, Fault, HostPort, RelPath};
use web::{Client, Dialer, Headers, HttpUrl, Method};

use super::gauge::{Failure, Gauge};
use super::remote::Found;
use super::watch;
use crate::access::ResolvedPath;
use crate::http::lend::{Lent, MEDIA_TYPE, Question};
use crate::http::refused::Outcome;
use crate::http::request_context::RequestContext;
use crate::services::Services;

/// How long a path may be broken without progress: FTS has patience of its own.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// Bytes of the answer to a question for a key.
const ANSWER_BYTES_MAX: usize = 8192;

/// A session that can be begun.
pub(crate) struct Native {
    node: Fingerprint,
    key: AccessKey,
    place: Place,
    at: HostPort,
    address: SocketAddr,
    plain: bool,
    job: Uuid,
}

/// What came of it.
pub(crate) struct Moved {
    pub bytes: u64,
    pub digests: Vec<Digest>,
}

impl Native {
    /// Asks another node for a key; none where it is no node, or does not lend.
    pub fn offered(dialer: &Dialer, found: &Found, write: bool) -> Option<Native> {
        let node: Fingerprint = found.node.as_ref()?.parse().ok()?;
        let job = JobId::random().0;
        let question = serde_json::to_vec(&Question { v: 1, write, job }).ok()?;
        let mut client = Client::new(dialer, &found.url).ok()?;
        let at = client.conn().peer();
        let length = question.len().to_string();
        let headers = found.headers.clone().with("Content-Type", MEDIA_TYPE).with("Content-Length", length);
        client.send(&Method::Post, found.url.path_and_query(), &headers).ok()?;
        client.write(&question).ok()?;
        let (response, mut body) = client.answer(&Method::Post).ok()?;
        if response.status != 200 {
            tracing::info!(status = response.status, "the other node lends no key; the copy goes over HTTP");
            return None;
        }
        let lent: Lent = serde_json::from_slice(&client.read_all(&mut body, ANSWER_BYTES_MAX).ok()?).ok()?;
        let key: AccessKey = lent.key.parse().ok()?;
        let path = RelPath::parse(&STANDARD.decode(lent.path).ok()?).ok()?;
        // The address that the guard has seen.
        let (address, at) = (at, HostPort { host: at.ip().to_canonical().to_string(), port: at.port() });
        let place = Place::Path { export: lent.export, path };
        Some(Native { node, key, place, at, address, plain: !found.url.is_secure(), job })
    }

    /// Where the other node is.
    pub fn at(&self) -> SocketAddr {
        self.address
    }

    fn session(&self) -> engine::Result<Session> {
        let trust = Trust::Fingerprints(vec![self.node]);
        let keys = std::slice::from_ref(&self.key);
        // Whether one may go there was asked before; the address is that one.
        Session::connect(&self.at, &Connect { plain: self.plain, ..Connect::new(trust, keys)? })
    }

    fn run(
        &self,
        services: &Services,
        holder: &str,
        gauge: &Gauge,
        ends: Ends<'_>,
        overwrite: bool,
    ) -> Result<Moved, Failure> {
        let (source, target) = match &ends {
            Ends::Pull { .. } => (vec![format!("lh://{}/{}", self.at.host, self.place)], "here".to_owned()),
            Ends::Push { .. } => (vec!["here".to_owned()], format!("lh://{}/{}", self.at.host, self.place)),
        };
        let label = Label { id: self.job, role: "copy", source, target };
        let control = Control::new(label, Steer::default(), Arc::default());
        let _held = services.jobs.begin(*self.job.as_bytes(), "copy", holder, &control);
        let checksums = vec![Algorithm::Crc32c, Algorithm::Adler32];
        let options = Options { sync: Sync::None, no_overwrite: !overwrite, checksums, ..Options::default() };
        let transfer = Transfer {
            id: JobId(self.job),
            options,
            congestion: None,
            means: Means {
                streams_max: services.access.policy().third_party.max_streams.into(),
                history: Some(services.access.history()),
                path_shares: Some(services.access.path_shares()),
                ..Means::default()
            },
            ends,
            files: None,
            retry_for: RETRY_FOR,
            once: false,
            begun: false,
            fares_better: None,
            control: &control,
            keep: None,
        };
        let mut connect = || self.session();
        let mut note = |note: Note<'_>| {
            if let Note::News(engine::job::News::Progress(progress, _)) = note {
                gauge.set(progress.bytes_arrived);
            }
            if gauge.is_cancelled() {
                control.cancel();
            }
        };
        let done = transfer.run(&mut connect, &mut note).map_err(|error| of_engine(&error))?;
        let report = done.report;
        if let Some(error) = &report.error {
            return Err(of_engine(error));
        }
        if let Some(miss) = report.misses.first() {
            return Err(Failure::new(miss.refusal.fault, 500, miss.refusal.reason.clone()));
        }
        gauge.set(report.totals.bytes);
        Ok(Moved { bytes: report.totals.bytes, digests: report.digests })
    }

    /// The file comes here; in the place of another one only where whoever ordered it may replace.
    pub fn pull(&self, context: &Context<'_>, gauge: &Gauge, replace: bool) -> Result<Moved, Failure> {
        let reach = context.reach;
        let make = |options: &Options, waker| {
            let tag = engine::identity::random_tag()
                .map_err(|_| engine::Error::Order("the system gives no random numbers".into()))?;
            let opening = context.services.access.watch_leftovers(reach, &tag);
            let place = TargetPlace { opening, ..TargetPlace::new(Arc::clone(&reach.store), reach.path.clone()) };
            Ok(place.receive(options.clone(), tag, waker))
        };
        let ends = Ends::Pull { sources: vec![self.place.clone()], target: &make };
        self.run(&context.services, &context.holder, gauge, ends, replace)
    }

    /// The file goes there; whether it may replace one there that node says of its key.
    pub fn push(&self, context: &Context<'_>, gauge: &Gauge, overwrite: bool) -> Result<Moved, Failure> {
        let reach = context.reach;
        let name = reach.path.name().ok_or_else(|| Failure::new(Fault::Config, 409, "a copy begins with a file"))?;
        let sources =
            || Ok(vec![SourceRoot { store: Arc::clone(&reach.store), path: reach.path.clone(), name: name.clone() }]);
        let ends = Ends::Push { sources: &sources, target: self.place.clone() };
        self.run(&context.services, &context.holder, gauge, ends, overwrite)
    }
}

/// What a native copy needs of a request, shared with the thread that moves the bytes.
pub(crate) struct Context<'a> {
    pub services: Arc<Services>,
    pub holder: String,
    pub reach: &'a ResolvedPath,
}

impl<'a> Context<'a> {
    /// Of a request that copies to or from there.
    pub fn new(context: &RequestContext<'_>, reach: &'a ResolvedPath) -> Context<'a> {
        Context { services: Arc::clone(&context.web.services), holder: context.access().holder().to_owned(), reach }
    }
}

/// Copies by the native engine; none where that could not begin, and HTTP may do better.
pub(crate) fn attempt(
    context: &mut RequestContext<'_>,
    native: &Native,
    gauge: &Gauge,
    pulls: bool,
    copy: impl FnOnce() -> Result<Moved, Failure> + Send,
) -> Outcome<Option<Result<Moved, Failure>>> {
    gauge.is_with(native.at());
    match watch::run(context, gauge, pulls, copy)? {
        Err(failure) if may_fall_back(&failure, gauge) => {
            tracing::info!(error = failure.text, "the native copy could not begin; the copy goes over HTTP");
            Ok(None)
        }
        result => Ok(Some(result)),
    }
}

/// Whether HTTP may do better: nothing has moved, and nobody has said no to the copy as such.
fn may_fall_back(failure: &Failure, gauge: &Gauge) -> bool {
    let our_own = matches!(failure.fault, Fault::Storage | Fault::Interrupted | Fault::Integrity | Fault::Missing);
    gauge.bytes() == 0 && !gauge.is_cancelled() && !our_own
}

/// What the engine says, in the words of a copy.
fn of_engine(error: &engine::Error) -> Failure {
    let refusal = error.as_refusal();
    let status = match refusal.fault {
        Fault::Auth => 403,
        Fault::Missing => 404,
        Fault::Path => 504,
        Fault::Storage => 507,
        Fault::Interrupted => 499,
        _ => 502,
    };
    Failure { fault: error.fault(), retry: error.retry(), status, text: refusal.reason }
}

/// What is known of another node before a push: a question to it, which says what it is.
pub(crate) fn ask(dialer: &Dialer, url: &HttpUrl, headers: &Headers) -> Option<Found> {
    let asked = headers.clone().with("Longhaul-Offer", "1");
    let answer = web::client::ask(dialer, &Method::Options, url, &asked).ok()?;
    let found = super::remote::read(&answer.response, answer.url, headers.clone());
    (answer.response.status == 200 && found.node.is_some() && found.url.is_same_origin(url)).then_some(found)
}
