//! HTTP on the node's port: files, directories, third-party copy, the API. A request arrives as an [`Exchange`] for every version of
//! HTTP. `authn` authenticates the client; a module for each method answers.
//!
//! What this module does not know: how a head is read (`web`), what a token means (`auth`), how blocks move natively (`engine`).

mod api;
mod copy;
mod delegation;
mod etag;
mod flows;
mod forms;
mod get;
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
mod short_body;
mod text;
mod tree;
mod uploads;
mod want_digest;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use authn::{AuthRequest, Issuers, Principal};
use serve::{Exchange, Length};
use web::dav::condition::If;
use web::target::Target;
use web::{Headers, Method, Response, date, target};

use self::refused::{Outcome, Refused, RequestFailure, RequestOutcome, refuse};
use self::request_context::RequestContext;
use self::uploads::Uploads;
use crate::access::AccessControl;
use crate::audit::Decision;
use crate::clock::now;
use crate::config::WebConfig;
use crate::dialling::Dialling;
use crate::fireflies::Fireflies;
use crate::locks::SubmittedLocks;
use crate::meters::Protocol;
use crate::origins::Origins;
use crate::services::{Services, user};

/// The answer to a request in clear text if the node speaks TLS only.
pub(crate) const TLS_ONLY: &str = "this node speaks HTTP over TLS only: https:// (its operator may allow --plain)";

/// The HTTP service of a node.
pub(crate) struct HttpService {
    pub services: Arc<Services>,
    /// The access control of the services.
    pub access_control: Arc<AccessControl>,
    pub uploads: Uploads,
    pub api: api::Api,
    fireflies: Arc<ArcSwap<Fireflies>>,
    dialling: Arc<ArcSwap<Dialling>>,
    /// Other sites whose pages may send requests.
    origins: ArcSwap<Origins>,
    /// The node listens on a loopback address alone.
    on_loopback: bool,
}

/// The settings of HTTP that an operator may replace while the node runs.
pub(crate) struct ReloadableSettings {
    fireflies: Fireflies,
    dialling: Dialling,
    issuers: Issuers,
    origins: Origins,
}

impl HttpService {
    /// The HTTP service of a node. `on_loopback` allows copies to this host's loopback addresses, as the policy may as well.
    ///
    /// # Errors
    /// The TLS settings for connections to other servers are not valid.
    pub fn new(
        services: Arc<Services>,
        config: &WebConfig,
        state: &std::path::Path,
        on_loopback: bool,
    ) -> Result<HttpService, rustls::Error> {
        let uploads = Uploads::new(state);
        let ReloadableSettings { fireflies, dialling, issuers, origins } =
            reloadable_settings(&services.access, config, on_loopback)?;
        let dialling = Arc::new(ArcSwap::from_pointee(dialling));
        let fireflies = Arc::new(ArcSwap::from_pointee(fireflies));
        services.transfers.set_outbound(Arc::clone(&dialling), Arc::clone(&fireflies));
        let access_control = Arc::clone(&services.access);
        services.authenticator.replace_issuers(issuers);
        let api = api::Api::default();
        Ok(HttpService {
            services,
            access_control,
            uploads,
            api,
            fireflies,
            dialling,
            origins: ArcSwap::from_pointee(origins),
            on_loopback,
        })
    }

    /// Makes new settings, for [`HttpService::replace`].
    ///
    /// # Errors
    /// The TLS settings for connections to other servers are not valid.
    pub fn prepare_settings(&self, config: &WebConfig) -> Result<ReloadableSettings, rustls::Error> {
        reloadable_settings(&self.access_control, config, self.on_loopback)
    }

    /// Uses these settings and the node's current exports from now on.
    pub fn replace(&self, ReloadableSettings { fireflies, dialling, issuers, origins }: ReloadableSettings) {
        self.origins.store(Arc::new(origins));
        self.services.unfinished.replace_roots(self.access_control.dirs());
        self.fireflies.store(Arc::new(fireflies));
        self.dialling.store(Arc::new(dialling));
        self.services.authenticator.replace_issuers(issuers);
    }

    /// The settings for dialling other servers on behalf of clients.
    pub fn dialling(&self) -> Arc<Dialling> {
        self.dialling.load_full()
    }

    /// The collectors of fireflies.
    pub fn fireflies(&self) -> Arc<Fireflies> {
        self.fireflies.load_full()
    }

    /// The collectors of fireflies, as they may be replaced.
    pub fn shared_fireflies(&self) -> Arc<ArcSwap<Fireflies>> {
        Arc::clone(&self.fireflies)
    }

    /// The settings of [`HttpService::dialling`], as they may be replaced.
    pub fn shared_dialling(&self) -> Arc<ArcSwap<Dialling>> {
        Arc::clone(&self.dialling)
    }

    /// The preparation of a socket before it connects, for a copy with a SciTag; none without a SciTag.
    pub fn prepare(&self, tag: Option<web::scitag::SciTag>) -> Option<Arc<web::client::Prepare>> {
        tag.map(crate::fireflies::prepare)
    }

    /// The boundary between the parts of a multipart answer: random, so that no file holds it.
    pub fn boundary(&self) -> String {
        let random = engine::identity::random::<12>().unwrap_or_default();
        format!("longhaul-{}", auth::hex(&random))
    }

    /// Answers a request and writes the decision to the audit log.
    pub fn answer(&self, exchange: &mut dyn Exchange) {
        let began = Instant::now();
        let mut principal = None;
        let origins = self.origins.load_full();
        let mut fields = origins.fields(exchange.request());
        // RFC 9110, section 10.2.4.
        fields.add("Server", concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        exchange.add_to_answer(fields);
        let outcome = if origins::is_preflight(exchange.request()) {
            origins::answer(&origins, exchange)
        } else {
            self.handle(exchange, &mut principal)
        };
        let (done, reason) = match outcome {
            Ok(done) => (done, None),
            Err(RequestFailure::Refused(refused)) => {
                let (status, reason) = (refused.status, refused.reason.clone());
                let sent = if exchange.has_begun() { Ok(()) } else { send_refusal(exchange, *refused) };
                let unsent = sent.err().map(|e| format!("{reason} (the answer could not be sent: {e})"));
                (RequestOutcome { status, bytes: 0 }, Some(unsent.unwrap_or(reason)))
            }
            Err(RequestFailure::Broken(error)) => {
                (RequestOutcome { status: 0, bytes: 0 }, Some(format!("the connection broke: {error}")))
            }
        };
        self.log_decision(exchange, principal.as_ref(), done, reason.as_deref(), began);
    }

    /// The context of a request whose principal is known. The bytes that it moves are counted from here on.
    fn context<'a>(
        &'a self,
        exchange: &'a mut dyn Exchange,
        target: Target,
        principal: Principal,
    ) -> RequestContext<'a> {
        let by = protocol(exchange);
        let meter = self.services.meters.request(by, exchange.peer().ip(), user(&principal.access));
        RequestContext {
            service: self,
            exchange,
            target,
            principal,
            meter,
            condition: None,
            is_evaluated: Cell::new(false),
            submitted: SubmittedLocks::none(),
        }
    }

    /// Answers a request. Sets `audited` as soon as the client is authenticated.
    fn handle(&self, exchange: &mut dyn Exchange, audited: &mut Option<AuditedPrincipal>) -> Outcome {
        let target = target::parse(&exchange.request().target);
        let target = target.map_err(|e| refuse(e.status(), e.to_string()))?;
        let is_for_metrics = metrics::is_addressed(&target);
        let peer = exchange.peer().ip();
        if exchange.is_restricted() && !(is_for_metrics && self.access_control.is_monitoring_address(peer)) {
            return Err(refuse(403, TLS_ONLY));
        }
        if is_for_metrics && self.access_control.may_read_metrics(peer) {
            return metrics::answer(self, exchange, None);
        }
        let mut authenticate = |exchange: &mut dyn Exchange, target: &Target| -> Outcome<Principal> {
            let principal = self.services.authenticator.authenticate(&auth_request(exchange, target))?;
            *audited = Some(AuditedPrincipal { name: principal.access.who(), is_anonymous: principal.is_anonymous });
            Ok(principal)
        };
        if pscheduler::is_addressed(&target) && self.services.responders.load().answers_pscheduler(peer) {
            return pscheduler::answer(self, exchange, &target);
        }
        if api::is_addressed(&target) {
            return api::answer(self, exchange, target, &mut authenticate);
        }
        let principal = authenticate(exchange, &target)?;
        let method = exchange.request().method.clone();
        let context = &mut self.context(exchange, target, principal);
        if context.target.path.as_bytes() == metrics::PATH {
            return metrics::answer_authenticated(context);
        }
        conditions(context)?;
        match method {
            _ if uploads::is_upload(context) => uploads::answer(context, &method),
            Method::Get | Method::Head if macaroons::is_metadata_request(context) => macaroons::describe(context),
            Method::Get | Method::Head if api::is_tape_discovery(context) => api::describe_tape(context),
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
            Method::Post if asks_for_a_key(context) => delegation::answer(context),
            Method::Post => macaroons::answer(context),
            Method::Patch => {
                let reason = "PATCH continues an upload: PUT with Upload-Complete: ?0 begins one, and its answer has the Location";
                Err(Refused::new(405, reason).with("Allow", web::method::ALLOW).into())
            }
            Method::Other(name) => {
                let refused = Refused::new(501, format!("this node does not know the method {name}"));
                Err(refused.with("Allow", web::method::ALLOW).into())
            }
        }
    }

    fn log_decision(
        &self,
        exchange: &dyn Exchange,
        who: Option<&AuditedPrincipal>,
        done: RequestOutcome,
        reason: Option<&str>,
        began: Instant,
    ) {
        let request = exchange.request();
        let target = target::redacted(&request.target);
        let peer = exchange.peer();
        let (who, is_anonymous) = who.map_or(("nobody", true), |who| (who.name.as_str(), who.is_anonymous));
        let other = other_end(request);
        let other = other.as_deref();
        let outcome = match done.status {
            200..=399 => "allowed",
            401 | 403 => "denied",
            _ => "failed",
        };
        self.services.meters.answered(protocol(exchange), done.status);
        let seconds = began.elapsed().as_secs_f64();
        let status = done.status;
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
            is_anonymous,
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

fn reloadable_settings(
    access_control: &Arc<AccessControl>,
    config: &WebConfig,
    on_loopback: bool,
) -> Result<ReloadableSettings, rustls::Error> {
    Ok(ReloadableSettings {
        fireflies: Fireflies::new(config.fireflies.clone(), crate::fireflies::host_name()),
        dialling: Dialling::new(access_control, config.authorities.clone(), on_loopback)?,
        issuers: Issuers::new(access_control.state().path(), config.authorities.as_ref()),
        origins: config.origins.clone(),
    })
}

/// The parts of a request that authentication needs.
fn auth_request<'a>(exchange: &'a dyn Exchange, target: &'a Target) -> AuthRequest<'a> {
    AuthRequest {
        request: exchange.request(),
        target,
        peer: exchange.peer().ip(),
        is_secure: exchange.is_secure(),
        certificate: exchange.certificate(),
        reads_public_data: reads_public_data(exchange, target),
    }
}

/// Whether a request reads files: it changes nothing, and asks for nothing that belongs to one principal.
fn reads_public_data(exchange: &dyn Exchange, target: &Target) -> bool {
    use Method::{Get, Head, Options, Propfind};
    let is_of_node = api::is_addressed(target) || metrics::is_addressed(target);
    // The root lists what the principal may see: a client whose token has expired must not conclude that its exports are gone.
    matches!(exchange.request().method, Get | Head | Propfind | Options) && !is_of_node && !target.path.is_root()
}

/// The protocol of a request, for the metrics.
fn protocol(exchange: &dyn Exchange) -> Protocol {
    match (exchange.is_multiplexed(), exchange.is_secure()) {
        (true, _) => Protocol::Http2,
        (false, true) => Protocol::Https,
        (false, false) => Protocol::Http,
    }
}

/// The principal of a request, for the audit log.
struct AuditedPrincipal {
    name: String,
    is_anonymous: bool,
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

/// Sends a refusal, with the reason as text or as a problem document.
fn send_refusal(exchange: &mut dyn Exchange, refused: Refused) -> std::io::Result<()> {
    let (mut text, kind) = if api::wants_problem(exchange.request()) {
        api::problem(&refused)
    } else {
        (refused.reason, "text/plain; charset=utf-8")
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

/// Reads the field `If`, with its locks and entity tags. It is evaluated after the principal's rights.
fn conditions(context: &mut RequestContext<'_>) -> Outcome<()> {
    let Some(value) = context.request().headers.get("if") else { return Ok(()) };
    let condition =
        If::parse(value).ok_or_else(|| refuse(400, "the field If is not valid (RFC 4918, section 10.4)"))?;
    let tokens = condition.tokens().map(str::to_owned).collect();
    context.submitted = SubmittedLocks { holder: context.access().holder().to_owned(), tokens };
    context.condition = Some(condition);
    Ok(())
}

fn asks_for_a_key(context: &RequestContext<'_>) -> bool {
    let kind = context.request().headers.get("content-type").unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(delegation::MEDIA_TYPE))
}

/// OPTIONS: the methods and protocols of the node, for any client.
fn options(context: &mut RequestContext<'_>) -> Outcome {
    let mut response = Response::new(200)
        .with("DAV", "1, 2")
        .with("DAV", "<http://apache.org/dav/propset/fs/1>")
        .with("MS-Author-Via", "DAV")
        .with("Allow", web::method::ALLOW)
        .with("Accept-Ranges", "bytes");
    context.add_fingerprint(&mut response.headers);
    context.exchange.begin(response, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 200, bytes: 0 })
}
