//! Scenarios that `make bench-plan` computes: the high-luminosity LHC at full scale, questions about replicas and selfish sites, what
//! prediction is worth; and the cells of `make bench-plan-lab`, where the simulator is compared with real transfers.

pub mod cells;
pub mod hl_lhc;
pub mod lab_run;
pub mod prediction;
pub mod questions;
