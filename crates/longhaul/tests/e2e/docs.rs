//! The commands in the documents work: every shell block of README.md, docs/first-day.md, docs/usage.md,
//! docs/http.md and docs/api.md runs as it is written, on machines with the names that it uses, and every command ends with
//! exit code 0; or the comment directly above the block states why it does not run, or where and how else it does ([`page`]).
//!
//! The exceptions: `lhk1_…` stands for the key that was granted last, also where a command reads pasted input; a node keeps
//! running in the background; a command that lasts until Ctrl-C gets it after two seconds, and tests without `-t` take half a
//! second, or one (`bin`). [`sites`] prepares what the documents assume: nodes of other sites, files, certificates, keys in
//! files.

mod machines;
mod page;
mod sites;

use std::fs;
use std::sync::Mutex;

use self::machines::Machines;
use self::page::{Block, BlockPlan, Conditions};
use crate::wait::skipped;
use crate::wrappers;

/// A document, and the machines that it mentions.
struct Document {
    file: &'static str,
    machines: &'static [Machine],
    /// Files of keys in homes: the name, and the owners of the keys (`MACHINE.EXPORT`).
    key_files: &'static [(&'static str, &'static [&'static str])],
    /// The node that receives the copy where a block needs one under way.
    copies_to: &'static str,
}

/// A machine.
struct Machine {
    name: &'static str,
    /// Its further addresses.
    addresses: &'static [&'static str],
    /// A script that runs on it before the first block.
    prepare: &'static str,
}

/// Starts a copy on the machine `here`, and prints its id.
const BEGIN_COPY: &str = r#"
timeout 120 "$LONGHAUL_PROGRAM" cp --quiet zero: "lh://$COPIES_TO/null:" > /dev/null &
echo $! > "$WORLD/copy"
until id=$("$LONGHAUL_PROGRAM" job list --json | grep -E '"state":"(running|waiting)"' | grep -m 1 -o '"id":"[^"]*"'); do kill -0 $!; sleep 0.1; done
echo "$id" | cut -d '"' -f 4
"#;
const END_COPY: &str = r#"
kill -INT "$(cat "$WORLD/copy")" || true
"#;

impl Document {
    fn key_files(&self, machines: &Machines, machine: &str) {
        for (name, whose) in self.key_files {
            let keys = whose.iter().map(|key| fs::read_to_string(machines.path("keys").join(key)));
            if let Ok(keys) = keys.collect::<Result<String, _>>() {
                fs::write(machines.home(machine).join(name), keys).unwrap();
            }
        }
    }

    /// Runs a block on one machine; returns what went wrong.
    fn run(&self, machines: &Machines, block: &Block, machine: &str, how: &Conditions) -> Result<(), String> {
        self.key_files(machines, machine);
        let key = fs::read_to_string(machines.path("keys/last")).unwrap_or_default();
        let mut script = block.text.replace("lhk1_…", key.trim()).replace("lhk1_...", key.trim());
        if how.beside_copy {
            let begun = machines.run("here", &format!("COPIES_TO={}{BEGIN_COPY}", self.copies_to));
            let id = begun.out.trim();
            assert_eq!(begun.code, Some(0), "no copy to {}: {}", self.copies_to, begun.err);
            script = script.replace(" ID", &format!(" {id}")).replace("4f1c", id);
        }
        let ended = machines.run(machine, &script);
        if how.beside_copy {
            machines.run("here", END_COPY);
        }
        // A request that a node answers with 202 may still fail: the output of its job then says so.
        let failed = ended.out.lines().any(|line| line.starts_with("failure:"));
        if ended.code == Some(how.code) && !failed {
            return Ok(());
        }
        let file = self.file;
        Err(format!("{file}:{} at {machine}, {:?}:\n{}{}", block.line, ended.code, ended.out, ended.err))
    }

    /// Runs all blocks, even where earlier ones fail.
    fn check(&self) {
        let machines = Machines::new(self.machines);
        let (mut wrong, mut ran) = (Vec::new(), 0);
        for block in page::blocks(self.file) {
            match &block.plan {
                BlockPlan::NotRun(reason) => assert!(!reason.is_empty(), "{}:{}: say why", self.file, block.line),
                BlockPlan::File { path, machine } => {
                    let written = machines.run(machine, &format!("cat > {path} <<'END'\n{}END\n", block.text));
                    assert_eq!(written.code, Some(0), "{}", written.err);
                }
                BlockPlan::Runs(how) => {
                    ran += 1;
                    wrong.extend(how.machines.iter().filter_map(|at| self.run(&machines, &block, at, how).err()));
                }
            }
        }
        assert!(ran > 2, "{} has hardly a block that runs", self.file);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// The document of the test that runs, for the process that it starts in namespaces.
static CHECKED: Mutex<Option<&Document>> = Mutex::new(None);

fn check(test: &str, document: &'static Document) {
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "namespaces need root");
    }
    for program in ["ip", "nsenter", "curl", "nft", "setpriv"] {
        let found =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(program).exists());
        if !found {
            return skipped(test, &format!("{program} is not installed"));
        }
    }
    *CHECKED.lock().unwrap() = Some(document);
    wrappers::with_network(test, || CHECKED.lock().unwrap().unwrap().check());
}

#[test]
fn the_readme_runs() {
    check("docs::the_readme_runs", &sites::README);
}

#[test]
fn the_first_day_runs() {
    check("docs::the_first_day_runs", &sites::FIRST_DAY);
}

#[test]
fn the_usage_runs() {
    check("docs::the_usage_runs", &sites::USAGE);
}

#[test]
fn the_http_document_runs() {
    check("docs::the_http_document_runs", &sites::HTTP);
}

#[test]
fn the_api_document_runs() {
    check("docs::the_api_document_runs", &sites::API);
}
