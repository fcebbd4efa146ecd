//! Builds the test programs, and lists their tests.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Artifact, Message, MetadataCommand, TargetKind};

use super::budget::{Budget, EXAMPLES, part_name};
use super::{Request, Test};
use crate::demo::repository;

/// A program of tests.
struct Program {
    part: String,
    package: String,
    /// The arguments with which cargo selects this target: `--lib`, `--test e2e`.
    target: String,
    dir: PathBuf,
    executable: PathBuf,
    /// Whether it has Rust's own test harness, whose functions can be run one by one.
    has_harness: bool,
}

/// All requested tests. Building their programs also checks the lints, so that everything is compiled once.
///
/// # Errors
/// A program does not build, does not list its tests, or has no budget.
pub fn tests(request: &Request, budget: &Budget) -> Result<Vec<Test>> {
    let packages = request.pure.then(|| pure_packages(budget));
    let mut tests = Vec::new();
    for program in programs(packages.as_deref())? {
        let part = budget.part(&program.part)?;
        if request.pure && !part.pure {
            continue;
        }
        tests.extend(tests_of(&program, part.together)?);
    }
    tests.extend(examples(packages.as_deref()));
    tests.retain(|test| {
        request.filters.is_empty() || request.filters.iter().any(|word| test.title().contains(word.as_str()))
    });
    Ok(tests)
}

/// The packages that have tests of `make check`.
fn pure_packages(budget: &Budget) -> Vec<String> {
    let pure = budget.part.iter().filter(|(_, part)| part.pure).map(|(name, _)| name.as_str());
    let mut packages: Vec<String> = pure.map(|name| name.split('/').next().unwrap_or(name).to_owned()).collect();
    packages.dedup();
    packages
}

/// The variables that `cargo clippy -- -D warnings` sets. clippy-driver is a rustc that lints as it compiles: with these variables,
/// `cargo test` does both.
const LINTING: &[(&str, &str)] =
    &[("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"), ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")];

/// The cargo that runs this program, or the one in PATH.
pub fn cargo() -> PathBuf {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}

/// The directory that cargo builds into.
///
/// # Errors
/// cargo cannot read the workspace.
pub fn target_directory() -> Result<PathBuf> {
    Ok(MetadataCommand::new().current_dir(repository()).no_deps().exec()?.target_directory.into())
}

fn programs(packages: Option<&[String]>) -> Result<Vec<Program>> {
    let mut command = Command::new(cargo());
    command.current_dir(repository()).envs(LINTING.iter().copied());
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    match packages {
        None => command.arg("--workspace"),
        Some(packages) => command.args(packages.iter().flat_map(|package| ["--package", package.as_str()])),
    };
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let stdout = child.stdout.take().context("cargo has no standard output")?;
    let without_harness = targets_without_harness()?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(stdout)) {
        if let Message::CompilerArtifact(artifact) = message? {
            programs.extend(program(artifact, &without_harness)?);
        }
    }
    ensure!(child.wait()?.success(), "the tests do not build");
    Ok(programs)
}

/// Test targets without Rust's harness, as (package, target).
fn targets_without_harness() -> Result<Vec<(String, String)>> {
    let metadata = MetadataCommand::new().current_dir(repository()).no_deps().exec()?;
    let mut without = Vec::new();
    for package in metadata.workspace_packages() {
        let manifest: toml::Table = toml::from_str(&std::fs::read_to_string(&package.manifest_path)?)?;
        let targets = manifest.get("test").and_then(toml::Value::as_array).into_iter().flatten();
        for target in targets.filter(|target| target.get("harness").and_then(toml::Value::as_bool) == Some(false)) {
            let name = target.get("name").and_then(toml::Value::as_str).context("a [[test]] without a name")?;
            without.push((package.name.to_string(), name.to_owned()));
        }
    }
    Ok(without)
}

fn program(artifact: Artifact, without_harness: &[(String, String)]) -> Result<Option<Program>> {
    let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else { return Ok(None) };
    let dir = artifact.manifest_path.parent().context("a manifest lies in a directory")?;
    let package = dir.file_name().context("a crate's directory has a name")?.to_owned();
    let part = part_name(&package, &artifact.target);
    let name = artifact.target.name;
    let target = match artifact.target.kind.first() {
        Some(TargetKind::Test) => format!("--test {name}"),
        Some(TargetKind::Bin) => format!("--bin {name}"),
        Some(TargetKind::Example) => format!("--example {name}"),
        _ => "--lib".to_owned(),
    };
    let has_harness = !without_harness.iter().any(|(of, test)| *of == package && *test == name);
    Ok(Some(Program { part, target, dir: dir.into(), executable: executable.into(), has_harness, package }))
}

/// The tests of a program; one test if they run together.
fn tests_of(program: &Program, together: bool) -> Result<Vec<Test>> {
    if together || !program.has_harness {
        return Ok(vec![test(program, "", Vec::new())]);
    }
    let output =
        Command::new(&program.executable).args(["--list", "--format", "terse"]).current_dir(&program.dir).output();
    let output = output.with_context(|| format!("cannot run {}", program.executable.display()))?;
    if !output.status.success() {
        bail!("{} --list: {}", program.part, String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(|name| test(program, name, ["--exact", "--nocapture", name].map(str::to_owned).to_vec())).collect())
}

fn test(program: &Program, name: &str, arguments: Vec<String>) -> Test {
    let mut alone = format!("cargo test --package {} {}", program.package, program.target);
    if !name.is_empty() {
        alone.push_str(&format!(" -- --exact {name}"));
    }
    Test {
        part: program.part.clone(),
        name: name.to_owned(),
        program: program.executable.clone(),
        arguments,
        environment: &[],
        dir: program.dir.clone(),
        alone,
    }
}

/// The examples in the documentation: rustdoc builds and runs them, as one test.
fn examples(packages: Option<&[String]>) -> Option<Test> {
    packages.is_none().then(|| Test {
        part: EXAMPLES.to_owned(),
        name: String::new(),
        program: cargo(),
        arguments: ["test", "--workspace", "--doc"].map(str::to_owned).to_vec(),
        environment: LINTING,
        dir: repository(),
        alone: "cargo test --workspace --doc".to_owned(),
    })
}
