//! A PostgreSQL server of a test's own: in a directory of its own, on a socket of its own, and gone with the test.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::wait::{LONG, until};

/// Where Debian puts the programs of its versions.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that the server runs as where the tests run as root, which it refuses to be.
const USER: &str = "postgres";

pub struct Postgres {
    dir: TempDir,
    child: Child,
}

fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.flatten().map(|entry| entry.path().join("bin").join(name));
    versions.filter(|path| path.exists()).max()
}

/// A command as a user whom the server takes; it ends with this process.
fn as_server(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Postgres {
    /// Starts one; none where the machine has none, which is said.
    pub fn start() -> Option<Postgres> {
        let (Some(initdb), Some(postgres)) = (program("initdb"), program("postgres")) else {
            let _ = writeln!(std::io::stderr(), "SKIPPED: hubs on PostgreSQL: there is no {DEBIAN}/*/bin/postgres");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let _ = Command::new("chown").arg(USER).arg(dir.path()).status().unwrap();
        let data = dir.path().join("data");
        let made =
            as_server(&initdb).args(["--auth=trust", "--no-sync", "--username=longhaul", "-D"]).arg(&data).status();
        assert!(made.unwrap().success(), "initdb fails");
        let child = Postgres::spawn(&postgres, dir.path());
        let server = Postgres { dir, child };
        until("PostgreSQL answers", LONG, || server.psql("postgres", "SELECT 1").is_some());
        Some(server)
    }

    fn spawn(postgres: &Path, dir: &Path) -> Child {
        as_server(postgres).args(["-F", "-h", "", "-k"]).arg(dir).arg("-D").arg(dir.join("data")).spawn().unwrap()
    }

    /// Makes a database; its URL.
    pub fn database(&self, name: &str) -> String {
        self.psql("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        format!("postgres://longhaul@localhost/{name}?host={}", self.dir.path().display())
    }

    /// The rows that a question brings, columns with a bar between them.
    pub fn rows(&self, database: &str, sql: &str) -> Vec<String> {
        self.psql(database, sql).unwrap().lines().map(str::to_owned).collect()
    }

    fn psql(&self, database: &str, sql: &str) -> Option<String> {
        let mut command = Command::new("psql");
        command.args(["-U", "longhaul", "-At", "-v", "ON_ERROR_STOP=1", "-d", database, "-h"]).arg(self.dir.path());
        let output = command.args(["-c", sql]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// Ends it at once, as a crash would, with all of its processes, and starts it again: it recovers from its log.
    pub fn restart(&mut self) {
        let _ = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        self.child = Postgres::spawn(&program("postgres").unwrap(), self.dir.path());
        until("PostgreSQL answers again", LONG, || self.psql("postgres", "SELECT 1").is_some());
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT ends connections and then the server; SIGKILL would leave shared memory behind.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}
