//! The client's side of a session: connect, verify the node, log in, ask, push, pull.
//!
//! The client does not wait where it need not: the login and the first question are sent together, behind the handshake's last message.
//! A job of one small file ends three round trips after the first SYN.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use auth::Fingerprint;
use model::account::{Account, TargetWaits};
use model::checksum::Digest;
use model::tcp::TcpInfo;
use model::{HostPort, RelPath, v1};
use pilot::verdict::Measured;
use wire::Frame;
use wire::frame::{Counts, Direction, Listed, Open, Request, Totals};
use wire::join::{Join, SessionId};
use wire::sender::Miss;
use wire::version::Version;

pub use crate::connect::Connect;
use crate::connect::LoggedIn;
use crate::control::Control;
use crate::dial;
use crate::dial::Dial;
use crate::error::{Error, Result};
use crate::filelist::FileList;
use crate::history::History;
use crate::job::{self, ExtraPaths, JobFacts, StreamHelpers, StreamTerms, Streams, Watch};
use crate::lastcopy::LastCopy;
use crate::link::Link;
use crate::path_shares::PathShares;
use crate::receive::Receiving;
use crate::scan::{Scanner, SourceRoot};
use crate::seal::{self, Secret};
use crate::send::Sending;
use crate::series::Series;
use crate::side::Side;
use crate::stream::DataStream;
pub use crate::stream::StreamMarker;

/// The streams, history and series that a job uses.
#[derive(Clone, Debug, Default)]
pub struct SessionParts {
    /// Streams to begin with; 0 leaves it to the evidence.
    pub streams: u32,
    /// Streams at most, whatever the evidence and the job's settings say; 0 for no bound.
    pub streams_max: u32,
    /// The series that the job writes.
    pub series: Option<Series>,
    /// What earlier jobs have measured of paths.
    pub history: Option<History>,
    /// The last copy of the same sources to the same target.
    pub last_copy: Option<LastCopy>,
    /// The shares of paths among jobs of the same node.
    pub path_shares: Option<PathShares>,
    /// Is told of each stream of the job.
    pub marker: Option<Arc<dyn StreamMarker>>,
}

/// A session with a node.
pub struct Session {
    pub(crate) link: Link,
    secret: Secret,
    id: SessionId,
    dial: Arc<dyn Dial>,
    pub(crate) extra_paths: ExtraPaths,
    advertised_addresses: Option<dial::AdvertisedAddresses>,
    pub(crate) opened: u32,
    /// The id of the last question.
    last_question: u32,
    pub(crate) fingerprint: Fingerprint,
    version: Version,
    pub(crate) has_key: bool,
    plain: bool,
    pub(crate) connected_after: Duration,
    /// The session outlives its jobs.
    pub(crate) keeps: bool,
    /// Streams kept from the last job.
    pub(crate) kept: Vec<DataStream>,
    /// The number of logins so far.
    pub(crate) logins: u32,
    /// The kernel's counters of the control connection at the last login.
    pub(crate) base: TcpInfo,
}

/// The report of a job that has ended.
#[derive(Debug, Default)]
pub struct Report {
    /// The receiver's count.
    pub totals: Totals,
    /// Further counts of both ends.
    pub counts: Counts,
    /// Entries that failed.
    pub misses: Vec<Miss>,
    /// FIFOs, sockets, devices that were left out.
    pub specials: Vec<RelPath>,
    /// The digests that both ends agreed on, where the job was one file.
    pub digests: Vec<Digest>,
    /// Bytes that were sent more than once.
    pub resent_bytes: u64,
    /// Facts about the streams, from the end that sent; the control connection's from here.
    pub streams: Vec<v1::Stream>,
    /// This end in numbers.
    pub account: Account,
    /// The other end's last account.
    pub peer: Option<Account>,
    /// How long the receiver waited for its target.
    pub waited: TargetWaits,
    /// How long the other end was silent.
    pub silent: Duration,
    /// When the tree was known in full, after the job's start.
    pub scanned_after: Option<Duration>,
    /// When the last byte had arrived.
    pub arrived_after: Option<Duration>,
    /// The error of a job that failed. The totals count what had arrived before.
    pub error: Option<Error>,
}

impl Report {
    /// The numbers from which a verdict is made.
    pub fn measured(&self) -> Measured {
        Measured {
            streams: self.streams.clone(),
            account: self.account.clone(),
            peer: self.peer.clone(),
            files: self.totals.files,
            bytes: self.totals.bytes,
            skipped: self.totals.skipped,
            waited: self.waited,
            scanned_after: self.scanned_after,
            failed: self.error.is_some(),
        }
    }
}

impl Session {
    /// Connects and logs in. The node's answer to the login comes with the answer to the first question.
    ///
    /// # Errors
    /// The node cannot be reached, has another identity than expected, or does not speak this protocol.
    pub fn connect(to: &HostPort, connect: &Connect<'_>) -> Result<Session> {
        let login = connect.dial(to)?;
        let address = login.address;
        // Another address of the same host may be another node: further connections go to this address.
        let mut session = Session::of(login, Arc::new(address), connect)?;
        session.extra_paths = ExtraPaths::Allowed(connect.guard.clone());
        session.advertised_addresses = Some(connect.advertised_addresses.clone());
        Ok(session)
    }

    /// Logs in over an open connection; `dial` makes further ones.
    ///
    /// # Errors
    /// As for [`Session::connect`].
    pub fn over(socket: TcpStream, dial: Arc<dyn Dial>, to: &HostPort, connect: &Connect<'_>) -> Result<Session> {
        Session::of(connect.log_in(socket, to)?, dial, connect)
    }

    fn of(login: LoggedIn, dial: Arc<dyn Dial>, connect: &Connect<'_>) -> Result<Session> {
        Ok(Session {
            secret: login.link.secret()?,
            link: login.link,
            id: connect.session,
            dial,
            extra_paths: ExtraPaths::None,
            advertised_addresses: None,
            opened: 0,
            last_question: 0,
            fingerprint: login.fingerprint,
            version: login.version,
            has_key: login.has_key,
            plain: connect.plain,
            connected_after: login.connected_after,
            keeps: false,
            kept: Vec::new(),
            logins: 1,
            base: TcpInfo::default(),
        })
    }

    /// The node's fingerprint, proven by the handshake.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Whether one of the given keys is for this node.
    pub fn has_key(&self) -> bool {
        self.has_key
    }

    /// The protocol version in force.
    pub fn version(&self) -> Version {
        self.version
    }

    /// How long it took to connect.
    pub fn connected_after(&self) -> Duration {
        self.connected_after
    }

    /// The node's program and version, once it has answered.
    pub fn node_software(&self) -> &str {
        self.link.welcome().map_or("", |w| w.software.as_str())
    }

    /// Asks a question that is answered in lines of a listing.
    ///
    /// # Errors
    /// The node refuses the question, or the session breaks.
    pub fn query(&mut self, request: Request, mut lines: impl FnMut(Vec<Listed>)) -> Result<()> {
        self.question(request, &mut lines, &mut |_| {})
    }

    /// Makes a connection to the node's port one of this session's streams, for a question rather than a job. Returns its number. The
    /// node must have answered a question before: it refuses a stream that arrives before the login.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn join(&mut self, socket: &TcpStream) -> Result<u32> {
        self.opened += 1;
        let mut join = Join { session: self.id, stream: self.opened, sealed: !self.plain, code: [0; 32] };
        self.secret.sign_join(&mut join);
        let broken = |source| Error::Broken { peer: self.link.peer().to_owned(), source };
        std::io::Write::write_all(&mut &*socket, &join.encode()).map_err(broken)?;
        Ok(self.opened)
    }

    /// The node's address.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.link.socket().peer_addr().ok()
    }

    /// A second handle of the control connection: shutting it down ends the session, whatever it waits for.
    ///
    /// # Errors
    /// The socket cannot be duplicated.
    pub fn connection_handle(&self) -> std::io::Result<TcpStream> {
        self.link.socket().try_clone()
    }

    /// Asks a question that is answered line by line, in text or JSON, while the answer is made.
    ///
    /// # Errors
    /// The node refuses the question, or the session breaks.
    pub fn query_by_line(&mut self, request: Request, on_text: &mut dyn FnMut(String)) -> Result<()> {
        self.question(request, &mut |_| {}, on_text)
    }

    /// Asks a question that is answered in text or JSON. Returns the lines of the answer.
    ///
    /// # Errors
    /// The node refuses the question, or the session breaks.
    pub fn query_text(&mut self, request: Request) -> Result<Vec<String>> {
        let mut answer = Vec::new();
        self.question(request, &mut |_| {}, &mut |text| answer.push(text))?;
        Ok(answer)
    }

    fn question(
        &mut self,
        request: Request,
        on_lines: &mut dyn FnMut(Vec<Listed>),
        on_text: &mut dyn FnMut(String),
    ) -> Result<()> {
        self.last_question += 1;
        let id = self.last_question;
        self.link.send(&Frame::Request(id, request))?;
        loop {
            while let Some(frame) = self.link.next_frame()? {
                match frame {
                    Frame::Reply(of, listed, more) if of == id => {
                        on_lines(listed);
                        if !more {
                            return Ok(());
                        }
                    }
                    Frame::Told(of, text, more) if of == id => {
                        on_text(text);
                        if !more {
                            return Ok(());
                        }
                    }
                    // The other end had sent these messages before the last job was over.
                    frame if frame.is_late() => {}
                    Frame::Denied(of, refusal) if of == id => {
                        return Err(Error::Refused { peer: self.link.peer().to_owned(), refusal });
                    }
                    _ => return Err(self.unexpected()),
                }
            }
            self.link.exchange(Duration::from_secs(3600))?;
        }
    }

    pub(crate) fn unexpected(&self) -> Error {
        let source = wire::WireError::Unexpected("the node sent a message that answers nothing");
        Error::Protocol { peer: self.link.peer().to_owned(), source }
    }

    fn terms(&self, order: &Open, parts: &SessionParts) -> StreamTerms {
        let past = parts.history.as_ref().filter(|_| order.direction == Direction::Push);
        let past = past.and_then(|history| history.recall(self.peer_ip()?, self.rtt()));
        StreamTerms {
            session: self.id,
            secret: self.secret.clone(),
            role: seal::SealingEnd::Client,
            suite: Arc::new(self.link.welcome().map_or_else(OnceLock::new, |w| OnceLock::from(w.suite))),
            plain: self.plain,
            permitted: job::permitted(order.congestion.clone()),
            past,
            history: parts.history.clone().filter(|_| order.direction == Direction::Push),
            series: parts.series.clone(),
            path_shares: parts.path_shares.clone().zip(self.peer_ip()),
            ordered: order.steer,
            patience: order.options.wait_space.saturating_add(Duration::from_secs(60)),
            keep: self.keeps && order.direction == Direction::Push,
            help: StreamHelpers::None,
            marker: parts.marker.clone(),
        }
    }

    /// Sends sources to the node. The order's direction is [`Direction::Push`].
    pub fn push(
        &mut self,
        order: Open,
        sources: Vec<SourceRoot>,
        files: Option<FileList>,
        parts: &SessionParts,
        control: &Control,
        watch: Watch<'_>,
    ) -> Report {
        debug_assert_eq!(order.direction, Direction::Push);
        let terms = self.terms(&order, parts);
        let count = self.first_streams(parts, &terms);
        let kept = std::mem::take(&mut self.kept);
        let sending = Sending::new(sources, &order.options, self.link.waker());
        sending.send_lineage(&order.job);
        parts.last_copy.as_ref().and_then(LastCopy::unseen_from).into_iter().for_each(|from| sending.doubt_from(from));
        let opened = self.link.send(&Frame::Open(order.clone()));
        let (mut job_facts, result) = std::thread::scope(|scope| {
            scope.spawn(|| Scanner::new(&*sending, &order.options).run(files));
            let side: Arc<dyn Side> = sending.clone();
            let to = Arc::clone(&self.dial);
            let streams_max = parts.streams_max;
            let extra_paths = self.extra_paths.clone();
            let streams = Streams::Dial { to, extra_paths, count, streams_max, opened: &mut self.opened, kept };
            job::drive(&mut self.link, &side, terms, streams, control, watch)
        });
        self.kept = std::mem::take(&mut job_facts.kept);
        // A rate with a number of streams that the user has set says less about the path.
        if let Some(history) = parts.history.as_ref().filter(|_| control.settings().0.streams == 0) {
            job_facts.past.iter().for_each(|(peer, past)| history.keep(*peer, past));
        }
        let mut report = self.report(job_facts, opened.and(result));
        report.totals = sending.totals();
        report.counts.unfinished = sending.counts().unfinished;
        report.misses = sending.misses();
        report.specials = sending.specials();
        report.resent_bytes = sending.resent_bytes();
        report.digests = of_one_file(&report.totals, sending.last_digests());
        report
    }

    /// Fetches sources from the node into a receiving side made by `receiving`; nothing is done where it makes none.
    pub fn pull(
        &mut self,
        order: Open,
        files: Option<FileList>,
        parts: &SessionParts,
        receiving: impl FnOnce(sys::waker::Waker) -> Option<Arc<Receiving>>,
        control: &Control,
        watch: Watch<'_>,
    ) -> Report {
        debug_assert_eq!(order.direction, Direction::Pull);
        let terms = self.terms(&order, parts);
        let count = self.first_streams(parts, &terms);
        self.kept.clear();
        let Some(receiving) = receiving(self.link.waker()) else { return Report::default() };
        receiving.expect_lineage(order.job);
        let mut files = files;
        files.iter_mut().for_each(|files| receiving.set_expected(files.take_expected()));
        let opened = self.link.send(&Frame::Open(order)).and_then(|()| self.send_list(files));
        let (mut job_facts, result) = std::thread::scope(|scope| {
            scope.spawn(|| receiving.run_metadata_worker());
            let side: Arc<dyn Side> = receiving.clone();
            let to = Arc::clone(&self.dial);
            let streams_max = parts.streams_max;
            let extra_paths = self.extra_paths.clone();
            let kept = Vec::new();
            let streams = Streams::Dial { to, extra_paths, count, streams_max, opened: &mut self.opened, kept };
            job::drive(&mut self.link, &side, terms, streams, control, watch)
        });
        let result = opened.and(result).and_then(|()| self.await_facts(&mut job_facts));
        let mut report = self.report(job_facts, result);
        report.totals = receiving.totals();
        report.counts.refreshed = receiving.counts().refreshed;
        report.misses = receiving.misses();
        report.specials = receiving.specials();
        report.resent_bytes = report.totals.resent_bytes;
        report.digests = of_one_file(&report.totals, receiving.last_digests());
        report
    }

    fn peer_ip(&self) -> Option<IpAddr> {
        self.link.socket().peer_addr().ok().map(|address| address.ip())
    }

    fn rtt(&self) -> Duration {
        sys::tcp::info(self.link.socket()).map_or(Duration::ZERO, |info| info.min_rtt)
    }

    /// How many streams to begin with.
    fn first_streams(&self, parts: &SessionParts, terms: &StreamTerms) -> u32 {
        match parts.streams {
            0 => pilot::first_streams(self.rtt(), &terms.known()),
            count => count,
        }
    }

    /// Sends the list of files of a job that is not for its whole source.
    fn send_list(&mut self, files: Option<FileList>) -> Result<()> {
        let Some(files) = files else { return Ok(()) };
        for frame in files.into_frames() {
            self.link.send(&frame)?;
            while !self.link.has_room() {
                self.link.exchange(Duration::from_secs(1))?;
            }
        }
        Ok(())
    }

    /// Waits for the node's facts about the streams that it sent on. Without streams there are none.
    fn await_facts(&mut self, job_facts: &mut JobFacts) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(2);
        if job_facts.streams.is_empty() {
            self.link.drain(Duration::from_secs(5));
            return Ok(());
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.link.next_frame() {
                Ok(Some(Frame::Facts(facts))) => {
                    job_facts.sender_streams = facts;
                    return Ok(());
                }
                Ok(Some(Frame::Account(of))) => job_facts.peer = Some(*of),
                // The sender had sent these messages before the job was over.
                Ok(Some(frame)) if frame.is_late() => {}
                Ok(Some(_)) => return Err(self.unexpected()),
                // Everything has arrived; only the sender's view of the path is missing.
                Err(_) => return Ok(()),
                Ok(None) if left.is_zero() => return Ok(()),
                Ok(None) => self.link.exchange(left)?,
            }
        }
    }

    fn report(&mut self, job_facts: JobFacts, result: Result<()>) -> Report {
        if let Some(advertised_addresses) = &self.advertised_addresses {
            advertised_addresses.note(self.link.peer(), self.link.addresses());
        }
        let streams = if job_facts.sender_streams.is_empty() {
            job_facts.streams
        } else {
            crate::send::with_addresses(job_facts.sender_streams, &job_facts.streams)
        };
        let mut report = Report {
            streams,
            account: job_facts.account,
            peer: job_facts.peer,
            counts: job_facts.peer_counts,
            waited: job_facts.waited,
            silent: job_facts.silent,
            scanned_after: job_facts.scanned_after,
            arrived_after: job_facts.arrived_after,
            ..Report::default()
        };
        report.error = result.err();
        report.streams.insert(0, crate::send::control_facts(self.link.socket(), &self.base));
        report
    }

    /// Ends the session.
    pub fn close(mut self) {
        self.link.close();
    }
}

/// The digests of a job of one file; empty where there was more than one.
fn of_one_file(totals: &Totals, last: Vec<Digest>) -> Vec<Digest> {
    if totals.files == 1 && totals.failed + totals.skipped == 0 { last } else { Vec::new() }
}
