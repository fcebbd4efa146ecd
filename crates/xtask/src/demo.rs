//! `cargo xtask demo`: starts two nodes on this machine, and copies a tree from one to the other over real sockets.
//!
//! All files are in a temporary directory. The nodes are ended and the directory is removed, also if a step fails.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Size of the generated large file.
const LARGE_BYTES: u64 = 1 << 30;
/// Number of generated small files.
const SMALL_FILES: u64 = 5_000;

/// A node that ends when it is dropped.
pub(crate) struct Node {
    child: Child,
    /// `HOST:PORT`.
    pub address: String,
}

impl Node {
    /// Starts a node and waits until it listens.
    ///
    /// # Errors
    /// The node cannot be started, or its first line has no address.
    pub fn start(binary: &Path, state: &Path, arguments: &[&str]) -> Result<Node> {
        let mut child = Command::new(binary)
            .args(["serve", "--quiet", "--listen", "127.0.0.1:0", "--state"])
            .arg(state)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a node")?;
        let out = child.stdout.take().context("the node has no stdout")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
        match address {
            Some(address) => Ok(Node { child, address }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("the node printed {line:?} instead of its address")
            }
        }
    }
}

impl Node {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The repository's own directory.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The binary of a profile (`demo`, `release`), which `make` builds before it calls this program.
pub(crate) fn binary(profile: &str) -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let binary = metadata.target_directory.into_std_path_buf().join(profile).join("longhaul");
    let remedy = format!("`cargo build --profile {profile} --package longhaul` builds it");
    ensure!(binary.exists(), "{} does not exist; {remedy}", binary.display());
    Ok(binary)
}

/// Fills a file quickly with bytes that neither compress nor repeat (splitmix64).
pub(crate) fn fill(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let mut state = seed;
    let mut buffer = vec![0u8; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        for word in buffer.chunks_exact_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
        }
        let step = left.min(buffer.len() as u64);
        file.write_all(&buffer[..step as usize])?;
        left -= step;
    }
    Ok(())
}

/// Prints the heading of a step.
fn print_heading(text: &str) {
    println!("\n\x1b[1m{text}\x1b[0m");
}

fn make_tree(tree: &Path) -> Result<()> {
    fs::create_dir_all(tree)?;
    let copied =
        Command::new("cp").arg("-a").arg(repository().join(".git")).arg(tree.join("repository.git")).status()?;
    ensure!(copied.success(), "cannot copy the repository");
    for part in ["crates", "docs", "scripts", "README.md", "Makefile"] {
        let from = repository().join(part);
        if from.exists() {
            let copied = Command::new("cp").arg("-a").arg(from).arg(tree).status()?;
            ensure!(copied.success(), "cannot copy {part}");
        }
    }
    fill(&tree.join("large.dat"), LARGE_BYTES, 1)?;
    for at in 0..SMALL_FILES {
        let dir = tree.join(format!("small/{:02}", at % 50));
        fs::create_dir_all(&dir)?;
        fill(&dir.join(format!("{at:04}.dat")), 100 + at * 7 % 20_000, at + 2)?;
    }
    Ok(())
}

struct Demo {
    binary: PathBuf,
    work: PathBuf,
}

impl Demo {
    fn client(&self, key: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("LONGHAUL_STATE", self.work.join("client")).env("LONGHAUL_KEY", key);
        command
    }

    fn key(&self, state: &Path) -> Result<String> {
        let mut command = Command::new(&self.binary);
        let out = command.args(["grant", "--quiet", "--export", "data", "--write", "--for", "1h", "--state"]);
        let out = out.arg(state).stderr(Stdio::inherit()).output()?;
        ensure!(out.status.success(), "cannot make a key");
        Ok(String::from_utf8(out.stdout)?.trim().to_owned())
    }

    /// Prints a client command, and runs it with its output on the terminal.
    fn show(&self, key: &str, arguments: &[&str]) -> Result<ExitStatus> {
        println!("$ longhaul {}", arguments.join(" "));
        Ok(self.client(key).args(arguments).status()?)
    }

    /// The digests of all files below a locator, each with its path, sorted.
    fn digests(&self, key: &str, locator: &str) -> Result<Vec<String>> {
        let out = self.client(key).args(["digest", locator]).output()?;
        ensure!(out.status.success(), "digest {locator}: {}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout)?;
        let mut lines: Vec<String> = text.lines().map(|line| line.replace(locator, "")).collect();
        lines.sort();
        Ok(lines)
    }

    fn run(&self) -> Result<()> {
        let dir_a = self.work.join("node-a");
        let dir_b = self.work.join("node-b");
        print_heading("Generating a tree: this repository with its history, a file of 1 GiB, 5,000 small files");
        make_tree(&dir_a.join("data/tree"))?;
        fs::create_dir_all(dir_b.join("data"))?;

        print_heading("Starting two nodes");
        let start = |dir: &Path, mode: &str| {
            let export = format!("data={}{mode}", dir.join("data").display());
            println!("$ longhaul serve --export data=DIR{mode}");
            Node::start(&self.binary, &dir.join("state"), &["--export", &export])
        };
        let node_a = start(&dir_a, "")?;
        let node_b = start(&dir_b, ":rw")?;
        let keys = format!("{},{}", self.key(&dir_a.join("state"))?, self.key(&dir_b.join("state"))?);

        print_heading("Copying the tree from node A to node B: pulled from A on B's host, sealed and verified");
        let tree_at_a = format!("lh://{}/data/tree", node_a.address);
        let local_target = dir_b.join("data/tree").display().to_string();
        ensure!(self.show(&keys, &["cp", "-r", &tree_at_a, &local_target])?.success(), "the copy failed");

        print_heading("The same command again: all files have been copied already");
        ensure!(self.show(&keys, &["cp", "-r", &tree_at_a, &local_target])?.success(), "the second copy failed");

        print_heading("Pushing a directory from A's host to node B");
        let local_source = dir_a.join("data/tree/crates").display().to_string();
        let pushed_at_b = format!("lh://{}/data/pushed", node_b.address);
        ensure!(self.show(&keys, &["cp", "-r", &local_source, &pushed_at_b])?.success(), "the push failed");

        print_heading("Asking both nodes for the digests of all files");
        let tree_at_b = format!("lh://{}/data/tree", node_b.address);
        let digests_a = self.digests(&keys, &tree_at_a)?;
        let digests_b = self.digests(&keys, &tree_at_b)?;
        ensure!(digests_a.len() as u64 > SMALL_FILES, "node A lists only {} files", digests_a.len());
        ensure!(digests_a == digests_b, "the digests differ");
        println!("{} files, with the same digests at both nodes", digests_a.len());
        Ok(())
    }
}

/// Runs the demonstration.
///
/// # Errors
/// A program is missing, a node or a copy fails, or the digests differ.
pub fn run() -> Result<()> {
    let work = std::env::temp_dir().join(format!("longhaul-demo-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let demo = Demo { binary: binary("demo")?, work: work.clone() };
    let result = demo.run();
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    result?;
    let program = binary("demo")?;
    print_heading(&format!(
        "Done. All processes have ended and all files are removed. `{} demo` shows a whole collaboration in a browser: three nodes, a hub, a watch. \
         `make build` builds an optimised program: this one was compiled quickly.",
        program.display()
    ));
    Ok(())
}
