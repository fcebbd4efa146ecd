//! The interface for back ends, which carry packets between the interfaces of a topology.
//!
//! A back end on a kernel with netem could use veth pairs, a router's namespace, and `netem` below `tbf` in each direction; `scenario` and
//! `topology` say everything that it would need. Only the TUN back end exists.

use std::fs::File;
use std::io;
use std::thread::JoinHandle;

use crate::emulator::{Emulator, EmulatorHandle};
use crate::fabric::Fabric;
use crate::scenario::Event;

/// A back end.
pub trait Wire {
    /// Its name, for results.
    const NAME: &'static str;

    /// Begins to carry packets between ports, until the handle stops it or is dropped.
    ///
    /// # Errors
    /// The emulator cannot be made.
    fn carry(fabric: Fabric, ports: Vec<File>, events: &[Event]) -> io::Result<(EmulatorHandle, JoinHandle<()>)>;
}

/// The back end in user space, between TUN devices.
pub struct TunWire;

impl Wire for TunWire {
    const NAME: &'static str = "tun";

    fn carry(fabric: Fabric, ports: Vec<File>, events: &[Event]) -> io::Result<(EmulatorHandle, JoinHandle<()>)> {
        let (emulator, handle) = Emulator::new(fabric, ports, events)?;
        let thread = std::thread::Builder::new().name("emulator".into()).spawn(move || emulator.run())?;
        Ok((handle, thread))
    }
}
