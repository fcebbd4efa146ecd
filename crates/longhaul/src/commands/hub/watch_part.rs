//! The watch in a hub: it is opened before the hub starts, runs beside it, and is reloaded with it.

use std::path::Path;
use std::sync::Arc;

use hub::api::ApiPart;
use hub::measurements::{MeasuredPath, Measurements};
use hub::run::HubConfig;
use model::fault::Fault;
use tokio::runtime::Runtime;
use tokio::sync::watch::Receiver;
use watch::config::Config;
use watch::run::{OpenWatch, WatchError};
use watch::state::{MeasuredSitePath, Watch, WatchPlan};

use crate::failure::Failure;
use crate::settings::Settings;

fn failed(error: WatchError) -> Failure {
    let fault = if matches!(error, WatchError::Config(_)) { Fault::Config } else { Fault::Local };
    Failure::from_chain(fault, &error)
}

/// Opens the archive of a watch.
///
/// # Errors
/// The file or the archive cannot be read.
pub fn open(runtime: &Runtime, file: &Path, state: &Path, settings: &Settings) -> Result<OpenWatch, Failure> {
    let config = Config::read(file).map_err(|error| Failure::usage(error.to_string()))?;
    runtime.block_on(watch::run::open(config, state, settings.authorities())).map_err(failed)
}

/// Adds a watch to the configuration of the hub in the same process: the watch's part of the API, and its measurements, which the
/// hub's plans use.
pub fn with_watch(config: HubConfig, opened: &OpenWatch) -> HubConfig {
    let part = ApiPart { prefix: watch::api::PREFIX, router: watch::api::router(opened.watch()) };
    HubConfig { parts: vec![part], measurements: Some(measurements(opened)), ..config }
}

/// The measurements of the watch between sites.
fn measurements(opened: &OpenWatch) -> Measurements {
    let watch = opened.watch();
    let path = |path: MeasuredSitePath| MeasuredPath {
        from: path.from,
        to: path.to,
        rtt_s: path.rtt_s,
        loss: path.loss,
        rate_bit_s: path.rate_bit_s,
    };
    Arc::new(move || watch.measured_paths().into_iter().map(path).collect())
}

/// Runs the watch until the hub stops.
pub fn start(runtime: &Runtime, opened: OpenWatch, stop: Receiver<bool>) -> Arc<Watch> {
    let watch = opened.watch();
    runtime.spawn(async move {
        if let Err(error) = opened.run(stop).await {
            tracing::error!(%error, "the watch has ended: nothing is measured any more");
        }
    });
    watch
}

/// Reloads the configuration of the watch.
pub fn reload(watch: &Watch, file: &Path) {
    match Config::read(file).and_then(WatchPlan::of) {
        Ok(plan) => {
            watch.replace(plan);
            tracing::info!(file = %file.display(), "the configuration of the watch was read again");
        }
        Err(error) => tracing::error!(%error, "the new settings are refused; the former ones stay in force"),
    }
}
