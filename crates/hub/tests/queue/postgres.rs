//! A PostgreSQL server of the tests' own: in a directory of its own, on a socket of its own, and gone with the process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

/// Where Debian puts the programs of its versions.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that the server runs as where the tests run as root, which it refuses to be.
const USER: &str = "postgres";

struct Server {
    dir: TempDir,
}

fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.flatten().map(|entry| entry.path().join("bin").join(name));
    versions.filter(|path| path.exists()).max()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0)
}

/// A command that ends with the process that started it, as a user whom the server takes.
fn as_server(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]);
    if is_root() {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts the server; none where there is none on this machine.
fn start() -> Option<Server> {
    let (initdb, postgres) = (program("initdb")?, program("postgres")?);
    let dir = tempfile::tempdir().unwrap();
    if is_root() {
        assert!(Command::new("chown").arg(USER).arg(dir.path()).status().unwrap().success());
    }
    let data = dir.path().join("data");
    let made = as_server(&initdb).args(["--auth=trust", "--no-sync", "--username=longhaul", "-D"]).arg(&data).status();
    assert!(made.unwrap().success(), "initdb fails");
    let socket = dir.path().display().to_string();
    // The signal at a parent's death is about the thread that started it: this one never ends.
    std::thread::spawn(move || {
        let mut command = as_server(&postgres);
        command.args(["-F", "-h", "", "-k", &socket, "-D"]).arg(&data);
        let mut child = command.spawn().unwrap();
        let _ = child.wait();
    });
    Some(Server { dir })
}

/// The URL of a new, empty database; none where the machine has no server, which is said.
pub async fn database() -> Option<String> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let Some(server) = SERVER.get_or_init(start) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: hub/queue on PostgreSQL: there is no {DEBIAN}/*/bin/postgres");
        return None;
    };
    let name = format!("queue{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let url = |name: &str| format!("postgres://longhaul@localhost/{name}?host={}", server.dir.path().display());
    let since = Instant::now();
    let mut connection = loop {
        match PgConnection::connect(&url("postgres")).await {
            Ok(connection) => break connection,
            Err(error) if since.elapsed() > Duration::from_secs(60) => panic!("no server after a minute: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.unwrap();
    Some(url(&name))
}
