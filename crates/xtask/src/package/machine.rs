//! The machine that a program is for, from its ELF header: a package may be made on another kind of machine.

use anyhow::{Result, bail, ensure};

/// A kind of machine that packages are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfMachine {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// The place of the machine's number in the header (elf(5), `e_machine`).
const MACHINE_AT: usize = 18;

impl ElfMachine {
    /// The machine of a program.
    ///
    /// # Errors
    /// The file is no 64-bit program of a known machine.
    pub fn of(program: &[u8]) -> Result<ElfMachine> {
        let head: [u8; MACHINE_AT + 2] = match program.first_chunk() {
            Some(head) => *head,
            None => bail!("the file is too short for a program"),
        };
        ensure!(head.starts_with(b"\x7fELF\x02\x01"), "the file is no 64-bit ELF program of a little-endian machine");
        match u16::from_le_bytes([head[MACHINE_AT], head[MACHINE_AT + 1]]) {
            62 => Ok(ElfMachine::X86_64),
            183 => Ok(ElfMachine::Aarch64),
            other => bail!("no package is made for the ELF machine {other}"),
        }
    }

    /// The machine that this program runs on; none if no package is made for it.
    pub fn here() -> Option<ElfMachine> {
        [ElfMachine::X86_64, ElfMachine::Aarch64].into_iter().find(|machine| machine.name() == std::env::consts::ARCH)
    }

    /// Its name in RPM packages and archives.
    pub fn name(self) -> &'static str {
        match self {
            ElfMachine::X86_64 => "x86_64",
            ElfMachine::Aarch64 => "aarch64",
        }
    }

    /// Its name in Debian packages.
    pub fn debian(self) -> &'static str {
        match self {
            ElfMachine::X86_64 => "amd64",
            ElfMachine::Aarch64 => "arm64",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_names_the_machine() {
        let header = |machine: u8| {
            let mut header = b"\x7fELF\x02\x01\x01".to_vec();
            header.resize(MACHINE_AT, 0);
            header.extend([machine, 0]);
            header
        };
        assert_eq!(ElfMachine::of(&header(62)).unwrap(), ElfMachine::X86_64);
        assert_eq!(ElfMachine::of(&header(183)).unwrap().debian(), "arm64");
        for wrong in [header(3), header(62)[..19].to_vec(), b"#!/bin/sh\necho a program of the shell".to_vec()] {
            assert!(ElfMachine::of(&wrong).is_err());
        }
        let this_program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Some(ElfMachine::of(&this_program).unwrap()), ElfMachine::here());
    }
}
