//! `longhaul cp`: makes a job of locators and prints its receipt. How the job starts depends on whether each end is local, on a
//! node or reached by ssh; the engine runs it.

mod checks;
pub(super) mod job;
mod legs;
mod loopback;
mod metalink;
mod mirrored;
mod output;
pub(super) mod peer;
mod records;

use std::sync::Arc;

use engine::Error;
use engine::control::{Control, Label};
use engine::filelist::FileList;
use engine::history::History;
use engine::identity::random_tag;
use engine::job::JobEvent;
use engine::journal::{self, Journals};
use engine::leftovers::UnfinishedFileLog;
use engine::receive::{Receiving, TargetPlace};
use engine::scan::{SourceRoot, distinct_names};
use engine::series::Series;
use engine::session::{Report, SessionParts};
use engine::transfer::{Ends, Transfer, TransferEvent};
use model::fault::{Blame, Exit, Fault};
use model::id::{JobId, Uuid};
use model::locator::NodePlace;
use model::spec::Options;
use model::{Expected, Locator, RelPath, v1};
use parking_lot::Mutex;
use report::receipt;
use wire::frame::Removal;

use crate::args::Cp;
use crate::commands::{delegated_transfer, memory_test, third_party};
use crate::failure::Failure;
use crate::job_control::{self, JobSource};
use crate::local::LocalTarget;
use crate::printer::Printer;
use crate::progress::Display;
use crate::remote_stores;
use crate::remote_stores::mirrors::Mirrors;
use crate::settings::Settings;
use crate::ssh::{self, Role};
use job::{CopyJob, is_on_remote_server, is_opened_here};
use peer::Peer;

/// One end of a copy.
enum CopyEnd {
    /// This process opens it.
    Local,
    /// A node opens it, at these places.
    Remote(Peer, Vec<NodePlace>),
}

/// Runs the command.
///
/// # Errors
/// The command line is wrong, an end cannot be opened or reached, or the receipt cannot be written. A copy that fails later is
/// an exit code and a receipt.
pub fn run(cp: &Cp, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    if cp.metalink {
        return metalink::run(cp, settings, printer);
    }
    let mut locators = cp.locators.iter().map(|text| settings.locator(text)).collect::<Result<Vec<_>, _>>()?;
    let node = locators.iter().find_map(Locator::node);
    let cp = &cp.with_defaults(settings.copy_defaults(node));
    let target = locators.pop().ok_or_else(|| Failure::usage("say what to copy, then where to"))?;
    let into_dir = target.into_dir() || locators.len() > 1;
    checks::all(cp, &locators, &target, into_dir, printer.is_json())?;
    engine::filter::Filters::new(&cp.filters).map_err(|refusal| Failure::usage(refusal.reason))?;
    let files = file_list(cp, &locators)?;
    let cancel = checks::cancel_on_signals()?;
    let mirrors = mirrored::open_mirrors(cp, settings, &locators)?;
    let job = CopyJob {
        cp,
        settings,
        printer,
        into_dir,
        cancel,
        sources: &locators,
        target: &target,
        files,
        mirrors,
        remote_stores: Mutex::default(),
        opened: Mutex::default(),
    };
    if job.mirrors.is_some() {
        return mirrored::run(&job);
    }
    if locators.iter().all(|l| is_opened_here(l) && !is_on_remote_server(l)) && target == Locator::Pipe {
        return Err(Failure::usage("from here to standard output is what `cat` does"));
    }
    // Errors in local paths are found before a peer is contacted.
    if locators.iter().all(is_opened_here) {
        let opened = open_sources(&locators, settings)?;
        distinct_names(&opened).map_err(|refusal| Failure::usage(refusal.reason))?;
        *job.opened.lock() = opened;
        if target == Locator::Pipe {
            return loopback::to_standard_output(&job);
        }
        if is_opened_here(&target) {
            return match third_party::run(&job)? {
                Some(receipt) => job.deliver(&receipt).map(|()| delegated_transfer::exit(&receipt)),
                None => loopback::to_target(&job),
            };
        }
    }
    match (common_end(cp, &locators, Role::Source)?, common_end(cp, std::slice::from_ref(&target), Role::Target)?) {
        (CopyEnd::Local, CopyEnd::Remote(peer, mut places)) => job.push(&peer, places.remove(0)),
        (CopyEnd::Remote(peer, places), CopyEnd::Local) => job.pull(&peer, places),
        (CopyEnd::Remote(from, sources), CopyEnd::Remote(to, mut places)) => {
            if job.files.is_some() {
                return Err(Failure::usage("--files-from is for copies from or to this host, not between two nodes"));
            }
            if cp.series.is_some() {
                return Err(Failure::usage(
                    "--series is for copies from or to this host: between two nodes, only the nodes see the streams",
                ));
            }
            job.delegate(&from, sources, &to, places.remove(0))
        }
        (CopyEnd::Local, CopyEnd::Local) => loopback::to_target(&job),
    }
}

/// The end at which all these locators are. If they are reached by ssh, the far end is started.
fn common_end(cp: &Cp, locators: &[Locator], role: Role) -> Result<CopyEnd, Failure> {
    let not_together = || Failure::usage("the sources of one copy must all be here, or all on one node or host");
    match &locators[0] {
        Locator::Node { at, .. } => {
            let place = |l: &Locator| match l {
                Locator::Node { at: other, place, .. } if other == at => Some(place.clone()),
                _ => None,
            };
            let places = locators.iter().map(place).collect::<Option<Vec<_>>>();
            Ok(CopyEnd::Remote(Peer::Node(at.clone()), places.ok_or_else(not_together)?))
        }
        Locator::Ssh { login, .. } => {
            let path = |l: &Locator| match l {
                Locator::Ssh { login: other, path } if other == login => Some(path.clone()),
                _ => None,
            };
            let paths = locators.iter().map(path).collect::<Option<Vec<_>>>().ok_or_else(not_together)?;
            let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
            let mut far = ssh::start(&cp.ssh, login, role, &paths)?;
            let places = std::mem::take(&mut far.places);
            Ok(CopyEnd::Remote(Peer::Far(far), places))
        }
        _ if locators.iter().all(is_opened_here) => Ok(CopyEnd::Local),
        _ => Err(not_together()),
    }
}

fn open_sources(locators: &[Locator], settings: &Settings) -> Result<Vec<SourceRoot>, Failure> {
    locators.iter().map(|locator| remote_stores::source(locator, settings)).collect()
}

/// The files that `--files-from` names.
fn file_list(cp: &Cp, sources: &[Locator]) -> Result<Option<FileList>, Failure> {
    let Some(file) = &cp.files_from else { return Ok(None) };
    if sources.len() != 1 {
        return Err(Failure::usage("--files-from takes one source: the directory that its paths are below"));
    }
    let name = file.display();
    let text = std::fs::read(file).map_err(|e| Failure::usage(format!("cannot read {name}: {e}")))?;
    let mut list = FileList::default();
    for (number, line) in text.split(|b| *b == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let mut columns = line.splitn(3, |b| *b == b'\t');
        let line_error = |why: String| Failure::usage(format!("{name}, line {}: {why}", number + 1));
        let read = |bytes: &[u8]| RelPath::parse(bytes).map_err(|e| line_error(e.to_string()));
        let from = read(columns.next().unwrap_or_default())?;
        let to = columns.next().map(read).transpose()?.unwrap_or_else(|| from.clone());
        if let Some(text) = columns.next() {
            let digest = String::from_utf8_lossy(text).parse().map_err(line_error)?;
            list.set_expected(to.clone(), Expected { bytes: None, digest: Some(digest) });
        }
        list.add(from, to).map_err(|refusal| line_error(refusal.reason))?;
    }
    list.sorted().map(Some).map_err(|refusal| Failure::usage(format!("{name}: {}", refusal.reason)))
}

/// The job of this process, for `longhaul job`.
struct CopyJobSource(Control);

impl JobSource for CopyJobSource {
    fn list(&self) -> Vec<v1::Transfer> {
        vec![self.0.show()]
    }

    fn change(&self, id: Uuid, change: &v1::Change) -> Result<(), String> {
        if self.0.show().id != id {
            return Err(format!("no job {id} runs here"));
        }
        self.0.change(change);
        Ok(())
    }
}

impl CopyJob<'_> {
    fn control(&self, id: JobId, role: &'static str) -> Control {
        let label = Label { id: id.0, role, source: self.source_names(), target: self.target_name() };
        Control::new(label, self.live_settings(), Arc::clone(&self.cancel))
    }

    /// Opens the sources that this process reads itself.
    fn roots(&self) -> Result<Vec<SourceRoot>, Failure> {
        match &self.mirrors {
            Some(mirrors) => Ok(vec![mirrors.root()]),
            None => {
                // A later attempt opens them anew: they may be other files by then.
                let opened = std::mem::take(&mut *self.opened.lock());
                let roots = if opened.is_empty() { open_sources(self.sources, self.settings)? } else { opened };
                self.sources.iter().zip(&roots).for_each(|(source, root)| self.note_remote_store(source, &root.store));
                Ok(roots)
            }
        }
    }

    fn push(&self, peer: &Peer, target: NodePlace) -> Result<Exit, Failure> {
        let sources = || self.roots().map_err(Error::from);
        self.transfer(peer, Ends::Push { sources: &sources, target })
    }

    fn pull(&self, peer: &Peer, sources: Vec<NodePlace>) -> Result<Exit, Failure> {
        // Errors in local paths are found before a peer is contacted.
        remote_stores::target(self.target, self.settings)?;
        let target = |options: &Options, waker| self.open_target(options, waker).map_err(Error::from);
        self.transfer(peer, Ends::Pull { sources, target: &target })
    }

    fn delegate(&self, from: &Peer, sources: Vec<NodePlace>, to: &Peer, target: NodePlace) -> Result<Exit, Failure> {
        let receipt = delegated_transfer::run(self, from, &sources, to, target)?;
        self.deliver(&receipt)?;
        Ok(delegated_transfer::exit(&receipt))
    }

    fn transfer(&self, peer: &Peer, ends: Ends<'_>) -> Result<Exit, Failure> {
        let id = JobId::random();
        let role = if matches!(ends, Ends::Push { .. }) { "send" } else { "receive" };
        let control = self.control(id, role);
        // A copy also runs without its control socket; `longhaul job` does not find it then.
        let _control_socket = self
            .settings
            .state()
            .ok()
            .and_then(|state| job_control::listen(state.path(), Arc::new(CopyJobSource(control.clone()))).ok());
        let is_retry_useful = |report: &Report| match (&report.error, peer) {
            (None, _) => self.mirrors.as_ref().is_some_and(Mirrors::is_retry_useful),
            (Some(refused), Peer::Node(at)) if refused.fault() == Fault::Auth => self.settings.try_another_key(at),
            (Some(_), _) => false,
        };
        if self.cp.verbose {
            control.report_files();
        }
        let transfer = Transfer {
            keep: None,
            id,
            options: self.options(),
            congestion: self.cp.congestion.clone(),
            session_parts: self.session_parts(id)?,
            ends,
            files: self.files.clone(),
            retry_for: self.cp.retry_for,
            // A pipe cannot be read or written a second time.
            is_piped: self.is_piped(),
            begun: false,
            is_retry_useful: Some(&is_retry_useful),
            control: &control,
        };
        let mut display = Display::new(self.printer, self.is_test());
        let result = transfer.run(&mut || peer.connect(self.settings, self.cp.is_plain()), &mut |event| match event {
            TransferEvent::Job(JobEvent::Progress(progress, file)) => {
                display.print_above(|| self.print_mirror_notes());
                display.set_file(file);
                display.update(progress, &control.waiting_for(), control.eta());
            }
            TransferEvent::Job(JobEvent::File(file)) => display.print_above(|| self.show_file(&file)),
            TransferEvent::Job(JobEvent::Plan(plan)) => display.print_above(|| self.show_step(plan)),
            TransferEvent::Job(JobEvent::Removing(Removal { extras, total })) => display.print_above(|| {
                let extras = receipt::count(extras, "entry");
                Printer::note(&format!("--delete: removing {extras} of {total} at the target that the source lacks"));
            }),
            TransferEvent::Retry(error, pause) => display.print_above(|| {
                let error = peer.without_loopback_address(&error.to_string());
                Printer::note(&format!("{error}; trying again in {:.0} s", pause.as_secs_f64()));
            }),
        });
        let moved = control.show().bytes;
        display.finish(moved);
        self.print_mirror_notes();
        let outcome = result.map_err(|failure| failure.with_locators(&self.ends_in_full()))?;
        let mut receipt = transfer.receipt(&outcome, self.source_names(), self.target_name());
        receipt.error = receipt.error.map(|error| peer.without_loopback_address(&error));
        receipt.carried = self.legs(peer, std::mem::take(&mut receipt.carried));
        receipt.mirrors = self.mirrors.as_ref().map(Mirrors::shares).unwrap_or_default();
        if self.is_test() {
            memory_test::correct_stopped(&mut receipt, moved);
        }
        self.remember(&transfer, &receipt);
        self.deliver(&receipt)?;
        Ok(engine::receipt::exit(&outcome.report))
    }

    /// The history, series and last copy for the session. The number of streams is not among them: `--streams` is a setting of the
    /// job, which can be changed while the job runs.
    fn session_parts(&self, job: JobId) -> Result<SessionParts, Failure> {
        let history = self.settings.state().ok().map(|state| History::new(state.path()));
        let series = match &self.cp.series {
            None => None,
            Some(file) => {
                let failed = |e| Failure::usage(format!("cannot write the series to {}: {e}", file.display()));
                let out = std::fs::File::create(file).map_err(failed)?;
                Some(Series::new(Box::new(out), job.to_string()).map_err(failed)?)
            }
        };
        Ok(SessionParts { series, history, last_copy: self.last_copy(), ..SessionParts::default() })
    }

    /// Opens the target, with its journal and its list of unfinished files.
    fn open_target(&self, options: &Options, waker: sys::waker::Waker) -> Result<Arc<Receiving>, Failure> {
        let tag = random_tag().map_err(|_| Failure::local("the system gives no random numbers"))?;
        let LocalTarget { store, path, root } = remote_stores::target(self.target, self.settings)?;
        self.note_remote_store(self.target, &store);
        let records = root.as_ref().filter(|_| !options.dry_run).and_then(|root| {
            let state = self.settings.state().ok()?;
            UnfinishedFileLog::sweep(state.path());
            journal::sweep(state.path(), journal::KEPT_FOR);
            Some((UnfinishedFileLog::begin(state.path(), root, &tag).ok()?, Journals::new(state.path(), root)))
        });
        let (leftovers, journals) = records.unzip();
        let opening: Box<dyn Fn(&RelPath) + Send + Sync> = match leftovers {
            Some(leftovers) => Box::new(move |dir| leftovers.note_directory(dir)),
            None => Box::new(|_| {}),
        };
        let place = TargetPlace { before_unfinished_file: opening, journals, ..TargetPlace::new(store, path) };
        Ok(place.receive(options.clone(), tag, waker))
    }
}
