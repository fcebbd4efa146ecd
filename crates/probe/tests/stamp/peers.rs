//! Programs of others that test with ours, which scripts/setup.sh builds.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::skipped;

/// A program that ends with its owner.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of target/tools, or else of PATH, with these arguments; none if it is in neither, which is
/// reported.
pub fn peer(test: &str, program: &str, arguments: &[&str]) -> Option<Program> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let name = Path::new(program).file_name().map_or(Path::new(program), Path::new);
    let mut command =
        Command::new(Some(tools.join(program)).filter(|path| path.exists()).unwrap_or_else(|| name.into()));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => Some(Program(child)),
        Err(error) => {
            skipped(
                test,
                &format!("{}: {error} (scripts/setup.sh builds it, where the registry is in reach)", name.display()),
            );
            None
        }
    }
}
