//! What is published of a version, and what is promised of it: old systems have its C library, it is not large, and it names the crates that
//! it is made of.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::{GeneratedFiles, PackageOptions, deb, depends, dist, rpm, symbols, write_checksums};

/// The newest C library that a published program may need: that of Enterprise Linux 8.
const GLIBC_MAX: (u32, u32) = (2, 28);
/// Bytes of a published program at most, so that it does not grow unseen. 35 MiB are intended.
const PROGRAM_BYTES_MAX: usize = 49 << 20;
/// The section in which `cargo auditable` lists the crates of a program.
const CRATES_SECTION: &[u8] = b".dep-v0";

/// Makes all packages and the archive of the symbols; returns their directory.
///
/// # Errors
/// The program breaks a promise, a file cannot be read or written, or a tool fails.
pub fn build(options: &PackageOptions) -> Result<PathBuf> {
    let generated = GeneratedFiles::of(options)?;
    check(&generated.program)?;
    deb::build(options, &generated)?;
    rpm::build(options, &generated)?;
    dist::build(options, &generated)?;
    symbols::build(options, &generated)?;
    write_checksums(&options.out)?;
    Ok(options.out.clone())
}

/// Checks what is promised of a program without symbols.
fn check(program: &[u8]) -> Result<()> {
    let newest = depends::newest_symbol(program).context("the program uses no symbol of the C library")?;
    let ((major, minor), (most_major, most_minor)) = (newest, GLIBC_MAX);
    ensure!(
        newest <= GLIBC_MAX,
        "the program needs the C library {major}.{minor}; published ones need {most_major}.{most_minor} at most \
         (scripts/release.sh links for it)"
    );
    ensure!(
        program.windows(CRATES_SECTION.len()).any(|bytes| bytes == CRATES_SECTION),
        "the program does not list its crates (scripts/release.sh builds it with cargo auditable)"
    );
    let (mib, most) = (program.len() >> 20, PROGRAM_BYTES_MAX >> 20);
    ensure!(
        program.len() <= PROGRAM_BYTES_MAX,
        "the program has {mib} MiB without symbols; published ones have {most} at most"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_breaks_a_promise_is_not_published() {
        let said = |program: &[u8]| check(program).unwrap_err().to_string();
        assert!(said(b"GLIBC_2.2.5 GLIBC_2.29 .dep-v0").contains("needs the C library 2.29"));
        assert!(said(b"GLIBC_2.28\0").contains("does not list its crates"));
        assert!(said(b".dep-v0").contains("no symbol of the C library"));
        check(b"GLIBC_2.2.5 GLIBC_2.28 .dep-v0").unwrap();
        let mut large = b"GLIBC_2.28 .dep-v0".to_vec();
        large.resize(PROGRAM_BYTES_MAX + (1 << 20), 0);
        assert!(said(&large).contains("has 50 MiB without symbols"));
    }
}
