//! `make bench-separate`: the rate of a node with a network stack of its own (a MacVLAN in a namespace), compared with a node on the host's
//! stack, over one veth pair. Writes docs/results/separate.md.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use bench::machine;
use bench::node::Node;
use bench::program::{self, Binary, Results};
use bench::statistics::median;
use clap::Parser;
use serde_json::Value;

/// The least share of the host's rate.
const SHARE_MIN: f64 = 0.95;
/// The address of the other host, at the far end of the veth pair.
const FAR: &str = "192.0.2.30";
/// The script that makes the host, the other host, and the second stack.
const NETWORK: &str = r#"
set -eu
mount -t tmpfs none /run
mount -t sysfs none /sys
ip link set lo up
ip netns add far
ip link add nic0 type veth peer name eth0 netns far
ip link set nic0 up
ip address add 192.0.2.10/24 dev nic0
ip -n far link set lo up
ip -n far link set eth0 up
ip -n far address add 192.0.2.30/24 dev eth0
LONGHAUL_NETNS=$1 "$2" start measure
shift 2
exec "$@"
"#;

/// What a stack of its own costs a node. Needs root.
#[derive(Debug, Parser)]
struct Args {
    /// Tests of each kind
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of each
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    #[command(flatten)]
    binary: Binary,
    /// Where separate.md goes; default: docs/results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Set by the program itself: it is in namespaces of its own
    #[arg(long, hide = true)]
    inside: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    program::exit_code("bench-separate", if args.inside { run(&args) } else { enter() })
}

/// Runs this program again in namespaces of its own. Returns only if that fails.
fn enter() -> Result<bool> {
    program::require_root()?;
    let settings = tempfile::tempdir()?;
    fs::write(settings.path().join("measure.conf"), "PARENT=nic0\nADDRESS=\"192.0.2.20/24\"\n")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/longhaul-netns");
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--", "sh", "-c", NETWORK, "sh"]).arg(settings.keep()).arg(script);
    command.arg(std::env::current_exe()?).arg("--inside").args(std::env::args_os().skip(1));
    Err(anyhow::Error::from(command.exec()).context("cannot run unshare"))
}

/// The command of a program in a network namespace (the second stack, or the other host), or on the host itself.
fn within(namespace: Option<&str>, program: &Path) -> Command {
    match namespace {
        None => Command::new(program),
        Some(name) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", name]).arg(program);
            command
        }
    }
}

/// Runs a test to the other host; returns its rate in bit/s.
fn rate(longhaul: &Path, namespace: Option<&str>, state: &Path, seconds: u32) -> Result<f64> {
    let mut command = within(namespace, longhaul);
    let time = format!("{seconds}s");
    command.args(["probe", "tcp", &format!("{FAR}:7411"), "-t", &time, "--json", "--state"]).arg(state);
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let report: Value = serde_json::from_str(text.lines().last().context("a result")?)?;
    report["directions"][0]["rate_bit_s"].as_f64().with_context(|| format!("no rate in {report}"))
}

fn run(args: &Args) -> Result<bool> {
    let longhaul = args.binary.find()?;
    let dir = tempfile::tempdir()?;
    let mut far = within(Some("far"), &longhaul);
    far.args(["serve", "--listen", "0.0.0.0:7411", "--anonymous", "rw", "--state"]).arg(dir.path().join("far"));
    far.arg("--export").arg(format!("d={}:rw", dir.path().display()));
    let _far = Node::start(far.stderr(Stdio::null()))?;
    let mut host = Vec::new();
    let mut own = Vec::new();
    for round in 0..args.rounds {
        // Each stack is first in half of the rounds, so that drift of the machine affects both alike.
        for is_own in [round % 2 == 0, round % 2 == 1] {
            let namespace = is_own.then_some("measure");
            let rate = rate(&longhaul, namespace, &dir.path().join("near"), args.seconds)?;
            println!("{}: {:.2} Gbit/s", namespace.unwrap_or("host"), rate / 1e9);
            if is_own { own.push(rate) } else { host.push(rate) }
        }
    }
    // The share is taken pair by pair: the machine drifts by more than the difference of the two stacks.
    let share = median(own.iter().zip(&host).map(|(own, host)| own / host)).context("no test was made")?;
    let (host, own) = median(host.into_iter()).zip(median(own.into_iter())).context("no test was made")?;
    let text = format!(
        "# A stack of its own\n\n- Date: {}\n- Machine: {}\n- Command: `make bench-separate`; {} pairs of tests, each kind first in turn, {} s each; medians\n\
         - One TCP stream from a host to another one over a veth pair, from the host's own stack and from a MacVLAN in a namespace \
         (`packaging/longhaul-netns`). No NIC, no wire: what is compared is the work of the stacks\n\n\
         | stack | Gbit/s |\n|---|---|\n| the host's | {:.2} |\n| its own | {:.2} |\n\n{:.1} % of the host's rate (median of the pairs); target 95 %: {}.\n",
        machine::date(),
        machine::describe("veth pair")?,
        args.rounds,
        args.seconds,
        host / 1e9,
        own / 1e9,
        share * 100.0,
        if share >= SHARE_MIN { "met" } else { "**not met**" }
    );
    let out = Results::open(args.out.as_deref())?;
    out.write("separate.md", &text)?;
    print!("\n{text}");
    out.print_path("separate.md");
    Ok(share >= SHARE_MIN)
}
