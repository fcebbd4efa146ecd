//! Networks that do not exist yet: from a scenario to link loads, cost, resilience and simulated transfers; and a catalogue of sites.
//!
//! Every calculator returns figures ([`model::figure::Figure`]): numbers with formula, inputs and source. The simulator steps the code that runs for
//! real; see [`simulate`](simulate()).
//!
//! Rates are in bit/s unless a name says otherwise. What this crate does not know: files, sockets, clocks, threads. Everything is a function of its arguments.
//!
//! ```
//! use plan::{loads, network::Network, routes::Avoid};
//!
//! let scenario = scenario::Scenario::read(
//!     "[site.perth]\n[site.singapore]\n[site.london]\n\
//!      [path.perth-singapore]\ndistance = \"4600km\"\nrate = \"100Gbit/s\"\n\
//!      [path.singapore-london]\nrtt = \"160ms\"\nrate = \"100Gbit/s\"\n\
//!      [flow.raw]\nfrom = \"perth\"\nto = [\"singapore\", \"london\"]\nrate = \"20Gbit/s\"\n",
//! )?;
//! let network = Network::new(&scenario, None);
//! let loads = loads::loads(&scenario, &network, &loads::FlowChoice::stated(None), &Avoid::default());
//! assert_eq!(loads.links[0].load_bit_s, 40e9, "perth to singapore carries both");
//! # Ok::<(), scenario::Problem>(())
//! ```

pub mod cache;
pub mod catalogue;
pub mod cost;
pub mod demand;
pub mod forwarding;
pub mod lightpaths;
pub mod loads;
pub mod network;
pub mod optics;
pub mod overlay;
pub mod replication;
pub mod resilience;
pub mod routes;
pub mod simgrid;
mod simulate;
pub mod storage;

pub use simulate::{
    CoursePoint, Outcome, PathTerms, ResourceOutcome, SharedResource, SimulationProgress, WorkOutcome,
    equilibrium_loss, simulate,
};
