//! `longhaul cp`: from locators to a job, again and again where the path breaks, to a receipt.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use auth::{AccessKey, Grant, Grants, Rights};
use door::{Export, Node, NodeConfig};
use engine::identity::random_tag;
use engine::leftovers::Leftovers;
use engine::receive::{Policy, Receiving};
use engine::scan::distinct_names;
use engine::session::Report;
use engine::{SOFTWARE, Timeouts};
use model::fault::{Blame, Exit, Fault};
use model::id::JobId;
use model::locator::Place;
use model::spec::{self, Options};
use model::{HostPort, Locator, RelPath, v1};
use wire::frame::{Direction, Open};
use wire::receiver::Target;
use wire::sender::Progress;

use crate::args::Cp;
use crate::failure::Failure;
use crate::local::{self, LocalTarget};
use crate::patience::Patience;
use crate::printer::Printer;
use crate::progress::Display;
use crate::receipt::{self, Context};
use crate::settings::{Settings, random};
use crate::verdict;

/// Streams where the user does not say.
fn default_streams() -> u32 {
    sys::limits::processors().clamp(2, 8) as u32
}

/// What is copied where.
enum Plan {
    Push { at: HostPort, sources: Vec<Locator>, target: Place },
    Pull { at: HostPort, sources: Vec<Place>, target: Locator },
}

/// Runs the command.
pub fn run(cp: &Cp, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let mut locators = cp.locators.iter().map(|text| Locator::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let target = locators.pop().ok_or_else(|| Failure::usage("say what to copy, then where to"))?;
    let into = target.into_dir() || locators.len() > 1;
    check_pipes(&locators, &target)?;
    check_checksum_none(cp, &locators, &target)?;
    if target == Locator::Pipe && printer.is_json() {
        return Err(Failure::usage(
            "--json and - both want standard output; write the receipt to a file with --receipt",
        ));
    }
    check_receipt(cp)?;
    let cancel = interruptible()?;
    if locators.iter().all(is_here) && target == Locator::Pipe {
        return Err(Failure::usage("from here to standard output is what `cat` does"));
    }
    if locators.iter().all(is_here) && is_here(&target) {
        return within(cp, settings, printer, &locators, &target, into, &cancel);
    }
    let plan = plan(&locators, &target)?;
    let job = Job { cp, settings, printer, into, cancel: &cancel, sources: &locators, target: &target, own: None };
    job.run(&plan)
}

fn is_here(locator: &Locator) -> bool {
    matches!(locator, Locator::Local(_) | Locator::Zero(_) | Locator::Pipe | Locator::Null)
}

fn not_built(what: &str) -> Failure {
    Failure::usage(format!("{what} cannot be copied from or to by this version"))
}

fn plan(sources: &[Locator], target: &Locator) -> Result<Plan, Failure> {
    for locator in sources.iter().chain([target]) {
        match locator {
            Locator::Ssh { .. } => {
                let hint = "it reads as HOST:PATH over ssh; a node is lh://HOST/…, a local name with a colon ./NAME";
                return Err(not_built(&format!("{locator} ({hint})")));
            }
            Locator::Foreign { scheme, .. } => return Err(not_built(&format!("{scheme}://"))),
            _ => {}
        }
    }
    match target {
        Locator::Node { at, place, .. } => {
            if sources.iter().any(|s| !is_here(s)) {
                let way = "run it on one of the two nodes' hosts, or copy here first";
                return Err(Failure::usage(format!("this version does not copy from node to node; {way}")));
            }
            Ok(Plan::Push { at: at.clone(), sources: sources.to_vec(), target: place.clone() })
        }
        here => {
            let nodes: Vec<(&HostPort, &Place)> = sources
                .iter()
                .filter_map(|s| match s {
                    Locator::Node { at, place, .. } => Some((at, place)),
                    _ => None,
                })
                .collect();
            match nodes.first() {
                Some((at, _)) if nodes.len() == sources.len() && nodes.iter().all(|(other, _)| other == at) => {
                    let places = nodes.iter().map(|(_, place)| (*place).clone()).collect();
                    Ok(Plan::Pull { at: (*at).clone(), sources: places, target: here.clone() })
                }
                _ => Err(Failure::usage("the sources of one copy must all be here, or all on one node")),
            }
        }
    }
}

fn check_pipes(sources: &[Locator], target: &Locator) -> Result<(), Failure> {
    if sources.contains(&Locator::Pipe) && sources.len() > 1 {
        return Err(Failure::usage("- (standard input) is copied alone"));
    }
    if *target == Locator::Pipe && sources.len() > 1 {
        return Err(Failure::usage("- (standard output) takes one file"));
    }
    Ok(())
}

fn check_checksum_none(cp: &Cp, sources: &[Locator], target: &Locator) -> Result<(), Failure> {
    let memory = |l: &Locator| match l {
        Locator::Null | Locator::Zero(_) => true,
        Locator::Node { place, .. } => matches!(place, Place::Null | Place::Zero(_)),
        _ => false,
    };
    if cp.checksum.0.is_empty() && !memory(target) && !sources.iter().all(memory) {
        return Err(Failure::usage("--checksum none is for null: and zero: only; data that is kept is verified"));
    }
    Ok(())
}

/// A receipt that cannot be written is better known before the data is moved than after.
fn check_receipt(cp: &Cp) -> Result<(), Failure> {
    let Some(file) = &cp.receipt else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
    opened.map(drop).map_err(|e| Failure::usage(format!("cannot write the receipt to {}: {e}", file.display())))
}

/// Ctrl-C once ends the job in good order, twice at once.
fn interruptible() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&cancel))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&cancel)))
            .map_err(|e| Failure::local(format!("cannot hear signals: {e}")))?;
    }
    Ok(cancel)
}

/// From here to here: by a node of our own that lives as long as the job, so that a local copy is verified, resumed
/// and reported like any other.
fn within(
    cp: &Cp,
    settings: &Settings,
    printer: &Printer,
    sources: &[Locator],
    target: &Locator,
    into: bool,
    cancel: &AtomicBool,
) -> Result<Exit, Failure> {
    let there = local::target(target)?;
    let state = settings.state()?;
    // Others on this host can reach the port as well: only who holds this key, which never leaves the process, gets in.
    let (key_id, secret) = (random()?, random()?);
    let own = AccessKey::new(key_id, secret, state.fingerprint()?);
    let grant = Grant::new(key_id, &secret, "here".into(), &RelPath::root(), Rights::Write, i64::MAX);
    let config = NodeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        exports: there.root.into_iter().map(|dir| Export { name: "here".into(), dir, writable: true }).collect(),
        anonymous: None,
        grants: Grants { list: vec![grant] },
        plain: true,
        state,
        timeouts: Timeouts::default(),
    };
    let node = Node::bind(config)?;
    let address = node.address().map_err(door::NodeError::Host)?;
    let at = HostPort { host: address.ip().to_string(), port: address.port() };
    let place = match target {
        Locator::Null => Place::Null,
        _ => Place::Path { export: "here".into(), path: there.path },
    };
    let plan = Plan::Push { at, sources: sources.to_vec(), target: place };
    let job = Job { cp, settings, printer, into, cancel, sources, target, own: Some(own) };
    std::thread::scope(|scope| {
        let stopper = node.stopper();
        scope.spawn(|| node.run());
        let result = job.run(&plan);
        stopper.stop();
        // An interrupted job's unfinished files are removed by the node's side, which must not end with this process.
        node.wait_idle(Timeouts::default().handshake);
        result
    })
}

struct Job<'a> {
    cp: &'a Cp,
    settings: &'a Settings,
    printer: &'a Printer,
    into: bool,
    cancel: &'a AtomicBool,
    sources: &'a [Locator],
    target: &'a Locator,
    /// The node is this process's own, and this is its only key.
    own: Option<AccessKey>,
}

/// What one attempt brought.
struct Attempt {
    report: Report,
    connected: Duration,
    versions: v1::Versions,
}

impl Attempt {
    /// An attempt that failed before it began.
    fn failed(error: engine::Error) -> Attempt {
        let report = Report { error: Some(error), ..Report::default() };
        Attempt { report, connected: Duration::ZERO, versions: v1::Versions::default() }
    }
}

impl Job<'_> {
    fn run(&self, plan: &Plan) -> Result<Exit, Failure> {
        let started = Instant::now();
        let id = JobId::random();
        let mut display = Display::new(self.printer);
        let mut patience = Patience::new(self.cp.retry_for);
        let mut total: Option<Attempt> = None;
        loop {
            let attempt = self.attempt(plan, id, total.is_some(), &mut |progress: &Progress| {
                patience.saw(progress);
                display.update(progress);
            });
            let attempt = match attempt {
                Ok(attempt) => attempt,
                // The first contact fails at once: nobody is helped by waiting for a mistyped name.
                Err(failure) if total.is_none() => {
                    display.finish();
                    return Err(failure);
                }
                Err(Failure { fault, message, .. }) => Attempt::failed(engine::Error::Later { fault, message }),
            };
            let mut merged = merge(total.take(), attempt);
            // A pipe cannot be read or written a second time.
            let again = merged.report.error.as_ref().filter(|e| e.fault() == Fault::Path && !self.is_piped());
            if let (Some(error), Some(pause)) = (again, patience.next().filter(|_| again.is_some())) {
                Printer::note(&format!("{error}; trying again in {:.0} s", pause.as_secs_f64()));
                if Patience::wait(pause, self.cancel) {
                    total = Some(merged);
                    continue;
                }
                merged.report.error = Some(engine::Error::Interrupted);
            }
            display.finish();
            return self.conclude(plan, id, started, &merged);
        }
    }

    fn is_piped(&self) -> bool {
        self.sources.contains(&Locator::Pipe) || *self.target == Locator::Pipe
    }

    fn options(&self, again: bool) -> Options {
        let sync = spec::Sync::from(self.cp.sync);
        Options {
            recursive: self.cp.recursive,
            into: self.into,
            // What this job itself put in place need not go again; what only looks like it must.
            sync: if again && sync == spec::Sync::None { spec::Sync::Digest } else { sync },
            no_overwrite: self.cp.no_overwrite,
            durable: self.cp.durable,
            checksums: self.cp.checksum.0.clone(),
        }
    }

    fn streams(&self) -> u32 {
        if self.is_piped() { 1 } else { self.cp.streams.unwrap_or_else(default_streams) }
    }

    fn attempt(
        &self,
        plan: &Plan,
        id: JobId,
        again: bool,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Attempt, Failure> {
        let streams = self.streams();
        let timeouts = Timeouts::default();
        let (at, direction, places) = match plan {
            Plan::Push { at, target, .. } => (at, Direction::Push, vec![target.clone()]),
            Plan::Pull { at, sources, .. } => (at, Direction::Pull, sources.clone()),
        };
        // What is wrong here is found before anybody is called.
        let roots = match plan {
            Plan::Push { sources, .. } => sources.iter().map(local::source).collect::<Result<Vec<_>, _>>()?,
            Plan::Pull { .. } => Vec::new(),
        };
        distinct_names(&roots).map_err(|refusal| Failure::usage(refusal.reason))?;
        let here = match plan {
            Plan::Pull { target, .. } => Some(local::target(target)?),
            Plan::Push { .. } => None,
        };
        let limit = self.cp.limit.map_or(0, |rate| rate.0);
        let order = Open {
            job: *id.0.as_bytes(),
            direction,
            places,
            options: self.options(again),
            congestion: self.cp.congestion.clone(),
            limit_bit_s: if direction == Direction::Pull { limit.div_ceil(u64::from(streams)) } else { limit },
        };
        let tag = random_tag().map_err(|_| Failure::local("the system gives no random numbers"))?;
        let mut session = match &self.own {
            Some(key) => self.settings.connect_own(at, key, timeouts)?,
            None => self.settings.connect(at, self.cp.plain, timeouts)?,
        };
        let report = match here {
            None => session.push(order, roots, streams, watch, self.cancel),
            Some(here) => {
                let receiving = |waker| self.receiving(here, &order.options, tag, waker);
                session.pull(order.clone(), streams, receiving, watch, self.cancel)
            }
        };
        let versions = v1::Versions {
            client: SOFTWARE.into(),
            node: session.node_software().to_owned(),
            protocol: session.version().0,
        };
        let connected = session.connected_after();
        session.close();
        Ok(Attempt { report, connected, versions })
    }

    fn receiving(&self, here: LocalTarget, options: &Options, tag: String, waker: sys::waker::Waker) -> Arc<Receiving> {
        let leftovers = here.root.as_ref().and_then(|root| {
            let state = self.settings.state().ok()?;
            Leftovers::sweep(state.path());
            Leftovers::begin(state.path(), root, &tag).ok()
        });
        let opening: Box<dyn Fn(&model::RelPath) + Send + Sync> = match leftovers {
            Some(leftovers) => Box::new(move |dir| leftovers.opening(dir)),
            None => Box::new(|_| {}),
        };
        let is_dir = here.store.is_dir(&here.path);
        let target = Target { path: here.path, into: options.into, is_dir };
        let policy = Policy { options: options.clone(), may_replace: Ok(()), tag };
        Receiving::new(here.store, target, policy, waker, opening)
    }

    fn conclude(&self, plan: &Plan, id: JobId, started: Instant, done: &Attempt) -> Result<Exit, Failure> {
        let pushing = matches!(plan, Plan::Push { .. });
        let context = Context {
            job: id.to_string(),
            source: self.sources.iter().map(ToString::to_string).collect(),
            target: self.target.to_string(),
            checksums: self.cp.checksum.0.clone(),
            seconds: started.elapsed().as_secs_f64(),
            connect_s: done.connected.as_secs_f64(),
            limited_by: verdict::of(&done.report, pushing, self.cp.limit.is_some()),
            versions: done.versions.clone(),
        };
        let receipt = receipt::build(&done.report, context);
        if let Some(file) = &self.cp.receipt {
            let text = serde_json::to_string_pretty(&receipt).unwrap_or_default();
            let written = std::fs::write(file, text + "\n");
            written.map_err(|e| Failure::local(format!("cannot write the receipt to {}: {e}", file.display())))?;
        }
        if let (Some(wanted), Some(other)) = (&self.cp.congestion, fallen_back(&receipt, self.cp.congestion.as_deref()))
        {
            Printer::note(&format!("congestion control {wanted} is not to be had there; the streams ran with {other}"));
        }
        if let Some(error) = &receipt.error {
            Printer::note(error);
        } else if receipt.failed > 0 && receipt.files + receipt.links + receipt.skipped == 0 {
            let reason = receipt.failures.first().map_or("nothing arrived", |miss| miss.reason.as_str());
            Printer::note(reason);
        }
        if self.printer.is_json() {
            self.printer.object(&receipt);
        } else if self.printer.is_chatty() && *self.target == Locator::Pipe {
            receipt::lines(&receipt).iter().for_each(|line| Printer::note(line));
        } else if self.printer.is_chatty() {
            receipt::lines(&receipt).iter().for_each(|line| self.printer.line(line));
        }
        Ok(receipt::exit(&done.report))
    }
}

/// The congestion control that a sending stream ran with instead of the one asked for.
fn fallen_back<'a>(receipt: &'a v1::Receipt, wanted: Option<&str>) -> Option<&'a str> {
    let data = receipt.streams.iter().filter(|s| s.id > 0);
    data.map(|s| s.congestion.as_str()).find(|used| wanted.is_some_and(|wanted| wanted != *used))
}

/// Adds an attempt to what the ones before it brought. What those put in place, this one found in place.
fn merge(before: Option<Attempt>, mut now: Attempt) -> Attempt {
    if let Some(Attempt { report, versions, connected }) = before {
        let t = &mut now.report.totals;
        t.skipped = t.skipped.saturating_sub(report.totals.files);
        t.skipped_bytes = t.skipped_bytes.saturating_sub(report.totals.bytes);
        t.files += report.totals.files;
        t.bytes += report.totals.bytes;
        now.report.resent_bytes += report.resent_bytes;
        if now.versions.node.is_empty() {
            now.versions = versions;
            now.connected = connected;
        }
    }
    now
}
