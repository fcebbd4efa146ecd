//! What carries packets between the interfaces of a topology: the seam for another back end.
//!
//! A kernel with netem could do it with pairs of virtual cables, a router's namespace, and `netem` below `tbf` on each
//! way; `scenario` and `topology` say everything that it would need. Only the TUN back end is built.

use std::fs::File;
use std::io;
use std::thread::JoinHandle;

use crate::emulator::{Emulator, Line};
use crate::fabric::Fabric;
use crate::scenario::Event;

/// A back end.
pub trait Wire {
    /// As results name it.
    const NAME: &'static str;

    /// Begins to carry packets between ports, until the line says stop or is dropped.
    fn carry(fabric: Fabric, ports: Vec<File>, events: &[Event]) -> io::Result<(Line, JoinHandle<()>)>;
}

/// In user space, between TUN devices.
pub struct TunWire;

impl Wire for TunWire {
    const NAME: &'static str = "tun";

    fn carry(fabric: Fabric, ports: Vec<File>, events: &[Event]) -> io::Result<(Line, JoinHandle<()>)> {
        let (emulator, line) = Emulator::new(fabric, ports, events)?;
        let thread = std::thread::Builder::new().name("emulator".into()).spawn(move || emulator.run())?;
        Ok((line, thread))
    }
}
