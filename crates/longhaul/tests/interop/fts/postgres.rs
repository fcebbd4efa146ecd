//! A PostgreSQL server of one case: in the case's directory, on a socket there, and gone with the case.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::node::signal;
use crate::scene::{Scene, skip};
use crate::wait::{LONG, until};

/// Where Debian puts the programs of its versions.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that it runs as where the tests run as root, which it refuses to be.
const USER: &str = "postgres";

/// A running server.
pub struct Server {
    child: Child,
    dir: TempDir,
}

fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let found = versions.map(|entry| entry.path().join("bin").join(name)).filter(|path| path.exists()).max();
    found.unwrap_or_else(|| skip(&format!("there is no {DEBIAN}/*/bin/{name} (scripts/setup.sh installs it)")))
}

/// A command that ends with the tests, as a user whom the server takes.
fn as_server(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if geteuid().is_root() {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Server {
    /// Starts one, with a database and a schema `rucio`.
    pub fn start(_: &Scene) -> Server {
        let (initdb, postgres) = (program("initdb"), program("postgres"));
        // A socket's path has 107 bytes at most: a case's own directory is too long.
        let dir = tempfile::Builder::new().prefix("pg-").tempdir().unwrap();
        if geteuid().is_root() {
            assert!(Command::new("chown").arg(USER).arg(dir.path()).status().unwrap().success());
        }
        let data = dir.path().join("data");
        let made = as_server(&initdb).args(["--auth=trust", "--no-sync", "--username=rucio", "-D"]).arg(&data).status();
        assert!(made.unwrap().success(), "initdb fails");
        let mut command = as_server(&postgres);
        command.args(["-F", "-h", "", "-k"]).arg(dir.path()).arg("-D").arg(&data);
        let server = Server { child: command.spawn().unwrap(), dir };
        until("the database answers", LONG, || server.sql("postgres", "SELECT 1"));
        assert!(server.sql("postgres", "CREATE DATABASE rucio") && server.sql("rucio", "CREATE SCHEMA rucio"));
        server
    }

    /// Its URL, as SQLAlchemy writes one.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql+psycopg://rucio@/{database}?host={}", self.dir.path().display())
    }

    fn sql(&self, database: &str, statement: &str) -> bool {
        let mut command = Command::new("psql");
        command.arg("-h").arg(self.dir.path()).args(["-U", "rucio", "-q", "-d", database, "-c", statement]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once: what it has is thrown away.
        signal(&self.child, Signal::QUIT);
        let _ = self.child.wait();
    }
}
