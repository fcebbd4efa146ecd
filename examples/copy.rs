//! Copies a file or a tree to a node with the library, and tries again until the copy is complete.
//!
//! `cargo run -p examples --bin copy -- SOURCE lh://HOST:PORT/EXPORT/PATH`, with a key to the node in `LONGHAUL_KEY` if the node
//! requires one. The program `longhaul` also finds keys and known nodes, shows progress, and copies from a node.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use auth::AccessKey;
use engine::control::{Control, Label};
use engine::scan::SourceRoot;
use engine::session::{Connect, Session, SessionParts};
use engine::transfer::{Ends, Transfer, TransferEvent};
use engine::{Timeouts, Trust, identity};
use model::HostPort;
use model::id::JobId;
use model::locator::Locator;
use model::name::RelPath;
use model::spec::{LiveSettings, Options};
use store::posix::{Links, Posix};

/// How long the transfer is tried again without a byte of progress.
const RETRY_FOR: Duration = Duration::from_secs(600);

#[allow(clippy::print_stdout, reason = "a program prints its result")]
fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let source = PathBuf::from(words.next().context("no SOURCE is given")?);
    let target = Locator::parse(&words.next().context("no target is given: lh://HOST:PORT/EXPORT/PATH")?)?;
    let Locator::Node { at, place, .. } = target else { bail!("the target is not on a node") };
    let key = std::env::var("LONGHAUL_KEY").ok().map(|text| text.parse::<AccessKey>()).transpose()?;

    let root = source_root(&source)?;
    let control = Control::new(Label::default(), LiveSettings::default(), Arc::default());
    let transfer = Transfer {
        id: JobId::random(),
        options: Options { recursive: true, ..Options::default() },
        congestion: None,
        session_parts: SessionParts::default(),
        ends: Ends::Push { sources: &|| Ok(vec![root.clone()]), target: place },
        files: None,
        retry_for: RETRY_FOR,
        is_piped: false,
        begun: false,
        is_retry_useful: None,
        control: &control,
        keep: None,
    };
    let outcome = transfer.run(&mut || connect(&at, key.as_slice()), &mut |event| {
        if let TransferEvent::Retry(error, pause) = event {
            println!("{error}; next attempt in {pause:?}");
        }
    })?;
    if let Some(error) = outcome.report.error {
        return Err(error.into());
    }
    let totals = outcome.report.totals;
    println!("{} files, {} bytes, {} not copied", totals.files, totals.bytes, totals.failed);
    Ok(())
}

/// Connects to the node. A key has the fingerprint of its node, so that no other host can pose as the node.
fn connect(at: &HostPort, keys: &[AccessKey]) -> engine::Result<Session> {
    let trust = Trust::Fingerprints(keys.iter().map(|key| key.node).collect());
    let random_error =
        |error| engine::Error::Host { doing: "draw random numbers", source: std::io::Error::other(error) };
    let timeouts = Timeouts::default();
    let session = identity::random().map_err(random_error)?;
    Session::connect(
        at,
        &Connect {
            trust,
            keys,
            plain: false,
            timeouts,
            session,
            guard: None,
            advertised_addresses: Default::default(),
        },
    )
}

/// The source, in a store with its directory as the root: no link leads out of that directory.
fn source_root(source: &Path) -> Result<SourceRoot> {
    let source = source.canonicalize().with_context(|| source.display().to_string())?;
    let parent = source.parent().context("/ has no parent")?;
    let name = source.file_name().context("no file name")?;
    let path = RelPath::parse(name.as_encoded_bytes())?;
    let name = path.name().context("no file name")?;
    Ok(SourceRoot { store: Arc::new(Posix::open(parent, Links::Inside)?), name, path })
}
