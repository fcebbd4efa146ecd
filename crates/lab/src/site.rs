//! Brings up a site: namespaces, names, devices, addresses, routes, settings, control group.
//!
//! ip(8) from iproute2 sets addresses and routes, in one batch per site.

mod group;
mod names;

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use sys::namespace::Namespaces;

use crate::error::Error;
use crate::scenario::{End, Interface, Profile, Scenario, Site as SiteSettings};

pub use group::Group;

/// The queue of a TUN device, in packets, which the lab reads. The kernel's default of 500 is less than one window: TCP does not see this
/// queue and fills it in one burst.
const DEVICE_QUEUE: u32 = 20_000;

/// Settings of a tuned data transfer node: windows up to 1 GiB, the largest that TCP can scale to; no memory of earlier connections, by which
/// one run would depend on another; no slow start after a pause.
const DTN: [(&str, &str); 5] = [
    ("net.ipv4.tcp_rmem", "4096 131072 1073741824"),
    ("net.ipv4.tcp_wmem", "4096 65536 1073741824"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_mtu_probing", "0"),
];

/// Linux's defaults on a machine with enough memory; without these a site would have the host's settings.
const STOCK: [(&str, &str); 2] =
    [("net.ipv4.tcp_rmem", "4096 131072 6291456"), ("net.ipv4.tcp_wmem", "4096 16384 4194304")];

/// Settings of all sites, against traffic that the lab does not carry.
const QUIET: [(&str, &str); 3] = [
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
];

/// A site that is up.
#[derive(Debug)]
pub struct Site {
    /// As in the scenario.
    pub name: String,
    namespaces: Arc<Namespaces>,
    group: Option<Group>,
}

/// The input of the thread that makes a site.
struct SitePlan<'a> {
    scenario: &'a Scenario,
    number: usize,
    dir: &'a Path,
}

impl Site {
    /// Brings a site up. Returns its devices in the order of its interfaces; the lab reads and writes them.
    ///
    /// # Errors
    /// No permission, or a step that the kernel or ip(8) refuses.
    pub fn up(scenario: &Scenario, number: usize, dir: &Path) -> Result<(Site, Vec<File>), Error> {
        let site = &scenario.sites[number];
        let group = site.cpu_share.map(|share| Group::new(dir, &site.name, share)).transpose()?;
        let plan = SitePlan { scenario, number, dir };
        // A thread in another mount namespace cannot go back; it ends with its work.
        let made = std::thread::scope(|scope| scope.spawn(|| plan.make()).join());
        let bug = |_| Error::site(&site.name, "make it", io::Error::other("the thread that made it failed"));
        let made = made.map_err(bug).flatten();
        if let (Err(_), Some(group)) = (&made, &group) {
            group.remove();
        }
        let (namespaces, ports) = made?;
        Ok((Site { name: site.name.clone(), namespaces: Arc::new(namespaces), group }, ports))
    }

    /// Its namespaces.
    pub fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// Its control group, if it has a share of the processors.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// A command that will run at the site.
    ///
    /// # Errors
    /// The command cannot be prepared (see [`Site::run_at_site`]).
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, Error> {
        let mut command = Command::new(program);
        self.run_at_site(&mut command)?;
        Ok(command)
    }

    /// Makes a command run at the site.
    ///
    /// # Errors
    /// The caller's directory is gone, or the control group cannot be opened.
    pub fn run_at_site(&self, command: &mut Command) -> Result<(), Error> {
        let failed = |source| Error::site(&self.name, "enter it", source);
        let group = self.group.as_ref().map(Group::open_procs).transpose().map_err(failed)?;
        self.namespaces.run_in(command, group).map_err(failed)
    }

    /// Runs `action` on a thread in the site's network: the sockets that it opens stay in that network.
    ///
    /// # Errors
    /// The network cannot be entered.
    pub fn within<T: Send>(&self, action: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let inside = || self.namespaces.enter_network().map(|()| action());
        let done = std::thread::scope(|scope| scope.spawn(inside).join());
        match done {
            Ok(done) => done.map_err(|source| Error::site(&self.name, "enter its network", source)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Makes the kernel give up connections that no process has open any more. Without its network, data that a killed program had in flight
    /// would be retried for many minutes, and its memory counts for the whole machine: half a gigabyte of it, from one stream over 303 ms,
    /// throttles the next test.
    pub fn shorten_orphan_retries(&self) {
        // Where this cannot be set, they end later.
        let _ = self.within(|| set("net.ipv4.tcp_orphan_retries", "1"));
    }

    /// Packets that its devices dropped in either direction: outgoing ones before the lab read them, and incoming ones after the lab wrote them.
    pub fn dropped(&self) -> u64 {
        let table = self.within(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let Ok(Ok(table)) = table else { return 0 };
        table.lines().filter_map(device_drops).sum()
    }
}

/// The drops of a line of /proc/net/dev: `eth0: bytes packets errs drop fifo frame compressed multicast bytes packets
/// errs drop …`.
fn device_drops(line: &str) -> Option<u64> {
    let (name, counters) = line.split_once(':')?;
    if name.trim() == "lo" {
        return None;
    }
    let counters: Vec<u64> = counters.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(counters.get(3)? + counters.get(11)?)
}

impl SitePlan<'_> {
    fn site(&self) -> &SiteSettings {
        &self.scenario.sites[self.number]
    }

    fn make(&self) -> Result<(Namespaces, Vec<File>), Error> {
        let name = &self.site().name;
        let failed = |doing: &'static str| move |source| Error::site(name, doing, source);
        let namespaces = Namespaces::make().map_err(failed("make its namespaces (needs CAP_SYS_ADMIN)"))?;
        sys::namespace::set_host_name(name).map_err(failed("name its host"))?;
        self.mount_names().map_err(failed("give it names"))?;
        // Without the mount, /sys shows the host's devices: a minor fault, in a container that forbids the mount.
        let _ = sys::namespace::mount_sysfs();
        for (setting, value) in QUIET {
            // A kernel without IPv6 has none of these settings.
            let _ = set(setting, value);
        }
        let open = |interface: &Interface| {
            sys::tun::open(&interface.name).map_err(failed("make a TUN device (needs CAP_NET_ADMIN, /dev/net/tun)"))
        };
        let ports: Vec<File> = self.site().interfaces.iter().map(open).collect::<Result<_, _>>()?;
        self.bring_up_devices()?;
        self.apply_settings()?;
        Ok((namespaces, ports))
    }

    fn mount_names(&self) -> io::Result<()> {
        let own = self.dir.join("sites").join(&self.site().name);
        std::fs::create_dir_all(&own)?;
        let mount_file = |name: &str, target: &str, text: String| -> io::Result<()> {
            let file: PathBuf = own.join(name);
            std::fs::write(&file, text)?;
            // Readable whatever the umask: programs of all users look names up.
            std::fs::set_permissions(&file, Permissions::from_mode(0o644))?;
            if Path::new(target).exists() { sys::namespace::bind_mount(&file, Path::new(target)) } else { Ok(()) }
        };
        mount_file("hosts", "/etc/hosts", names::hosts(self.scenario))?;
        // Only /etc/hosts: a resolver of the host would answer with the host's network.
        if let Ok(text) = std::fs::read_to_string("/etc/nsswitch.conf") {
            mount_file("nsswitch.conf", "/etc/nsswitch.conf", names::nsswitch(&text))?;
        }
        // No name server answers at a site, so a name that is not in /etc/hosts fails at once.
        mount_file("resolv.conf", "/etc/resolv.conf", "# a lab's site has no name servers\n".to_owned())
    }

    fn apply_settings(&self) -> Result<(), Error> {
        let site = self.site();
        let limits = match site.profile {
            Profile::Dtn => &DTN[..],
            Profile::Stock => &STOCK[..],
        };
        for (name, value) in limits {
            set(name, value).map_err(|source| Error::setting(&site.name, name, value, source))?;
        }
        for (name, value) in &site.sysctl {
            set(name, value).map_err(|source| Error::setting(&site.name, name, value, source))?;
        }
        Ok(())
    }

    /// Brings the devices up, with addresses and routes.
    fn bring_up_devices(&self) -> Result<(), Error> {
        self.ip("-4", &self.batch(true))?;
        // Where the kernel has no IPv6, sites have none.
        if Path::new("/proc/sys/net/ipv6").exists() { self.ip("-6", &self.batch(false)) } else { Ok(()) }
    }

    fn ip(&self, family: &str, batch: &str) -> Result<(), Error> {
        let name = &self.site().name;
        let failed = |source| Error::site(name, "run ip (is iproute2 installed?)", source);
        let mut ip = Command::new("ip");
        ip.args([family, "-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut ip = ip.spawn().map_err(failed)?;
        if let Some(mut input) = ip.stdin.take() {
            input.write_all(batch.as_bytes()).map_err(failed)?;
        }
        let output = ip.wait_with_output().map_err(failed)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            return Err(Error::site(name, "give it addresses and routes", io::Error::other(format!("ip: {stderr}"))));
        }
        Ok(())
    }

    /// The commands for ip(8), of one family. Those for links are among the IPv4 ones.
    fn batch(&self, is_v4: bool) -> String {
        let mut lines = Vec::new();
        if is_v4 {
            lines.push("link set lo up".to_owned());
            lines.extend(self.site().interfaces.iter().flat_map(|interface| {
                let (device, mtu) = (&interface.name, interface.mtu);
                [format!("link set {device} mtu {mtu} txqueuelen {DEVICE_QUEUE}"), format!("link set {device} up")]
            }));
        }
        for (number, interface) in self.site().interfaces.iter().enumerate() {
            let Some(address) = address(interface, is_v4) else { continue };
            let device = &interface.name;
            let length = if is_v4 { 32 } else { 128 };
            // An IPv6 address may not be ready at once to be a route's source; with one address per interface the kernel chooses it by itself.
            let source = if is_v4 { format!(" src {address}") } else { String::new() };
            let at_once = if is_v4 { "" } else { " nodad" };
            lines.push(format!("addr add {address}/{length} dev {device}{at_once}"));
            match number {
                0 => lines.push(format!("route add default dev {device}{source}")),
                // Packets from this interface's address leave by this interface.
                _ => {
                    let table = 100 + number;
                    lines.push(format!("rule add from {address}/{length} table {table}"));
                    lines.push(format!("route add default dev {device}{source} table {table}"));
                }
            }
        }
        lines.extend(self.direct_routes(is_v4));
        lines.join("\n") + "\n"
    }

    /// Routes over a further interface to the interfaces that it has a path to, unless an earlier interface has a path there as well.
    fn direct_routes(&self, is_v4: bool) -> Vec<String> {
        let ends = self.scenario.paths.iter().flat_map(|path| [path.ends, [path.ends[1], path.ends[0]]]);
        let own: Vec<_> = ends.filter(|[near, _]| near.site == self.number).collect();
        let is_first = |[near, far]: &[End; 2]| {
            let earlier = |other: &[End; 2]| other[1] == *far && other[0].interface < near.interface;
            near.interface > 0 && !own.iter().any(earlier)
        };
        let own = own.iter().filter(|ends| is_first(ends));
        let routes = own.filter_map(|ends| {
            let [near, far] = ends.map(|end| self.scenario.interface(end));
            let (from, to) = (address(near, is_v4)?, address(far, is_v4)?);
            let source = if is_v4 { format!(" src {from}") } else { String::new() };
            Some(format!("route add {to} dev {}{source}", near.name))
        });
        routes.collect()
    }
}

/// The address of an interface, of one family.
fn address(interface: &Interface, is_v4: bool) -> Option<IpAddr> {
    if is_v4 {
        interface.v4.map(|(address, _)| address.into())
    } else {
        interface.v6.map(|(address, _)| address.into())
    }
}

/// Checks whether this machine can have labs.
///
/// # Errors
/// The missing part, and the remedy.
pub fn check_prerequisites() -> Result<(), Error> {
    let attempt = || -> Result<(), (&'static str, io::Error)> {
        Namespaces::make().map_err(|error| ("namespaces cannot be made (run it as root)", error))?;
        sys::tun::open("try")
            .map_err(|error| ("TUN devices cannot be made (root, and the kernel's module tun)", error))?;
        Ok(())
    };
    let tried = std::thread::scope(|scope| scope.spawn(attempt).join());
    match tried {
        Ok(Ok(())) => {}
        Ok(Err((what, error))) => return Err(Error::Unable(format!("{what}: {error}"))),
        Err(_) => return Err(Error::Unable("the attempt failed".to_owned())),
    }
    let ip = Command::new("ip").arg("-Version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ip.map(drop).map_err(|error| Error::Unable(format!("ip cannot be run (install iproute2): {error}")))
}

/// Sets a value of this thread's network, by its dotted name.
fn set(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(Path::new("/proc/sys").join(name.replace('.', "/")), value)
}
