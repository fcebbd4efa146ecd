//! Errands: jobs to another node that this one carries by itself, for a guest who may leave. The guest's keys stay with
//! the guest; the other node's one-time key for this job is all that this node has of it.
//!
//! An errand is written down before it is accepted, and goes on after a restart of the node; what became of it is kept
//! for the guest to ask.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use auth::policy::ThirdParty;
use auth::{Access, AccessKey, Fingerprint};
use engine::control::{Control, Label};
use engine::dial::{Elsewhere, Guard};
use engine::node::Host;
use engine::scan::SourceRoot;
use engine::session::{Connect, Means, Session};
use engine::transfer::{Ends, Note, Transfer};
use engine::{Error, Timeouts, Trust};
use model::fault::Fault;
use model::id::{JobId, Uuid};
use model::{Locator, v1};
use wire::Frame;
use wire::frame::{Errand, Refusal, Request};

use crate::host::Exports;
use crate::jobs::Jobs;
use crate::warm::{Destination, Warm};

/// What a node shows as the role of such a job.
const ROLE: &str = "carry";

/// The errands of a node.
pub(crate) struct Errands {
    host: Weak<Exports>,
    jobs: Jobs,
    dir: PathBuf,
    ways: Ways,
    /// They are written down: this node comes back. One that lives for a single copy does not, and leaves those of others
    /// with the same state directory alone.
    lasting: bool,
}

/// How errands reach other nodes.
#[derive(Clone)]
struct Ways {
    timeouts: Timeouts,
    /// Where this node listens on the loopback interface alone errands may lead there, whatever the policy says.
    may_stay_here: bool,
    /// It lives for one copy of its own user, who may dial what he likes.
    is_users_own: bool,
    /// Sessions of earlier errands.
    warm: Arc<Warm>,
    /// Where nodes said that they are as well.
    elsewhere: Elsewhere,
}

/// Errands under way at once, for one guest and for all.
const ERRANDS_MAX: (usize, usize) = (64, 256);

fn storage(doing: &str, error: &io::Error) -> Refusal {
    Refusal::new(Fault::Local, format!("the node cannot {doing} the job in its state directory: {error}"))
}

impl Errands {
    pub fn new(
        host: Weak<Exports>,
        jobs: Jobs,
        dir: PathBuf,
        timeouts: Timeouts,
        may_stay_here: bool,
        lasting: bool,
    ) -> Errands {
        // A node that lives for a single copy has no second errand to keep anything for.
        let warm = Warm::new(if lasting { timeouts.warm } else { Duration::ZERO });
        let ways = Ways { timeouts, may_stay_here, is_users_own: !lasting, warm, elsewhere: Elsewhere::default() };
        Errands { host, jobs, dir, ways, lasting }
    }

    /// The node stops: no session is kept any longer.
    pub fn stop(&self) {
        self.ways.warm.close();
    }

    /// Takes an errand on. One that is known already is the same errand.
    pub fn accept(&self, access: &Access, errand: &Errand) -> Result<(), Refusal> {
        let host = self.host.upgrade().ok_or_else(|| Refusal::new(Fault::Path, "the node is stopping"))?;
        let roots = errand.sources.iter().map(|place| host.source(access, place));
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        engine::scan::distinct_names(&roots)?;
        engine::filter::Filters::new(&errand.order.options.filters)?;
        if self.jobs.is_anothers(&errand.order.job, ROLE, access.holder()) {
            return Err(Refusal::new(Fault::Auth, "a job of this name is somebody else's"));
        }
        let (own, all) = self.jobs.running(ROLE, access.holder());
        if own >= ERRANDS_MAX.0 || all >= ERRANDS_MAX.1 {
            let reason = "this node carries as many jobs as it may already; try again when some have ended";
            return Err(Refusal::new(Fault::Path, reason));
        }
        let control = control(errand);
        if !self.jobs.keep(errand.order.job, ROLE, access.holder(), &control) {
            return Ok(());
        }
        let kept = match self.write_down(access, errand) {
            Ok(kept) => kept,
            Err(error) => {
                control.end(None);
                return Err(storage("write down", &error));
            }
        };
        self.start(host, access.clone(), errand.clone(), control, kept, false);
        Ok(())
    }

    fn path(&self, errand: &Errand) -> PathBuf {
        self.dir.join(Uuid::from_bytes(errand.order.job).to_string())
    }

    /// First line: whose it is. Then the request as it came. Locked for as long as the errand is under way, so that no
    /// other node with the same state directory takes it on as well.
    fn write_down(&self, access: &Access, errand: &Errand) -> io::Result<Option<File>> {
        use std::io::Write;
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        if !self.lasting {
            return Ok(None);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let mut bytes = format!("{}\n", access.holder()).into_bytes();
        wire::frame::encode(&Frame::Ask(0, Request::Carry(Box::new(errand.clone()))), &mut bytes);
        let beside = self.path(errand).with_extension("new");
        let _ = fs::remove_file(&beside);
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
        file.lock()?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(beside, self.path(errand))?;
        Ok(Some(file))
    }

    /// Goes on with what an earlier run of the node left.
    pub fn go_on(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        if !self.lasting {
            return;
        }
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(file) = File::open(&path) else { continue };
            if file.try_lock().is_err() {
                continue;
            }
            let Some((holder, errand)) = fs::read(&path).ok().and_then(|bytes| read_back(&bytes)) else { continue };
            let (Some(host), name) = (self.host.upgrade(), Uuid::from_bytes(errand.order.job)) else { return };
            match host.access_of(&holder) {
                Some(access) => {
                    let control = control(&errand);
                    if self.jobs.keep(errand.order.job, ROLE, &holder, &control) {
                        tracing::info!(job = %name, "going on with a job that a restart interrupted");
                        self.start(host, access, errand, control, Some(file), true);
                    }
                }
                None => {
                    tracing::warn!(job = %name, "a job is not gone on with: its grant was revoked");
                    let _ = fs::remove_file(path);
                }
            }
        }
    }

    fn start(
        &self,
        host: Arc<Exports>,
        access: Access,
        errand: Errand,
        control: Control,
        kept: Option<File>,
        begun: bool,
    ) {
        let (path, ways) = (self.path(&errand), self.ways.clone());
        let ended = control.clone();
        let run = move || {
            let id = Uuid::from_bytes(errand.order.job);
            let receipt = carry(&host, &access, &errand, &control, begun, &ways);
            let outcome = serde_json::to_value(receipt.state).unwrap_or_default();
            tracing::info!(
                target: "access", who = access.who(), event = "carry", job = %id, to = %errand.to, outcome = %outcome,
                bytes = receipt.bytes, files = receipt.files, failed = receipt.failed, seconds = receipt.seconds,
                error = receipt.error.as_deref(),
            );
            // Stopped with the node: it goes on when the node does.
            let resumes = receipt.state == v1::State::Interrupted && host.is_stopping();
            control.end(Some(receipt));
            if kept.is_some() && !resumes {
                let _ = fs::remove_file(path);
            }
            drop(kept);
        };
        if let Err(error) = std::thread::Builder::new().name("errand".into()).spawn(run) {
            tracing::warn!(%error, "cannot start a thread for an errand");
            ended.end(None);
        }
    }
}

fn read_back(bytes: &[u8]) -> Option<(String, Errand)> {
    let at = bytes.iter().position(|b| *b == b'\n')?;
    let holder = std::str::from_utf8(&bytes[..at]).ok()?.to_owned();
    let mut frames = wire::frame::FrameBuffer::default();
    frames.push(&bytes[at + 1..]);
    match frames.next_frame() {
        Ok(Some(Frame::Ask(_, Request::Carry(errand)))) => Some((holder, *errand)),
        _ => None,
    }
}

fn target(errand: &Errand) -> String {
    let place = errand.order.places.first().cloned();
    let locator = place.map(|place| Locator::Node { at: errand.to.clone(), place, into: errand.order.options.into });
    locator.map_or_else(String::new, |locator| locator.to_string())
}

fn sources(errand: &Errand) -> Vec<String> {
    errand.sources.iter().map(ToString::to_string).collect()
}

fn control(errand: &Errand) -> Control {
    let job = Uuid::from_bytes(errand.order.job).to_string();
    let label = Label { job, role: ROLE, source: sources(errand), target: target(errand) };
    Control::new(label, errand.order.steer, Arc::default())
}

fn destination(errand: &Errand) -> Destination {
    let (node, congestion) = (errand.node, errand.order.congestion.clone());
    Destination { to: errand.to.clone(), node, plain: errand.plain, congestion }
}

impl Ways {
    /// A session with the errand's target: one of an earlier errand, or a new one.
    fn session(&self, host: &Exports, errand: &Errand, keys: &[AccessKey]) -> engine::Result<Session> {
        if let Some(session) = self.warm.take(&destination(errand), keys) {
            return Ok(session);
        }
        let session =
            engine::identity::random().map_err(|_| Error::Order("the system gives no random numbers".into()))?;
        let trust = Trust::Fingerprints(vec![Fingerprint(errand.node)]);
        let policy = host.policy();
        let local = policy.third_party.local || self.is_users_own;
        let third_party = ThirdParty { local, loopback: self.may_stay_here, ..policy.third_party.clone() };
        let guard: Arc<Guard> =
            Arc::new(move |address| third_party.check(address).map_err(|denied| denied.to_string()));
        let (timeouts, plain, elsewhere) = (self.timeouts, errand.plain, self.elsewhere.clone());
        let connect = Connect { trust, keys, plain, timeouts, session, guard: Some(guard), elsewhere };
        let mut session = Session::connect(&errand.to, &connect)?;
        if !self.warm.within().is_zero() {
            session.keep(self.warm.within())?;
        }
        Ok(session)
    }
}

fn carry(host: &Exports, access: &Access, errand: &Errand, control: &Control, begun: bool, ways: &Ways) -> v1::Receipt {
    let key = AccessKey::new(errand.key.id, errand.key.secret, Fingerprint(errand.node));
    let keys = [key];
    let roots = || -> engine::Result<Vec<SourceRoot>> {
        // Asked at every attempt: whoever gave the errand may have been shut out since.
        if host.access_of(access.holder()).is_none() {
            let refusal = Refusal::new(Fault::Auth, "the access key that began this job is not valid any more");
            return Err(Error::Refused { peer: "the source node".into(), refusal });
        }
        let roots = errand.sources.iter().map(|place| host.source(access, place));
        roots.collect::<Result<_, _>>().map_err(|refusal| Error::Refused { peer: "the source node".into(), refusal })
    };
    let keep = |session: Session| ways.warm.put(destination(errand), session);
    let transfer = Transfer {
        id: JobId(Uuid::from_bytes(errand.order.job)),
        options: errand.order.options.clone(),
        congestion: errand.order.congestion.clone(),
        means: Means { history: host.history(), commons: host.commons(), ..Means::default() },
        ends: Ends::Push { sources: &roots, target: errand.order.places[0].clone() },
        files: None,
        retry_for: Duration::from_secs(errand.retry_for_s),
        once: false,
        begun,
        control,
        keep: Some(&keep),
    };
    let mut connect = || ways.session(host, errand, &keys);
    let mut note = |note: Note<'_>| {
        if let Note::Again(error, pause) = note {
            tracing::info!(job = %transfer.id, %error, pause_s = pause.as_secs(), "the path broke; trying again");
        }
    };
    let done =
        transfer.run(&mut connect, &mut note).unwrap_or_else(|error: Error| engine::transfer::Outcome::failed(error));
    transfer.receipt(&done, sources(errand), target(errand))
}
