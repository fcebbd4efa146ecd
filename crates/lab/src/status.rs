//! A lab's numbers in public JSON.

use std::net::IpAddr;

use model::v1;

use crate::error::Error;
use crate::lab::Lab;
use crate::reading::{LinkReading, Reading};
use crate::scenario::Interface;
use crate::topology::{Owner, PlannedLink};

impl Lab {
    /// Its numbers as public JSON.
    ///
    /// # Errors
    /// The emulator has ended.
    pub fn status(&self) -> Result<v1::Lab, Error> {
        Ok(of(self, &self.reading()?))
    }
}

/// The numbers of a lab at a reading.
fn of(lab: &Lab, reading: &Reading) -> v1::Lab {
    let links = lab.topology().links.iter().zip(&reading.links);
    v1::Lab {
        v: 1,
        event: "lab".into(),
        lab: lab.name().to_owned(),
        back_end: crate::BACK_END.into(),
        pid: std::process::id(),
        seconds: reading.at.as_secs_f64(),
        emulator_limited: lab.limited(reading),
        emulator: emulator(reading),
        sites: lab
            .sites()
            .iter()
            .zip(&lab.scenario().sites)
            .map(|(site, words)| v1::LabSite {
                site: site.name.clone(),
                addresses: words.interfaces.iter().flat_map(addresses).map(|address| address.to_string()).collect(),
                namespaces: site.namespaces().descriptors(),
                group: site.group().map(|group| group.path().display().to_string()),
            })
            .collect(),
        links: links.map(|(planned, reading)| link(lab, planned, reading)).collect(),
    }
}

fn addresses(interface: &Interface) -> impl Iterator<Item = IpAddr> {
    let v4 = interface.v4.map(|(address, _)| IpAddr::from(address));
    let v6 = interface.v6.map(|(address, _)| IpAddr::from(address));
    [v4, v6].into_iter().flatten()
}

fn emulator(reading: &Reading) -> v1::LabEmulator {
    v1::LabEmulator {
        cpu_s: reading.cpu.as_secs_f64(),
        memory_bytes: reading.memory,
        memory_peak_bytes: reading.memory_peak,
        real_time: reading.has_real_time_priority,
        no_memory: reading.refused.no_memory,
        not_written: reading.not_written,
        device_dropped: reading.not_read,
        unroutable: reading.refused.unroutable,
        expired: reading.refused.expired,
        too_big: reading.refused.too_big,
        firewalled: reading.refused.firewalled,
    }
}

fn link(lab: &Lab, planned: &PlannedLink, reading: &LinkReading) -> v1::LabLink {
    let scenario = lab.scenario();
    let (kind, name, from, to, member) = match planned.owner {
        Owner::Path { path, direction, member } => {
            let scenario_path = &scenario.paths[path];
            let end = |end: usize| scenario.sites[scenario_path.ends[end].site].name.clone();
            let several = scenario_path.directions[direction].members.len() > 1;
            let member = several.then_some(member as u32 + 1);
            ("path", scenario_path.name.clone(), end(direction), end(1 - direction), member)
        }
        Owner::Uplink { site, direction } => {
            let name = scenario.sites[site].name.clone();
            let (from, to) = if direction == 0 { (name.as_str(), "network") } else { ("network", name.as_str()) };
            let (from, to) = (from.to_owned(), to.to_owned());
            ("uplink", name, from, to, None)
        }
    };
    let counts = &reading.counts;
    v1::LabLink {
        name,
        kind: kind.into(),
        from,
        to,
        member,
        delay_s: reading.settings.delay.as_secs_f64(),
        rate_bit_s: reading.settings.rate.map(|rate| rate.0),
        is_down: reading.settings.down,
        segments: counts.segments,
        bytes: counts.bytes,
        out_segments: counts.out_segments,
        out_bytes: counts.out_bytes,
        queue_dropped: counts.queue_dropped,
        policed: counts.policed,
        lost: counts.lost,
        down: counts.down,
        black_hole: counts.black_hole,
        duplicated: counts.duplicated,
        reordered: counts.reordered,
        corrupted: counts.corrupted,
        corrupted_silently: counts.corrupted_silently,
        cross_bytes: counts.cross_bytes,
        queue_bytes: reading.backlog,
        queue_peak_bytes: counts.queue_peak,
        late_p99_s: reading.lateness.quantile(0.99).as_secs_f64(),
        late_max_s: reading.lateness.max().as_secs_f64(),
    }
}
