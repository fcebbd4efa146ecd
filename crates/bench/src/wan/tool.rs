//! The tools that move the files: the commands of their servers and clients. This module starts and measures nothing.
//!
//! Peers run in clear and anonymously, which is their fastest mode; Longhaul runs with its defaults: sealed, and without options.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cell::{Cell, PROCESSES, Set};
use crate::contestant::{Role, find_program};

/// The kind of the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Longhaul, from file to file.
    Longhaul,
    /// Longhaul, from memory to memory.
    LonghaulMemory,
    /// XRootD's copy.
    Xrdcp,
    /// XRootD's copy with more streams.
    XrdcpTuned,
    /// GridFTP's copy.
    Gridftp,
    /// GridFTP's copy with parallel streams, pipelined commands and concurrent sessions.
    GridftpTuned,
    /// rclone to its own WebDAV server.
    Rclone,
    /// Caltech's FDT.
    Fdt,
    /// iperf3, from memory to memory.
    Iperf3,
    /// Many processes of xrdcp.
    XrdcpMany,
    /// Many processes of globus-url-copy.
    GridftpMany,
}

use Kind::{
    Fdt, Gridftp, GridftpMany, GridftpTuned, Iperf3, Longhaul, LonghaulMemory, Rclone, Xrdcp, XrdcpMany, XrdcpTuned,
};

/// One participant of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tool {
    /// The kind of the tool.
    pub kind: Kind,
    /// Whether BBR is the site's default, so that the tool runs with the algorithm that Longhaul may choose.
    pub is_bbr: bool,
}

/// The programs that tools cannot find by name.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The longhaul binary.
    pub longhaul: PathBuf,
    /// FDT's jar, if there is one.
    pub fdt: Option<PathBuf>,
}

/// The inputs of the commands of one run.
#[derive(Clone, Debug)]
pub struct RunInputs {
    /// The set that is moved.
    pub set: Set,
    /// The bytes of the set.
    pub bytes: u64,
    /// The ideal time of the set, s.
    pub ideal_s: f64,
    /// Names of the set's files, below the source.
    pub names: Vec<String>,
    /// The file or directory to be moved.
    pub source: PathBuf,
    /// The directory that servers show.
    pub server_root: PathBuf,
    /// An empty directory below `server_root`.
    pub target: PathBuf,
    /// Configuration, state and logs of this run.
    pub state: PathBuf,
    /// The receiving site's address.
    pub address: String,
}

/// A command: its program and arguments.
pub type CommandLine = Vec<String>;

fn words<S: AsRef<str>>(all: impl IntoIterator<Item = S>) -> CommandLine {
    all.into_iter().map(|word| word.as_ref().to_owned()).collect()
}

/// All tools, in the order of a round.
const TOOLS: [(Kind, &str, &str); 11] = [
    (Longhaul, "longhaul", "Longhaul"),
    (LonghaulMemory, "longhaul-memory", "Longhaul, memory"),
    (Xrdcp, "xrdcp", "xrdcp"),
    (XrdcpTuned, "xrdcp-tuned", "xrdcp, tuned"),
    (Gridftp, "gridftp", "globus-url-copy"),
    (GridftpTuned, "gridftp-tuned", "globus-url-copy, tuned"),
    (Rclone, "rclone", "rclone WebDAV"),
    (Fdt, "fdt", "FDT"),
    (Iperf3, "iperf3", "iperf3, memory"),
    (XrdcpMany, "xrdcp-16", "16 × xrdcp"),
    (GridftpMany, "gridftp-16", "16 × globus-url-copy"),
];

impl Kind {
    /// All kinds.
    pub fn all() -> Vec<Kind> {
        TOOLS.iter().map(|(kind, ..)| *kind).collect()
    }

    fn entry(self) -> (&'static str, &'static str) {
        TOOLS.iter().find(|(kind, ..)| *kind == self).map_or(("", ""), |(_, name, title)| (*name, *title))
    }

    /// Its name, as `--tools` takes it.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Its name in tables.
    pub fn title(self) -> &'static str {
        self.entry().1
    }

    /// Its role in the comparison.
    pub fn role(self) -> Role {
        match self {
            Longhaul => Role::Ours,
            LonghaulMemory | Iperf3 => Role::Reference,
            _ => Role::Peer,
        }
    }

    /// Whether it can move a set.
    fn moves(self, set: Set) -> bool {
        match self {
            Longhaul => true,
            LonghaulMemory | Iperf3 | XrdcpTuned => set == Set::Large,
            XrdcpMany | GridftpMany => set == Set::Split,
            Xrdcp | Gridftp | GridftpTuned | Rclone | Fdt => Set::MATRIX.contains(&set),
        }
    }

    /// What it lacks on this machine, as a sentence; none if it can run.
    pub fn missing(self, programs: &Programs) -> Option<String> {
        let needed: Vec<PathBuf> = match self {
            Longhaul | LonghaulMemory => vec![programs.longhaul.clone()],
            Xrdcp | XrdcpTuned | XrdcpMany => vec!["xrdcp".into(), "xrootd".into()],
            Gridftp | GridftpTuned | GridftpMany => vec!["globus-url-copy".into(), "globus-gridftp-server".into()],
            Rclone => vec!["rclone".into()],
            Iperf3 => vec!["iperf3".into()],
            Fdt => match &programs.fdt {
                Some(jar) => vec!["java".into(), jar.clone()],
                None => return Some("its jar is not given (--fdt)".into()),
            },
        };
        let absent = needed.iter().find(|program| find_program(program).is_none())?;
        Some(format!("{} is not installed", absent.file_name().unwrap_or_default().to_string_lossy()))
    }
}

impl Tool {
    /// Its name in tables.
    pub fn title(self) -> String {
        format!("{}{}", self.kind.title(), if self.is_bbr { " (bbr)" } else { "" })
    }

    /// The tools that take part in a cell.
    pub fn of(cell: Cell, kinds: &[Kind]) -> Vec<Tool> {
        let has_bbr = cell.is_longest() && cell.loss_ppm == 3_000;
        let mut tools = Vec::new();
        for kind in Kind::all().into_iter().filter(|kind| kinds.contains(kind) && kind.moves(cell.set)) {
            tools.push(Tool { kind, is_bbr: false });
            if has_bbr && matches!(kind, Gridftp | GridftpTuned | Iperf3) {
                tools.push(Tool { kind, is_bbr: true });
            }
        }
        tools
    }

    /// Its server's command and port. Writes configuration into the job's state.
    ///
    /// # Errors
    /// The server's configuration cannot be written.
    pub fn server(self, programs: &Programs, job: &RunInputs) -> Result<(CommandLine, u16)> {
        let server_root = job.server_root.display();
        let address = &job.address;
        Ok(match self.kind {
            Longhaul | LonghaulMemory => {
                let mut command = words([&programs.longhaul.display().to_string(), "serve", "--quiet", "--export"]);
                command.push(format!("d={server_root}:rw"));
                command.extend(words(["--anonymous", "rw", "--state", &job.state.join("node").display().to_string()]));
                (command, 7411)
            }
            Xrdcp | XrdcpTuned | XrdcpMany => (xrootd(job)?, 1094),
            Gridftp | GridftpTuned | GridftpMany => {
                let mut command = words(["globus-gridftp-server", "-p", "2811", "-control-interface", address]);
                command.extend(words(["-data-interface", address, "-aa", "-anonymous-user", "root", "-allow-root"]));
                command.extend(words(["-d", "ERROR", "-l", &job.state.join("gridftp.log").display().to_string()]));
                (command, 2811)
            }
            Rclone => {
                let mut command = words(["rclone", "serve", "webdav", "-q", "--addr"]);
                command.extend([format!("{address}:8080"), server_root.to_string()]);
                (command, 8080)
            }
            Fdt => (self.fdt(programs, &["-p", "54321"]), 54_321),
            Iperf3 => (words(["iperf3", "-s", "-1"]), 5201),
        })
    }

    fn fdt(self, programs: &Programs, arguments: &[&str]) -> CommandLine {
        let jar = programs.fdt.as_ref().map(|jar| jar.display().to_string()).unwrap_or_default();
        let mut command = words(["java", "-jar", &jar]);
        command.extend(words(arguments));
        command
    }

    /// The path of the copy; none from memory to memory.
    pub fn copy(self, job: &RunInputs) -> Option<PathBuf> {
        match self.kind {
            LonghaulMemory | Iperf3 => None,
            // xrdcp -r and FDT put the source below the target under its own name.
            Xrdcp if job.set.is_tree() => Some(job.target.join(job.set.name())),
            Fdt => Some(job.target.join(job.set.name())),
            _ => Some(job.target.join("copy")),
        }
    }

    /// The commands of the clients, which run at the same time.
    pub fn clients(self, programs: &Programs, job: &RunInputs) -> Vec<CommandLine> {
        let source = job.source.display().to_string();
        let address = &job.address;
        let copy = self.copy(job).unwrap_or_default();
        let root = |path: &Path| format!("root://{address}/{}", path.display());
        let ftp = |path: &Path| format!("ftp://{address}:2811{}", path.display());
        let is_tree = job.set.is_tree();
        match self.kind {
            Longhaul => {
                let mut command = words([&programs.longhaul.display().to_string(), "cp"]);
                command.extend(is_tree.then(|| "-r".into()));
                command.extend([source, format!("lh://{address}/d/{}/copy", target_below_root(job))]);
                vec![command]
            }
            LonghaulMemory => {
                let binary = programs.longhaul.display().to_string();
                let zeros = format!("zero:{}", job.bytes);
                vec![words([&binary, "cp", &zeros, &format!("lh://{address}/null:")])]
            }
            Xrdcp if is_tree => {
                vec![words(["xrdcp", "--silent", "-r", "--parallel", "4", &source, &(root(&job.target) + "/")])]
            }
            Xrdcp => vec![words(["xrdcp", "--silent", &source, &root(&copy)])],
            XrdcpTuned => vec![words(["xrdcp", "--silent", "--streams", "8", &source, &root(&copy)])],
            Gridftp | GridftpTuned => {
                let flags: &[&str] = match (self.kind, is_tree) {
                    (Gridftp, false) => &[],
                    (Gridftp, true) => &["-r", "-cd"],
                    (_, false) => &["-fast", "-p", "8"],
                    (_, true) => &["-r", "-cd", "-fast", "-pp", "-cc", "32", "-p", "4"],
                };
                let end = if is_tree { "/" } else { "" };
                let mut command = words(["globus-url-copy"]);
                command.extend(words(flags));
                command.extend([format!("file://{source}{end}"), ftp(&copy) + end]);
                vec![command]
            }
            Rclone => {
                let verb = if is_tree { "copy" } else { "copyto" };
                let url = format!(":webdav,url=\"http://{address}:8080\":{}/copy", target_below_root(job));
                vec![words(["rclone", verb, "-q", "--transfers", "32", "--checkers", "32", &source, &url])]
            }
            Fdt => {
                let mut arguments = vec!["-c", address, "-p", "54321", "-P", "8"];
                arguments.extend(is_tree.then_some("-r"));
                let target = job.target.display().to_string();
                arguments.extend(["-d", &target, &source]);
                vec![self.fdt(programs, &arguments)]
            }
            // iperf3 runs for a fixed time: with a number of bytes, it stops counting when the last byte is in the sender's buffer.
            Iperf3 => {
                let seconds = job.ideal_s.ceil().max(1.0).to_string();
                vec![words(["iperf3", "-c", address, "-J", "-l", "1M", "-t", &seconds])]
            }
            XrdcpMany | GridftpMany => {
                let one = |name: &String| {
                    let (from, to) = (job.source.join(name), copy.join(name));
                    match self.kind {
                        XrdcpMany => words(["xrdcp", "--silent", &from.display().to_string(), &root(&to)]),
                        _ => words(["globus-url-copy", "-cd", &format!("file://{}", from.display()), &ftp(&to)]),
                    }
                };
                job.names.iter().take(PROCESSES as usize).map(one).collect()
            }
        }
    }
}

/// The path of the target below `server_root`.
fn target_below_root(job: &RunInputs) -> String {
    job.target.strip_prefix(&job.server_root).unwrap_or(&job.target).display().to_string()
}

fn xrootd(job: &RunInputs) -> Result<CommandLine> {
    let own = job.state.join("own");
    fs::create_dir_all(&own)?;
    crate::data::open_to_all(&own)?;
    let configuration = job.state.join("xrootd.cfg");
    let text = format!(
        "all.export {}\nxrd.port 1094\nall.adminpath {own}\nall.pidpath {own}\n",
        job.server_root.display(),
        own = own.display()
    );
    fs::write(&configuration, text)?;
    let mut command = words(["xrootd", "-I", "v4", "-n", "wan", "-c", &configuration.display().to_string()]);
    command.extend(words(["-l", &own.join("log").display().to_string()]));
    if rustix::process::geteuid().is_root() {
        // xrootd refuses to serve as root.
        command.extend(words(["-R", "nobody"]));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(set: Set) -> RunInputs {
        RunInputs {
            set,
            bytes: 7,
            ideal_s: 10.2,
            names: set.files(1).into_iter().map(|file| file.name).collect(),
            source: "/s/x".into(),
            server_root: "/t".into(),
            target: "/t/run".into(),
            state: "/state".into(),
            address: "10.0.0.2".into(),
        }
    }

    fn client_commands(kind: Kind, set: Set) -> Vec<String> {
        let programs = Programs { longhaul: "longhaul".into(), fdt: Some("fdt.jar".into()) };
        let commands = Tool { kind, is_bbr: false }.clients(&programs, &job(set));
        commands.iter().map(|command| command.join(" ")).collect()
    }

    #[test]
    fn clients_run_the_commands_that_users_type() {
        assert_eq!(client_commands(Longhaul, Set::Large), ["longhaul cp /s/x lh://10.0.0.2/d/run/copy"]);
        assert_eq!(client_commands(Longhaul, Set::Small), ["longhaul cp -r /s/x lh://10.0.0.2/d/run/copy"]);
        assert_eq!(client_commands(LonghaulMemory, Set::Large), ["longhaul cp zero:7 lh://10.0.0.2/null:"]);
        assert_eq!(client_commands(Iperf3, Set::Large), ["iperf3 -c 10.0.0.2 -J -l 1M -t 11"]);
        assert_eq!(client_commands(Xrdcp, Set::Large), ["xrdcp --silent /s/x root://10.0.0.2//t/run/copy"]);
        let tuned = "globus-url-copy -r -cd -fast -pp -cc 32 -p 4 file:///s/x/ ftp://10.0.0.2:2811/t/run/copy/";
        assert_eq!(client_commands(GridftpTuned, Set::Mixed), [tuned]);
        assert_eq!(client_commands(Fdt, Set::Small), ["java -jar fdt.jar -c 10.0.0.2 -p 54321 -P 8 -r -d /t/run /s/x"]);
        let many = client_commands(GridftpMany, Set::Split);
        assert_eq!(many.len(), 16);
        assert!(many[15].ends_with("file:///s/x/00/00015.dat ftp://10.0.0.2:2811/t/run/copy/00/00015.dat"));
    }

    #[test]
    fn the_tools_that_take_part_depend_on_the_cell() {
        let titles = |set, loss_ppm| {
            let tools = Tool::of(Cell::new(set, 303_000, loss_ppm), &Kind::all());
            tools.into_iter().map(Tool::title).collect::<Vec<_>>()
        };
        assert_eq!(titles(Set::Whole, 0), ["Longhaul"]);
        assert_eq!(titles(Set::Split, 0), ["Longhaul", "16 × xrdcp", "16 × globus-url-copy"]);
        assert_eq!(titles(Set::Large, 0).len(), 9);
        assert_eq!(titles(Set::Large, 3_000).len(), 12, "three more with BBR");
        assert!(!titles(Set::Small, 0).contains(&"iperf3, memory".to_owned()));
        let short = Tool::of(Cell::new(Set::Large, 56_000, 3_000), &[Kind::Iperf3]);
        assert_eq!(short.len(), 1);
    }

    #[test]
    fn a_tool_names_the_program_that_it_lacks() {
        let programs = Programs { longhaul: "/nowhere/longhaul".into(), fdt: None };
        assert_eq!(Longhaul.missing(&programs).unwrap(), "longhaul is not installed");
        assert_eq!(Fdt.missing(&programs).unwrap(), "its jar is not given (--fdt)");
        assert!(Kind::all().iter().all(|kind| !kind.name().is_empty() && !kind.title().is_empty()));
    }
}
