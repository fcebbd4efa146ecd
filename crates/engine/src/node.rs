//! The node's side of an accepted session: login, questions, jobs.
//!
//! The [`Host`] decides who may log in, what they may do, and where exports lie; this module keeps the order of a session.

mod delegated;
mod host;

use model::Refusal;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use auth::Access;
use model::fault::Fault;
use model::locator::NodePlace;
use pilot::Permitted;
use wire::frame::{Direction, KeyProof, Open, Request, Suite, Totals};
use wire::{Frame, WireError};

use crate::SOFTWARE;
use crate::budget::Part;
use crate::control::{Control, Label};
use crate::error::{Error, Result};
use crate::filelist::FileList;
use crate::filter::Filters;
use crate::job::{self, StreamHelpers, StreamTerms, Streams};
use crate::link::Link;
pub use crate::requester::Requester;
use crate::scan::{Scanner, SourceRoot};
use crate::seal;
use crate::send::Sending;
use crate::side::Side;
use crate::stream::{DataStream, Joined};

pub use host::{AnswerPart, Event, Host, OpenRendezvous};

/// The longest time for which a client may have a node wait for space.
const WAIT_SPACE_MAX: Duration = Duration::from_secs(24 * 3600);

struct ClientSession<'a> {
    host: &'a dyn Host,
    link: Link,
    peer: SocketAddr,
    access: Access,
    terms: StreamTerms,
    joined: Receiver<Joined>,
    /// The session and its streams outlive its jobs.
    keeps: bool,
    /// There was a job since the last login.
    had_job: bool,
    /// Streams kept from the last job: the next one begins with those that the client names.
    kept_streams: Vec<DataStream>,
    /// The streams that the next job begins with.
    resumed_streams: Vec<DataStream>,
    /// Numbers of streams up to this one belong to earlier jobs.
    last_old_stream: u32,
    _rendezvous: Box<dyn Send>,
}

/// The rights, terms and streams of a client whose login is accepted.
struct Admission {
    access: Access,
    terms: StreamTerms,
    /// Streams that join the session.
    joined: Receiver<Joined>,
    /// Lets streams find the session until it is dropped.
    rendezvous: Box<dyn Send>,
}

/// Runs a session to its end. The link's handshake is done.
///
/// # Errors
/// The login was refused, the client broke the protocol or went silent, the connection broke, or the node refused or failed a job.
pub fn run(mut link: Link, peer: SocketAddr, host: &dyn Host) -> Result<()> {
    let admission = match ClientSession::login(&mut link, peer, host)? {
        Ok(admission) => admission,
        Err(refusal) => {
            let name = link.peer().to_owned();
            link.abort(refusal.clone());
            return Err(Error::Refused { peer: name, refusal });
        }
    };
    let mut session = ClientSession {
        host,
        link,
        peer,
        access: admission.access,
        terms: admission.terms,
        joined: admission.joined,
        keeps: false,
        had_job: false,
        kept_streams: Vec::new(),
        resumed_streams: Vec::new(),
        last_old_stream: 0,
        _rendezvous: admission.rendezvous,
    };
    let result = session.serve();
    match &result {
        Ok(()) => session.link.close(),
        Err(error) => session.link.abort_for(error),
    }
    result
}

fn unexpected(link: &Link, what: &'static str) -> Error {
    Error::Protocol { peer: link.peer().to_owned(), source: WireError::Unexpected(what) }
}

impl<'a> ClientSession<'a> {
    fn login(link: &mut Link, peer: SocketAddr, host: &'a dyn Host) -> Result<std::result::Result<Admission, Refusal>> {
        let deadline = Instant::now() + link.timeouts().handshake;
        let first = loop {
            if let Some(frame) = link.next_frame()? {
                break frame;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Err(Refusal::new(Fault::Peer, "no login arrived in time")));
            }
            link.exchange(left)?;
        };
        let Frame::Login { session, software, key, suites, plain } = first else {
            return Err(unexpected(link, "the first message is not a login"));
        };
        let access = match host.login(key.as_ref(), peer) {
            Ok(access) => access,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(suite) = suites.into_iter().find(|suite| seal::is_accepted(*suite)) else {
            return Ok(Err(Refusal::new(Fault::Peer, "no cipher in common; update the older program")));
        };
        let plain = plain && host.allows_plain();
        let (sender, joined) = channel();
        let secret = link.secret()?;
        let open = OpenRendezvous { secret: secret.clone(), sealed: !plain, joined: sender, waker: link.waker() };
        let rendezvous = match host.open_rendezvous(session, open) {
            Ok(guard) => guard,
            Err(refusal) => return Ok(Err(refusal)),
        };
        link.send(&Frame::Welcome { software: SOFTWARE.into(), suite, plain })?;
        let addresses = host.addresses();
        if !addresses.is_empty() {
            link.send(&Frame::Addresses(addresses))?;
        }
        host.note(peer, &access, &Event::Login { software: &software });
        let terms = StreamTerms {
            session,
            secret,
            role: seal::SealingEnd::Node,
            suite: Arc::new(OnceLock::from((!plain).then_some(suite))),
            plain,
            permitted: Permitted::default(),
            past: None,
            history: None,
            series: None,
            path_shares: host.path_shares().map(|path_shares| (path_shares, peer.ip())),
            ordered: model::spec::LiveSettings::default(),
            patience: Duration::ZERO,
            keep: false,
            help: StreamHelpers::None,
            marker: None,
        };
        Ok(Ok(Admission { access, terms, joined, rendezvous }))
    }

    /// Serves questions and jobs, one after another, until the client leaves or is silent for too long.
    fn serve(&mut self) -> Result<()> {
        let mut idle_since = Instant::now();
        loop {
            match self.link.next_frame() {
                Ok(Some(Frame::Request(id, request))) => match self.host.check_access(&self.access) {
                    Ok(()) => self.answer(id, &request)?,
                    Err(refusal) => self.deny(id, &request, refusal)?,
                },
                Ok(Some(Frame::Open(order))) => self.job(order)?,
                Ok(Some(Frame::Lend(delegated))) => self.run_delegated(*delegated)?,
                Ok(Some(Frame::Keep(_))) if !self.keeps => {
                    self.keeps = true;
                    self.link.send(&Frame::Keep(self.link.timeouts().idle.as_secs()))?;
                }
                Ok(Some(Frame::Renew { key, opened, kept })) if self.keeps && self.had_job => {
                    self.renew(key.as_ref(), opened, &kept)?;
                }
                // The sender of the last job had sent these messages before the job was over.
                Ok(Some(frame)) if frame.is_late() => {}
                Ok(Some(_)) => return Err(unexpected(&self.link, "neither a question nor a job")),
                Ok(None) => {
                    // A client that knows how long its session is kept may begin a job at the last moment.
                    let timeouts = self.link.timeouts();
                    let idle = timeouts.idle + if self.keeps { timeouts.handshake } else { Duration::ZERO };
                    let left = idle.saturating_sub(idle_since.elapsed());
                    if left.is_zero() {
                        return Ok(());
                    }
                    self.link.exchange(left)?;
                    continue;
                }
                // A client may close the connection between jobs.
                Err(Error::Broken { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            idle_since = Instant::now();
        }
    }

    /// Logs the client in with another key over the same connections: from here on only that key's rights count.
    fn renew(&mut self, key: Option<&KeyProof>, opened: u32, kept: &[u32]) -> Result<()> {
        match self.host.login(key, self.peer) {
            Ok(access) => self.access = access,
            Err(refusal) => {
                self.link.abort(refusal.clone());
                return Err(Error::Refused { peer: THIS_NODE.into(), refusal });
            }
        }
        self.had_job = false;
        self.last_old_stream = self.last_old_stream.max(opened);
        self.resumed_streams = std::mem::take(&mut self.kept_streams);
        self.resumed_streams.retain(|stream| kept.contains(&stream.id()));
        let suite = self.terms.suite.get().copied().flatten();
        let welcome = Frame::Welcome {
            software: SOFTWARE.into(),
            // The suite has no meaning where payload goes in clear.
            suite: suite.unwrap_or(Suite::Aes128Gcm),
            plain: suite.is_none(),
        };
        self.link.send(&welcome)?;
        self.host.note(self.peer, &self.access, &Event::Renewed { streams: self.resumed_streams.len() });
        Ok(())
    }

    /// Answers a question on a separate thread, so that pings are answered while a large tree is removed or digested.
    fn answer(&mut self, id: u32, request: &Request) -> Result<()> {
        let host = self.host;
        let waker = self.link.waker();
        let local = self.link.socket().local_addr().ok();
        let gone = GoneFlag::default();
        let is_gone = || gone.0.load(Ordering::Acquire);
        let requester =
            Requester { access: &self.access, peer: self.peer, local, joined: &mut self.joined, is_gone: &is_gone };
        let (lines, batches) = sync_channel::<AnswerPart>(4);
        let link = &mut self.link;
        let refusal = std::thread::scope(|scope| -> Result<Option<Refusal>> {
            // However this scope ends, the flag is set before the worker is joined.
            let _sets_flag = gone.when_dropped();
            let worker = scope.spawn(move || {
                let mut emit = |batch| {
                    let sent = lines.send(batch).is_ok();
                    waker.wake();
                    sent
                };
                let result = host.ask(requester, request, &mut emit);
                drop(lines);
                waker.wake();
                result.err()
            });
            loop {
                // The receiver must go first when the link fails, so that the worker notices and ends.
                match batches.try_recv() {
                    Ok(part) => {
                        link.send(&match part {
                            AnswerPart::Lines(lines) => Frame::Reply(id, lines, true),
                            AnswerPart::Text(text) => Frame::Told(id, text, true),
                        })?;
                        while !link.has_room() {
                            wait(link)?;
                        }
                    }
                    Err(std::sync::mpsc::TryRecvError::Empty) => wait(link)?,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => break,
                }
            }
            drop(batches);
            let bug = || Some(Refusal::new(Fault::Bug, "the node failed while answering; its log says where"));
            Ok(worker.join().unwrap_or_else(|_| bug()))
        })?;
        match refusal {
            Some(refusal) => self.deny(id, request, refusal),
            None => {
                self.host.note(self.peer, &self.access, &Event::Asked { request, refusal: None });
                self.link.send(&Frame::Reply(id, Vec::new(), false))
            }
        }
    }

    fn deny(&mut self, id: u32, request: &Request, refusal: Refusal) -> Result<()> {
        self.host.note(self.peer, &self.access, &Event::Asked { request, refusal: Some(&refusal) });
        self.link.send(&Frame::Denied(id, refusal))
    }

    fn job(&mut self, order: Open) -> Result<()> {
        let started = Instant::now();
        self.had_job = true;
        // Streams that the client has not named are not used again.
        self.kept_streams.clear();
        let result = match self.host.check_access(&self.access) {
            Ok(()) if order.direction == Direction::Push => self.push(&order),
            Ok(()) => self.pull(&order),
            Err(refusal) => Err((Totals::default(), refused(refusal))),
        };
        self.resumed_streams.clear();
        let (totals, error) = match result {
            Ok(totals) => (totals, None),
            Err((totals, error)) => (totals, Some(error)),
        };
        let event = Event::Job { order: &order, totals, elapsed: started.elapsed(), error: error.as_ref() };
        self.host.note(self.peer, &self.access, &event);
        match error {
            None => Ok(()),
            // The refusal of a job that never began is the node's own: it is sent to the client.
            Some(Error::Refused { refusal, peer }) if peer == THIS_NODE => {
                self.link.abort(refusal.clone());
                Err(Error::Refused { peer, refusal })
            }
            Some(error) => Err(error),
        }
    }

    fn job_terms(&self, order: &Open) -> StreamTerms {
        let patience = order.options.wait_space.min(WAIT_SPACE_MAX) + Duration::from_secs(60);
        let permitted = job::permitted(order.congestion.clone());
        let rtt = sys::tcp::info(self.link.socket()).map_or(Duration::ZERO, |i| i.min_rtt);
        let sends = order.direction == Direction::Pull;
        let history = self.host.history().filter(|_| sends);
        let past = history.as_ref().and_then(|history| history.recall(self.peer.ip(), rtt));
        let help = self.host.movers().map(|movers| StreamHelpers::Movers(movers, Arc::new(order.clone())));
        StreamTerms {
            permitted,
            past,
            history,
            ordered: order.steer,
            patience,
            keep: self.keeps && !sends,
            help: help.unwrap_or_default(),
            ..self.terms.clone()
        }
    }

    /// The control of a job; the node shows it to those who may steer the job until the guard is dropped.
    fn job_control(&self, order: &Open, role: &'static str) -> std::result::Result<(Control, Box<dyn Send>), Error> {
        Filters::new(&order.options.filters).map_err(refused)?;
        let places = order.places.iter().map(NodePlace::to_string).collect::<Vec<_>>();
        let client = || format!("client {}", self.peer);
        let (source, target) = match order.direction {
            Direction::Push => (vec![client()], places.join(" ")),
            Direction::Pull => (places, client()),
        };
        let label = Label { id: model::id::Uuid::from_bytes(order.job), role, source, target };
        let control = Control::new(label, order.steer, Arc::default());
        let guard = self.host.begin(&self.access, order, &control).map_err(refused)?;
        Ok((control, guard))
    }

    #[allow(clippy::result_large_err, reason = "once a job; the totals of a failed job count")]
    fn push(&mut self, order: &Open) -> std::result::Result<Totals, (Totals, Error)> {
        let none = Totals::default();
        let no_random = |_| (none, refused(Refusal::new(Fault::Local, "the node's system gives no random numbers")));
        let tag = crate::identity::random_tag().map_err(no_random)?;
        let (control, _guard) = self.job_control(order, "receive").map_err(|e| (none, e))?;
        let place = self.host.target(&self.access, order, &tag).map_err(|r| (none, refused(r)))?;
        let mut options = order.options.clone();
        options.wait_space = options.wait_space.min(WAIT_SPACE_MAX);
        let receiving = place.receive_reporting(options, tag, self.link.waker());
        receiving.expect_lineage(order.job);
        let terms = self.job_terms(order);
        let streams = Streams::Accept {
            joined: &self.joined,
            kept: std::mem::take(&mut self.resumed_streams),
            last_old_stream: self.last_old_stream,
        };
        let mut result = std::thread::scope(|scope| {
            scope.spawn(|| receiving.run_metadata_worker());
            let side: Arc<dyn Side> = receiving.clone();
            job::drive(&mut self.link, &side, terms, streams, &control, &mut |_| {})
        });
        self.kept_streams = std::mem::take(&mut result.0.kept);
        let totals = receiving.totals();
        result.1.map(|()| totals).map_err(|e| (totals, e))
    }

    #[allow(clippy::result_large_err, reason = "once a job; the totals of a failed job count")]
    fn pull(&mut self, order: &Open) -> std::result::Result<Totals, (Totals, Error)> {
        let none = Totals::default();
        // Checked before a list is received: a client without the right to read need not send one.
        let allowed = order.places.iter().try_for_each(|place| self.host.source(&self.access, place).map(drop));
        allowed.map_err(|r| (none, refused(r)))?;
        let mut memory = self.host.memory(&self.access);
        let files = if order.listed { Some(self.receive_list(&mut memory).map_err(|e| (none, e))?) } else { None };
        let (control, _guard) = self.job_control(order, "send").map_err(|e| (none, e))?;
        let sources = order.places.iter().map(|place| self.host.source(&self.access, place));
        let sources: std::result::Result<Vec<SourceRoot>, Refusal> = sources.collect();
        let sources = sources.map_err(|r| (none, refused(r)))?;
        crate::scan::distinct_names(&sources).map_err(|r| (none, refused(r)))?;
        let sending = Sending::new(sources, &order.options, self.link.waker());
        sending.send_lineage(&order.job);
        let terms = self.job_terms(order);
        let streams = Streams::Accept { joined: &self.joined, kept: Vec::new(), last_old_stream: self.last_old_stream };
        let result = std::thread::scope(|scope| {
            scope.spawn(|| Scanner::new(&*sending, &order.options).run(files));
            let side: Arc<dyn Side> = sending.clone();
            job::drive(&mut self.link, &side, terms, streams, &control, &mut |_| {})
        });
        let totals = sending.totals();
        match result {
            (job_facts, Ok(())) if job_facts.streams.is_empty() => Ok(totals),
            (job_facts, Ok(())) => {
                if let Some(history) = self.host.history().filter(|_| control.settings().0.streams == 0) {
                    job_facts.past.iter().for_each(|(peer, past)| history.keep(*peer, past));
                }
                let sent = self.link.send(&Frame::Account(Box::new(job_facts.account)));
                let sent = sent.and_then(|()| self.link.send(&Frame::Facts(job_facts.streams)));
                sent.map(|()| totals).map_err(|e| (totals, e))
            }
            (_, Err(error)) => Err((totals, error)),
        }
    }

    /// Receives the list of files that the client names one by one.
    fn receive_list(&mut self, memory: &mut Part) -> Result<FileList> {
        let mut list = FileList::default();
        let deadline = Instant::now() + self.link.timeouts().idle;
        loop {
            match self.link.next_frame()? {
                Some(Frame::Files(files, more)) => {
                    let before = list.bytes();
                    files.into_iter().try_for_each(|(from, to)| list.add(from, to)).map_err(refused)?;
                    let grown = memory.grow(list.bytes() - before);
                    grown.map_err(|full| refused(Refusal::new(Fault::Path, full.to_string())))?;
                    if !more {
                        return list.sorted().map_err(refused);
                    }
                }
                Some(_) => return Err(unexpected(&self.link, "a message came where a list of files was expected")),
                None if Instant::now() > deadline => {
                    return Err(unexpected(&self.link, "the list of files has no end"));
                }
                None => self.link.exchange(Duration::from_secs(1))?,
            }
        }
    }
}

/// Set when the client that asked a question has gone.
#[derive(Default)]
struct GoneFlag(AtomicBool);

impl GoneFlag {
    /// Sets the flag when the returned guard is dropped.
    fn when_dropped(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a GoneFlag);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Release);
            }
        }
        Guard(self)
    }
}

/// Waits while a question is being answered, and answers pings meanwhile. A client asks its next question only after the answer.
fn wait(link: &mut Link) -> Result<()> {
    link.exchange(Duration::from_secs(1))?;
    match link.next_frame()? {
        None => Ok(()),
        Some(_) => Err(unexpected(link, "a message came before the last question was answered")),
    }
}

/// The peer's name in an error that marks a refusal as the node's own.
const THIS_NODE: &str = "this node";

fn refused(refusal: Refusal) -> Error {
    Error::Refused { peer: THIS_NODE.into(), refusal }
}
