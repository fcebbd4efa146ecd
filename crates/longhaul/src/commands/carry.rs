//! From one node to another: the target's node gives out a key for this one job, the source's node carries it by itself,
//! and this command looks on. It may leave, and another may come back and ask (`longhaul job show ID --node`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use auth::AccessKey;
use model::fault::{Exit, Fault};
use model::id::JobId;
use model::locator::Place;
use model::{Blame, v1};
use wire::frame::{Direction, Errand, KeyProof, Open, Request};

use super::cp::job::Job;
use super::cp::peer::Peer;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Display;

/// How often the source's node is asked how far it is: often at first, then seldom, so that looking on stays small however
/// long the job takes: the number of questions grows with the logarithm of the time.
fn pause(elapsed: Duration) -> Duration {
    (elapsed / 200).max(Duration::from_millis(500))
}

/// The exit code of a carried job.
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

/// Begins the job, and looks on until it has ended.
pub fn run(job: &Job<'_>, from: &Peer, sources: &[Place], to: &Peer, target: Place) -> Result<v1::Receipt, Failure> {
    let id = JobId::random();
    let outlives = matches!((from, to), (Peer::Node(_), Peer::Node(_)));
    let mut looking =
        Looking { job, from, id, outlives, display: Display::new(job.printer, job.is_test()), seen: None };
    looking.begin(sources, to, target)?;
    let node = match from {
        Peer::Node(at) => format!(" --node lh://{at}"),
        _ => String::new(),
    };
    let end = match looking.outlives {
        true => format!("it goes on if this command ends (longhaul job show {id}{node})"),
        false => "it ends with this command, as what ssh started does".to_owned(),
    };
    Printer::note(&format!("job {id} runs on {}; {end}", from.at()));
    let result = looking.look(&node);
    let bytes = looking.seen.as_ref().map_or(0, |job| job.bytes);
    looking.display.finish(bytes);
    result
}

struct Looking<'a> {
    job: &'a Job<'a>,
    from: &'a Peer,
    id: JobId,
    /// Both ends are there without this command.
    outlives: bool,
    display: Display<'a>,
    seen: Option<v1::Job>,
}

impl Looking<'_> {
    fn begin(&self, sources: &[Place], to: &Peer, target: Place) -> Result<(), Failure> {
        let Job { cp, settings, .. } = self.job;
        let name = *self.id.0.as_bytes();
        let mut there = to.connect(settings, cp.is_plain())?;
        let node = there.fingerprint().0;
        let told = there.tell(Request::KeyFor { job: name, place: target.clone(), delete: cp.delete })?;
        there.close();
        let key = told.first().and_then(|text| text.parse::<AccessKey>().ok());
        let key = key.ok_or_else(|| Failure::local("the target's node gave no key"))?;
        let order = Open {
            job: name,
            direction: Direction::Push,
            places: vec![target],
            options: self.job.options(),
            congestion: cp.congestion.clone(),
            steer: self.job.steer(),
            listed: false,
        };
        let errand = Errand {
            order,
            sources: sources.to_vec(),
            to: to.at().clone(),
            node,
            key: KeyProof { id: key.id, secret: *key.expose_secret() },
            plain: cp.is_plain(),
            retry_for_s: cp.retry_for.as_secs(),
        };
        let mut here = self.from.connect(settings, cp.is_plain())?;
        here.tell(Request::Carry(Box::new(errand)))?;
        here.close();
        Ok(())
    }

    /// Asks again and again, over one session; a session that breaks is replaced, for as long as the user would have a
    /// copy of his own tried again.
    fn look(&mut self, node: &str) -> Result<v1::Receipt, Failure> {
        let started = Instant::now();
        let mut session = None;
        let mut lost_at: Option<Instant> = None;
        loop {
            match self.ask(&mut session) {
                Ok(Some(job)) => {
                    lost_at = None;
                    self.display.show(&job);
                    let ended = job.state == v1::Doing::Ended;
                    let receipt = job.receipt.clone();
                    self.seen = Some(job);
                    if let (true, Some(receipt)) = (ended, receipt) {
                        return Ok(self.renamed(*receipt));
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
                    return Err(self.left(&mut session, node));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// The user has ended the command. A job of which one end goes with it ends too.
    fn left(&self, session: &mut Option<engine::Session>, node: &str) -> Failure {
        let id = self.id;
        let message = if self.outlives {
            format!("interrupted; job {id} goes on without this command (longhaul job show|cancel {id}{node})")
        } else {
            let cancel = v1::Change { cancel: true, ..v1::Change::default() };
            // Where it does not hear of this, it gives up when it has found nobody for as long as it keeps trying.
            let _ = session.as_mut().map(|session| session.tell(Request::Change(*id.0.as_bytes(), cancel)));
            format!("interrupted; job {id} ends as well; run the same command again to go on")
        };
        Failure { exit: Exit::Interrupted, fault: Fault::Interrupted, message }
    }

    fn ask(&self, session: &mut Option<engine::Session>) -> engine::Result<Option<v1::Job>> {
        if session.is_none() {
            *session = Some(self.from.connect(self.job.settings, self.job.cp.is_plain())?);
        }
        let Some(open) = session.as_mut() else { return Ok(None) };
        let lines = open.tell(Request::Jobs(Some(*self.id.0.as_bytes())))?;
        Ok(lines.iter().filter_map(|line| serde_json::from_str::<v1::Job>(line).ok()).find(|job| job.role == "carry"))
    }

    /// Sources and target as the user typed them.
    fn renamed(&self, receipt: v1::Receipt) -> v1::Receipt {
        let (source, target) = (self.job.source_names(), self.job.target_name());
        let (from, to) = (source.join(", "), target.clone());
        let typed = |leg: v1::Carried| v1::Carried { from: from.clone(), to: to.clone(), ..leg };
        let carried = receipt.carried.into_iter().map(typed).collect();
        v1::Receipt { source, target, carried, ..receipt }
    }
}
