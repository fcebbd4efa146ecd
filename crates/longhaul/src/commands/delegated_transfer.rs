//! A copy from one node to another, as a delegated transfer: the target's node issues a key for this one transfer, the
//! source's node runs it, and this command follows it. The command may end before the transfer does, and
//! `longhaul job show ID --node` shows the transfer later.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use auth::AccessKey;
use model::fault::{Exit, Fault};
use model::id::JobId;
use model::locator::NodePlace;
use model::{Blame, v1};
use wire::frame::{DelegationOrder, Direction, KeyProof, Open, Request};

use super::cp::job::CopyJob;
use super::cp::peer::Peer;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Display;

/// The time between two queries of the source's node for progress. It grows with the elapsed time, so that the number of
/// queries grows only with the logarithm of the duration.
fn pause(elapsed: Duration) -> Duration {
    (elapsed / 200).max(Duration::from_millis(500))
}

/// The exit code of a delegated transfer, by its receipt.
pub fn exit(receipt: &v1::Receipt) -> Exit {
    let all = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Partial,
        Exit::Refused,
        Exit::Unreachable,
        Exit::Storage,
        Exit::Integrity,
        Exit::Protocol,
        Exit::Bug,
        Exit::Interrupted,
    ];
    all.into_iter().find(|exit| *exit as u8 == receipt.exit).unwrap_or(Exit::Failed)
}

/// Starts the transfer, and follows it until it has ended.
///
/// # Errors
/// A node refuses the transfer or forgets it, the source's node cannot be reached for `--retry-for`, or the user interrupts.
pub fn run(
    job: &CopyJob<'_>,
    from: &Peer,
    sources: &[NodePlace],
    to: &Peer,
    target: NodePlace,
) -> Result<v1::Receipt, Failure> {
    let id = JobId::random();
    let outlives_command = matches!((from, to), (Peer::Node(_), Peer::Node(_)));
    let display = Display::new(job.printer, job.is_test());
    let mut transfer = DelegatedTransfer { job, from, id, outlives_command, display, last_state: None };
    transfer.begin(sources, to, target)?;
    let node = match from {
        Peer::Node(at) => format!(" --node lh://{at}"),
        _ => String::new(),
    };
    let end = if transfer.outlives_command {
        format!("it goes on if this command ends (longhaul job show {id}{node})")
    } else {
        "it ends with this command, because ssh started one of its ends".to_owned()
    };
    Printer::note(&format!("job {id} runs on {}; {end}", from.at()));
    let result = transfer.follow(&node);
    let bytes = transfer.last_state.as_ref().map_or(0, |job| job.bytes);
    transfer.display.finish(bytes);
    result
}

/// A delegated transfer, as this command follows it.
struct DelegatedTransfer<'a> {
    job: &'a CopyJob<'a>,
    from: &'a Peer,
    id: JobId,
    /// Whether the transfer goes on when this command ends: both ends are nodes.
    outlives_command: bool,
    display: Display<'a>,
    last_state: Option<v1::Transfer>,
}

impl DelegatedTransfer<'_> {
    fn begin(&self, sources: &[NodePlace], to: &Peer, target: NodePlace) -> Result<(), Failure> {
        let CopyJob { cp, settings, .. } = self.job;
        let name = *self.id.0.as_bytes();
        let mut target_session = to.connect(settings, cp.is_plain())?;
        let node = target_session.fingerprint().0;
        let reply =
            target_session.query_text(Request::KeyFor { job: name, place: target.clone(), delete: cp.delete })?;
        target_session.close();
        let key = reply.first().and_then(|text| text.parse::<AccessKey>().ok());
        let key = key.ok_or_else(|| Failure::local("the target's node gave no key"))?;
        let open = Open {
            job: name,
            direction: Direction::Push,
            places: vec![target],
            options: self.job.options(),
            congestion: cp.congestion.clone(),
            steer: self.job.live_settings(),
            listed: false,
        };
        let delegation = DelegationOrder {
            order: open,
            sources: sources.to_vec(),
            to: to.at().clone(),
            node,
            key: KeyProof { id: key.id, secret: *key.expose_secret() },
            plain: cp.is_plain(),
            retry_for_s: cp.retry_for.as_secs(),
        };
        let mut source_session = self.from.connect(settings, cp.is_plain())?;
        source_session.query_text(Request::Carry(Box::new(delegation)))?;
        source_session.close();
        Ok(())
    }

    /// Queries the state of the transfer until it has ended, over one session. A session that breaks is replaced; this fails when
    /// there was none for `--retry-for`.
    fn follow(&mut self, node: &str) -> Result<v1::Receipt, Failure> {
        let started = Instant::now();
        let mut session = None;
        let mut lost_at: Option<Instant> = None;
        loop {
            match self.query(&mut session) {
                Ok(Some(job)) => {
                    lost_at = None;
                    self.display.show(&job);
                    let ended = job.state.is_last();
                    let receipt = job.receipt.clone();
                    self.last_state = Some(job);
                    if let (true, Some(receipt)) = (ended, receipt) {
                        return Ok(self.with_typed_locators(*receipt));
                    }
                }
                Ok(None) => {
                    let message = format!("job {} is not known any more on {}", self.id, self.from.at());
                    return Err(Failure { exit: Exit::Failed, fault: Fault::Missing, message });
                }
                Err(error) if error.fault() == Fault::Path => {
                    session = None;
                    if lost_at.get_or_insert_with(Instant::now).elapsed() > self.job.cp.retry_for {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
            let until = Instant::now() + pause(started.elapsed());
            while Instant::now() < until {
                if self.job.cancel().load(Ordering::Acquire) {
                    return Err(self.interrupted(&mut session, node));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// The failure after an interrupt. A transfer that cannot outlive this command is cancelled.
    fn interrupted(&self, session: &mut Option<engine::Session>, node: &str) -> Failure {
        let id = self.id;
        let message = if self.outlives_command {
            format!("interrupted; job {id} goes on without this command (longhaul job show|cancel {id}{node})")
        } else {
            let cancel = v1::Change { cancel: true, ..v1::Change::default() };
            // If the cancellation does not arrive, the node gives up once it has not reached the other end for its retry time.
            let _ = session.as_mut().map(|session| session.query_text(Request::Change(*id.0.as_bytes(), cancel)));
            format!("interrupted; job {id} is cancelled as well; run the same command again to resume")
        };
        Failure { exit: Exit::Interrupted, fault: Fault::Interrupted, message }
    }

    /// The state of the transfer; none where the node does not know it any more.
    fn query(&self, session: &mut Option<engine::Session>) -> engine::Result<Option<v1::Transfer>> {
        if session.is_none() {
            *session = Some(self.from.connect(self.job.settings, self.job.cp.is_plain())?);
        }
        let Some(session) = session.as_mut() else { return Ok(None) };
        let lines = session.query_text(Request::Jobs(Some(*self.id.0.as_bytes())))?;
        Ok(lines
            .iter()
            .filter_map(|line| serde_json::from_str::<v1::Transfer>(line).ok())
            .find(|job| job.role == "carry"))
    }

    /// The receipt with sources and target as the user typed them.
    fn with_typed_locators(&self, receipt: v1::Receipt) -> v1::Receipt {
        let source = self.job.source_names();
        let target = self.job.target_name();
        let from = source.join(", ");
        let to = target.clone();
        let typed = |leg: v1::Carried| v1::Carried { from: from.clone(), to: to.clone(), ..leg };
        let carried = receipt.carried.into_iter().map(typed).collect();
        v1::Receipt { source, target, carried, ..receipt }
    }
}
