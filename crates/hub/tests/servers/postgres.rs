//! A PostgreSQL server for one test, in its own directory and on its own socket; it is removed with the test. The tests of this crate and
//! of the program share this file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The directory in which Debian has the programs, by version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user as which the server runs if the tests run as root: it refuses to run as root.
const USER: &str = "postgres";
/// How long it may take until it answers on a busy host.
const START_MAX: Duration = Duration::from_secs(60);
/// The text if this host has no PostgreSQL.
pub const MISSING: &str = "there is no /usr/lib/postgresql/*/bin/postgres (scripts/setup.sh installs it)";

/// A running server.
pub struct Postgres {
    dir: TempDir,
    child: Child,
}

fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.flatten().map(|entry| entry.path().join("bin").join(name));
    versions.filter(|path| path.exists()).max()
}

/// A command that runs as a user that PostgreSQL accepts, and ends with the thread that starts it.
fn as_server(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Postgres {
    /// Starts a server; `None` if this host has no PostgreSQL: see [`MISSING`].
    pub fn start() -> Option<Postgres> {
        let (initdb, postgres) = (program("initdb")?, program("postgres")?);
        // The path of a socket has at most 107 bytes.
        let dir = tempfile::Builder::new().prefix("pg-").tempdir().unwrap();
        let _ = Command::new("chown").arg(USER).arg(dir.path()).status().unwrap();
        let data = dir.path().join("data");
        let made =
            as_server(&initdb).args(["--auth=trust", "--no-sync", "--username=longhaul", "-D"]).arg(&data).status();
        assert!(made.unwrap().success(), "initdb fails");
        let server = Postgres { child: spawn(&postgres, dir.path()), dir };
        server.await_answer();
        Some(server)
    }

    /// Makes a database, and returns its URL.
    pub fn database(&self, name: &str) -> String {
        self.rows("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://longhaul@localhost/{name}?host={}", self.socket_dir().display())
    }

    /// The directory of its socket.
    pub fn socket_dir(&self) -> &Path {
        self.dir.path()
    }

    /// The rows of the result of a query, with `|` between the columns.
    pub fn rows(&self, database: &str, sql: &str) -> Vec<String> {
        let answer = self.psql(database, sql).unwrap_or_else(|| panic!("{database} refuses {sql}"));
        answer.lines().map(str::to_owned).collect()
    }

    fn psql(&self, database: &str, sql: &str) -> Option<String> {
        let mut command = Command::new("psql");
        command.args(["-U", "longhaul", "-At", "-v", "ON_ERROR_STOP=1", "-d", database, "-h"]).arg(self.dir.path());
        let output = command.args(["-c", sql]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn await_answer(&self) {
        let begun = Instant::now();
        while self.psql("postgres", "SELECT 1").is_none() {
            assert!(begun.elapsed() < START_MAX, "PostgreSQL does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(&mut self) {
        // This ends all its processes at once, as a crash would: committed transactions are in its log.
        let _ = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }

    /// Ends it as a crash would, and starts it again.
    pub fn restart(&mut self) {
        self.end();
        self.child = spawn(&program("postgres").unwrap(), self.dir.path());
        self.await_answer();
    }
}

fn spawn(postgres: &Path, dir: &Path) -> Child {
    as_server(postgres).args(["-F", "-h", "", "-k"]).arg(dir).arg("-D").arg(dir.join("data")).spawn().unwrap()
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end();
    }
}
