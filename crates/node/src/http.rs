//! HTTP on the node's port: files, directories, third-party copy, the API. A request comes as an [`Exchange`], whatever
//! carried it; who asks is `authn`'s, what is answered the verbs'.
//!
//! What this room does not know: how a head is read (`web`), what a token means (`auth`), how blocks move natively (`engine`).

mod api;
mod callout;
mod copy;
mod dead;
mod etag;
mod fireflies;
mod flows;
mod forms;
mod get;
mod lend;
mod little;
mod lock;
mod macaroons;
mod metrics;
mod origins;
mod page;
mod propfind;
mod proppatch;
mod pscheduler;
mod put;
mod refused;
mod request_context;
mod text;
mod tree;
mod unfinished;
mod uploads;
mod want_digest;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use authn::{AuthRequest, Authenticator, Issuers, Principal};
use serve::{Exchange, Length};
use web::dav::condition::If;
use web::target::Target;
use web::{Headers, Method, Response, date, target};

use self::callout::Callouts;
use self::fireflies::Fireflies;
use self::refused::{Done, Outcome, Refused, Trouble, refuse};
use self::request_context::RequestContext;
use self::unfinished::Unfinished;
use self::uploads::Uploads;
use crate::access::AccessControl;
use crate::audit::Decision;
use crate::clock::now;
use crate::config::WebConfig;
use crate::dialling::Dialling;
use crate::locks::Submitted;
use crate::meters::By;
use crate::origins::Origins;
use crate::services::{Services, user};

/// To clients that come in clear where that is not spoken.
pub(crate) const SEALED_ONLY: &str = "this node speaks HTTP over TLS only: https:// (its operator may allow --plain)";

/// The HTTP side of a node.
pub(crate) struct Web {
    pub services: Arc<Services>,
    /// Who may do what, and where: of the services.
    pub rules: Arc<AccessControl>,
    pub authenticator: Authenticator,
    /// The policy's program.
    pub callouts: Callouts,
    pub unfinished: Unfinished,
    pub uploads: Uploads,
    pub api: api::Api,
    fireflies: ArcSwap<Fireflies>,
    dialling: Arc<ArcSwap<Dialling>>,
    /// Pages of other sites that may ask.
    origins: ArcSwap<Origins>,
    /// This host itself is reached from the node's address.
    on_loopback: bool,
}

/// How other servers are reached: what an operator may replace while the node runs.
pub(crate) struct Ways {
    fireflies: Fireflies,
    dialling: Dialling,
    issuers: Issuers,
    origins: Origins,
}

impl Web {
    /// Around the exports of a node; to this host itself it copies where the node listens there alone, or the policy says so.
    pub fn new(
        services: Arc<Services>,
        config: &WebConfig,
        state: &std::path::Path,
        on_loopback: bool,
    ) -> Result<Web, rustls::Error> {
        let unfinished = Unfinished::new(state, services.access.dirs());
        let uploads = Uploads::new(state);
        let Ways { fireflies, dialling, issuers, origins } = ways(&services.access, config, on_loopback)?;
        let origins = ArcSwap::from_pointee(origins);
        let (fireflies, dialling) = (ArcSwap::from_pointee(fireflies), Arc::new(ArcSwap::from_pointee(dialling)));
        services.transfers.dial_by(Arc::clone(&dialling));
        let rules = Arc::clone(&services.access);
        let authenticator = Authenticator::new(Arc::<AccessControl>::clone(&rules), issuers);
        let callouts = Callouts::default();
        let api = api::Api::default();
        Ok(Web {
            authenticator,
            callouts,
            services,
            rules,
            unfinished,
            uploads,
            api,
            fireflies,
            dialling,
            origins,
            on_loopback,
        })
    }

    /// Other ways, to be used with [`Web::replace`].
    pub fn prepare_ways(&self, config: &WebConfig) -> Result<Ways, rustls::Error> {
        ways(&self.rules, config, self.on_loopback)
    }

    /// Goes these ways from now on, and to the exports that the node has by now.
    pub fn replace(&self, Ways { fireflies, dialling, issuers, origins }: Ways) {
        self.origins.store(Arc::new(origins));
        self.unfinished.replace_roots(self.rules.dirs());
        self.fireflies.store(Arc::new(fireflies));
        self.dialling.store(Arc::new(dialling));
        self.authenticator.replace_issuers(issuers);
    }

    /// How other servers are dialled on behalf of guests.
    pub fn dialling(&self) -> Arc<Dialling> {
        self.dialling.load_full()
    }

    /// Whom to tell of marked flows.
    pub fn fireflies(&self) -> Arc<Fireflies> {
        self.fireflies.load_full()
    }

    /// What is done to a socket before it connects, for a copy with this mark.
    pub fn prepare(&self, mark: Option<web::scitag::SciTag>) -> Option<Arc<web::client::Prepare>> {
        mark.map(fireflies::prepare)
    }

    /// What separates the parts of an answer: nothing that a file could be expected to hold.
    pub fn boundary(&self) -> String {
        let random = engine::identity::random::<12>().unwrap_or_default();
        format!("longhaul-{}", auth::hex(&random))
    }

    /// Answers a request, whatever becomes of it, and writes down what was decided.
    pub fn answer(&self, exchange: &mut dyn Exchange) {
        let began = Instant::now();
        let mut who = None;
        let origins = self.origins.load_full();
        let mut fields = origins.fields(exchange.request());
        // RFC 9110, section 10.2.4.
        fields.add("Server", concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        exchange.add_to_answer(fields);
        let outcome = match origins::is_asked(exchange.request()) {
            true => origins::answer(&origins, exchange),
            false => self.handle(exchange, &mut who),
        };
        let (done, reason) = match outcome {
            Ok(done) => (done, None),
            Err(Trouble::Refused(refused)) => {
                let (status, reason) = (refused.status, refused.reason.clone());
                let sent = if exchange.has_begun() { Ok(()) } else { say(exchange, *refused) };
                let lost = sent.err().map(|e| format!("{reason} (not heard: {e})"));
                (Done { status, bytes: 0 }, Some(lost.unwrap_or(reason)))
            }
            Err(Trouble::Broken(error)) => {
                (Done { status: 0, bytes: 0 }, Some(format!("the connection broke: {error}")))
            }
        };
        self.write_down(exchange, who.as_ref(), done, reason.as_deref(), began);
    }

    /// A request of somebody who was let in. What it moves is counted from here on.
    fn context<'a>(
        &'a self,
        exchange: &'a mut dyn Exchange,
        target: Target,
        principal: Principal,
    ) -> RequestContext<'a> {
        let by = carrier(exchange);
        let moving = self.services.meters.request(by, exchange.peer().ip(), user(&principal.access));
        let (condition, is_judged, shown) = (None, Cell::new(false), Submitted::none());
        RequestContext { web: self, exchange, target, principal, moving, condition, is_judged, shown }
    }

    fn handle(&self, exchange: &mut dyn Exchange, who: &mut Option<Who>) -> Outcome {
        let target = target::parse(&exchange.request().target);
        let target = target.map_err(|e| refuse(e.status(), e.to_string()))?;
        let (for_numbers, peer) = (metrics::is_meant(&target), exchange.peer().ip());
        if exchange.is_restricted() && !(for_numbers && self.rules.is_monitored_from(peer)) {
            return Err(refuse(403, SEALED_ONLY));
        }
        if for_numbers && self.rules.tells_numbers_to(peer) {
            return metrics::answer(self, exchange, None);
        }
        let mut ask = |exchange: &mut dyn Exchange, target: &Target| -> Outcome<Principal> {
            let principal = self.authenticator.authenticate(&auth_request(exchange, target))?;
            *who = Some(Who { name: principal.access.who(), is_nobody: principal.is_anonymous });
            Ok(principal)
        };
        if pscheduler::is_addressed(&target) && self.services.responders.load().answers_pscheduler(peer) {
            return pscheduler::answer(self, exchange, &target);
        }
        if api::is_addressed(&target) {
            return api::answer(self, exchange, target, &mut ask);
        }
        let principal = ask(exchange, &target)?;
        let method = exchange.request().method.clone();
        let context = &mut self.context(exchange, target, principal);
        if context.target.path.as_bytes() == metrics::PATH {
            return metrics::to_visitor(context);
        }
        conditions(context)?;
        match method {
            _ if uploads::is_meant(context) => uploads::answer(context, &method),
            Method::Get | Method::Head if macaroons::is_asked_about(context) => macaroons::describe(context),
            Method::Get | Method::Head if api::is_tape_asked_about(context) => api::describe_tape(context),
            Method::Get | Method::Head => get::answer(context),
            Method::Put => put::answer(context),
            Method::Delete => tree::delete::answer(context),
            Method::Mkcol => tree::mkcol(context),
            Method::Move => tree::rename(context),
            Method::Copy => copy::answer(context),
            Method::Propfind => propfind::answer(context),
            Method::Proppatch => proppatch::answer(context),
            Method::Lock => lock::lock(context),
            Method::Unlock => lock::unlock(context),
            Method::Options => options(context),
            Method::Post if authn::sessions::is_form(context.request()) => forms::answer(context),
            Method::Post if asks_for_a_key(context) => lend::answer(context),
            Method::Post => macaroons::answer(context),
            Method::Patch => {
                let reason =
                    "PATCH goes on with an upload: PUT with Upload-Complete: ?0 begins one, and Location says where";
                Err(Refused::new(405, reason).with("Allow", web::method::ALLOW).into())
            }
            Method::Other(name) => {
                let refused = Refused::new(501, format!("{name} is no method that this node knows"));
                Err(refused.with("Allow", web::method::ALLOW).into())
            }
        }
    }

    fn write_down(&self, exchange: &dyn Exchange, who: Option<&Who>, done: Done, reason: Option<&str>, began: Instant) {
        let request = exchange.request();
        let (target, peer) = (target::redacted(&request.target), exchange.peer());
        let (who, is_nobody) = who.map_or(("nobody", true), |who| (who.name.as_str(), who.is_nobody));
        let other = other_end(request);
        let other = other.as_deref();
        let outcome = match done.status {
            200..=399 => "allowed",
            401 | 403 => "denied",
            _ => "failed",
        };
        self.services.meters.answered(carrier(exchange), done.status);
        let (seconds, status) = (began.elapsed().as_secs_f64(), done.status);
        let by = if exchange.is_secure() { "https" } else { "http" };
        let agent = request.headers.get("user-agent").unwrap_or_default();
        tracing::info!(
            target: "access", %peer, who, by, event = request.method.name(), what = target, other, status, outcome,
            bytes = done.bytes, seconds, agent, error = reason,
        );
        let time = date::rfc3339_us(now());
        let action = request.method.name();
        let status = (status > 0).then_some(status);
        let target = &target;
        self.services.audit_log.add(&Decision {
            time,
            is_nobody,
            peer,
            who,
            by,
            action,
            target,
            other,
            outcome,
            status,
            reason,
            bytes: done.bytes,
            seconds,
        });
    }
}

fn ways(rules: &Arc<AccessControl>, config: &WebConfig, on_loopback: bool) -> Result<Ways, rustls::Error> {
    Ok(Ways {
        fireflies: Fireflies::new(config.fireflies.clone(), fireflies::host_name()),
        dialling: Dialling::new(rules, config.authorities.clone(), on_loopback)?,
        issuers: Issuers::new(rules.state().path(), config.authorities.as_ref()),
        origins: config.origins.clone(),
    })
}

/// What authentication looks at of a request.
fn auth_request<'a>(exchange: &'a dyn Exchange, target: &'a Target) -> AuthRequest<'a> {
    AuthRequest {
        request: exchange.request(),
        target,
        peer: exchange.peer().ip(),
        is_secure: exchange.is_secure(),
        client_name: exchange.client_name(),
        client: None,
        reads_public_data: reads_public_data(exchange, target),
    }
}

/// Whether a request reads files: it changes nothing, and asks for nothing that belongs to one principal.
fn reads_public_data(exchange: &dyn Exchange, target: &Target) -> bool {
    use Method::{Get, Head, Options, Propfind};
    let is_own = api::is_addressed(target) || metrics::is_meant(target);
    // What the root shows depends on who asks: a client whose token has ended must not take its exports for gone.
    matches!(exchange.request().method, Get | Head | Propfind | Options) && !is_own && !target.path.is_root()
}

/// What a request came by.
fn carrier(exchange: &dyn Exchange) -> By {
    match (exchange.is_multiplexed(), exchange.is_secure()) {
        (true, _) => By::Http2,
        (false, true) => By::Https,
        (false, false) => By::Http,
    }
}

/// Who it turned out to be.
struct Who {
    name: String,
    is_nobody: bool,
}

/// The other end of a copy or a move, without secrets.
fn other_end(request: &web::Request) -> Option<String> {
    let name = match request.method {
        Method::Copy => request.headers.get("source").or_else(|| request.headers.get("destination")),
        Method::Move => request.headers.get("destination"),
        _ => None,
    };
    name.map(target::redacted)
}

/// Says no, with the reason as text.
fn say(exchange: &mut dyn Exchange, refused: Refused) -> std::io::Result<()> {
    let (mut text, kind) = match api::speaks_of_problems(exchange.request()) {
        true => api::problem(&refused),
        false => (refused.reason, "text/plain; charset=utf-8"),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut response = Response { headers: refused.headers, ..Response::new(refused.status) };
    if response.headers.get("content-type").is_none() {
        response.headers.add("Content-Type", kind);
    }
    exchange.begin(response, Length::Known(text.len() as u64))?;
    exchange.write(text.as_bytes())?;
    exchange.end(&Headers::new())
}

/// What the request says of locks and tags (`If`): judged when it is known that whoever asks may ask.
fn conditions(context: &mut RequestContext<'_>) -> Outcome<()> {
    let Some(value) = context.request().headers.get("if") else { return Ok(()) };
    let condition =
        If::parse(value).ok_or_else(|| refuse(400, "the field If does not read (RFC 4918, section 10.4)"))?;
    let (holder, tokens) = (context.access().holder().to_owned(), condition.tokens().map(str::to_owned).collect());
    context.shown = Submitted { holder, tokens };
    context.condition = Some(condition);
    Ok(())
}

fn asks_for_a_key(context: &RequestContext<'_>) -> bool {
    let kind = context.request().headers.get("content-type").unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(lend::MEDIA_TYPE))
}

/// OPTIONS: what can be done, to whoever asks.
fn options(context: &mut RequestContext<'_>) -> Outcome {
    let response = Response::new(200)
        .with("DAV", "1, 2")
        .with("DAV", "<http://apache.org/dav/propset/fs/1>")
        .with("MS-Author-Via", "DAV")
        .with("Allow", web::method::ALLOW)
        .with("Accept-Ranges", "bytes");
    let mut response = response;
    context.introduce(&mut response.headers);
    context.exchange.begin(response, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(Done { status: 200, bytes: 0 })
}
