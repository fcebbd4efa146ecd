//! The subjects of rules besides the host as a whole: its NICs and the disks that hold data.

mod disk;

use std::path::Path;

use crate::host::Host;

pub use disk::disk_of;

/// A NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Its speed; none where the kernel does not report one (virtual NICs, links that are down).
    pub speed_bit_s: Option<u64>,
    /// Its MTU.
    pub mtu_bytes: Option<u32>,
}

/// The subjects of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subjects {
    /// NICs.
    pub nics: Vec<Nic>,
    /// Whether the user named the NICs: then all of them are for the data.
    pub are_named: bool,
    /// Disks, by their names in `/sys/block`.
    pub disks: Vec<String>,
}

/// The subject of one finding.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The host; with its fastest NIC, for rules that depend on a speed.
    Host(Option<&'a Nic>),
    /// A NIC.
    Nic(&'a Nic),
    /// A disk.
    Disk(&'a str),
}

impl<'a> Subject<'a> {
    /// Its name; none for the host.
    pub fn name(self) -> Option<String> {
        match self {
            Subject::Host(_) => None,
            Subject::Nic(nic) => Some(nic.name.clone()),
            Subject::Disk(disk) => Some(disk.to_owned()),
        }
    }

    /// The NIC's name, if it is one.
    pub fn nic_name(self) -> Option<&'a str> {
        match self {
            Subject::Nic(nic) => Some(&nic.name),
            _ => None,
        }
    }

    /// The NIC, if it is one.
    pub fn as_nic(self) -> Option<&'a Nic> {
        match self {
            Subject::Nic(nic) => Some(nic),
            _ => None,
        }
    }

    /// The disk's name, if it is one.
    pub fn disk_name(self) -> Option<&'a str> {
        match self {
            Subject::Disk(disk) => Some(disk),
            _ => None,
        }
    }

    /// The speed that rules use.
    pub fn speed(self) -> Option<u64> {
        match self {
            Subject::Host(nic) => nic?.speed_bit_s,
            Subject::Nic(nic) => nic.speed_bit_s,
            Subject::Disk(_) => None,
        }
    }

    /// The MTU that rules use.
    pub fn mtu(self) -> Option<u32> {
        match self {
            Subject::Host(nic) => nic?.mtu_bytes,
            Subject::Nic(nic) => nic.mtu_bytes,
            Subject::Disk(_) => None,
        }
    }

    /// A name or command with its placeholders filled in.
    pub fn fill(self, text: &str) -> String {
        text.replace("{nic}", self.nic_name().unwrap_or("{nic}"))
            .replace("{disk}", self.disk_name().unwrap_or("{disk}"))
    }
}

impl Subjects {
    /// Finds the NICs that carry data: those in `nics`; if it is empty, those that are up and have a device; if there is none, as in a
    /// container, all that are up except loopback.
    pub fn find(host: &dyn Host, nics: &[String], disks: Vec<String>) -> Subjects {
        let base = Path::new("/sys/class/net");
        let all = host.list(base).unwrap_or_default();
        let state = |name: &str, what: &str| host.read(&base.join(name).join(what)).unwrap_or_default();
        let is_up = |name: &&String| *name != "lo" && state(name, "operstate") != "down" && state(name, "type") == "1";
        let has_device = |name: &&String| host.list(&base.join(name).join("device")).is_ok();
        let chosen: Vec<&String> = match nics {
            [] => {
                let real: Vec<&String> = all.iter().filter(is_up).filter(has_device).collect();
                if real.is_empty() { all.iter().filter(is_up).collect() } else { real }
            }
            named => named.iter().collect(),
        };
        let nic = |name: &String| Nic {
            name: name.clone(),
            speed_bit_s: speed_bit_s(&state(name, "speed")),
            mtu_bytes: state(name, "mtu").parse().ok(),
        };
        Subjects { nics: chosen.into_iter().map(nic).collect(), are_named: !nics.is_empty(), disks }
    }

    /// Whether a NIC is for the data: named by the user, or the fastest. One for management is not.
    pub fn carries_data(&self, nic: &Nic) -> bool {
        self.are_named || self.nics.iter().all(|other| other.speed_bit_s <= nic.speed_bit_s)
    }

    /// The NIC that rules of the whole host use.
    pub fn fastest(&self) -> Option<&Nic> {
        self.nics.iter().max_by_key(|nic| nic.speed_bit_s)
    }
}

/// The fastest possible link, Mbit/s: 10 Tbit/s. A larger number is a negative one that wrapped.
const SPEED_MBIT_S_MAX: u64 = 10_000_000;

/// The speed of a link from its file in Mbit/s; none where the kernel does not know it, which it writes as -1.
pub(crate) fn speed_bit_s(mbit_s: &str) -> Option<u64> {
    let mbit_s = mbit_s.parse::<u64>().ok().filter(|mbit_s| (1..=SPEED_MBIT_S_MAX).contains(mbit_s));
    mbit_s.map(|mbit_s| mbit_s * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Recorded;

    #[test]
    fn nics_that_carry_data_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let nic = |name: &str, up: &str, speed: &str, real: bool| {
            let at = dir.path().join("sys/class/net").join(name);
            std::fs::create_dir_all(&at).unwrap();
            for (what, text) in [("operstate", up), ("speed", speed), ("mtu", "9000"), ("type", "1")] {
                std::fs::write(at.join(what), format!("{text}\n")).unwrap();
            }
            if real {
                std::fs::create_dir(at.join("device")).unwrap();
            }
        };
        let host = Recorded::new(dir.path());
        nic("veth0", "up", "10000", false);
        let names = |subjects: &Subjects| subjects.nics.iter().map(|nic| nic.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&Subjects::find(&host, &[], Vec::new())), ["veth0"], "a container has nothing else");
        nic("ens1", "up", "100000", true);
        nic("ens2", "down", "-1", true);
        nic("ens3", "up", "-1", true);
        let found = Subjects::find(&host, &[], Vec::new());
        assert_eq!(names(&found), ["ens1", "ens3"]);
        assert_eq!(found.nics[0].speed_bit_s, Some(100_000_000_000));
        assert_eq!((found.nics[1].speed_bit_s, found.nics[1].mtu_bytes), (None, Some(9_000)), "-1 is not a speed");
        assert_eq!(found.fastest().map(|nic| nic.name.as_str()), Some("ens1"));
        for absurd in ["9223372036854775807\n", "4294967295\n", "0\n"] {
            std::fs::write(dir.path().join("sys/class/net/ens2/speed"), absurd).unwrap();
            assert_eq!(Subjects::find(&host, &["ens2".into()], Vec::new()).nics[0].speed_bit_s, None, "{absurd}");
        }
        assert!(found.carries_data(&found.nics[0]) && !found.carries_data(&found.nics[1]));
        let named = Subjects::find(&host, &["ens1".into(), "ens3".into()], Vec::new());
        assert!(named.nics.iter().all(|nic| named.carries_data(nic)));
        assert_eq!(names(&Subjects::find(&host, &["veth0".into()], Vec::new())), ["veth0"], "named by the user");
    }
}
