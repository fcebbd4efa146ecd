//! Digests of whole files against values computed by other programs (Python's hashlib and zlib; the CRC-32C by bit
//! matrices), and what happens to a digest when its file changes meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use model::Algorithm;
use store::digest::{of_file, of_unfinished};
use store::memory::Memory;
use store::posix::{Links, Posix};
use store::{Extent, Finish, Source, Store};
use support::{finish, path, pattern, skipped};
use sys::clock::thread_cpu;

fn stores() -> (tempfile::TempDir, [Box<dyn Store>; 2]) {
    let temp = tempfile::tempdir().unwrap();
    let posix = Posix::open(temp.path(), Links::Inside).unwrap();
    (temp, [Box::new(posix), Box::new(Memory::default())])
}

fn written(store: &dyn Store, blocks: &[(u64, &[u8])], size: u64) -> Arc<dyn Source> {
    let sink = store.create(&path("f"), "t").unwrap();
    blocks.iter().for_each(|(at, bytes)| sink.write_at(bytes, *at).unwrap());
    sink.commit(&Finish { ..finish(size) }).unwrap();
    store.open(&path("f")).unwrap()
}

fn digests(source: &dyn Source, algorithms: &[Algorithm]) -> Vec<String> {
    of_file(source, &path("f"), algorithms).unwrap().iter().map(|d| d.to_string()).collect()
}

#[test]
fn the_digests_of_a_dense_file_are_those_of_other_programs() {
    let (_temp, stores) = stores();
    for store in stores {
        let bytes = pattern((1 << 20) + 1);
        let source = written(&*store, &[(0, &bytes)], bytes.len() as u64);
        // In the order of the request.
        use Algorithm::{Adler32, Blake3, Crc32c, Md5, Sha256};
        let expected = [
            "sha256:25514c44a439ee6cf72c0efb36ed960ce101dc95703b2bc816ea6c286bbd92a9".to_string(),
            "adler32:6e2c74c7".into(),
            "md5:6c1429fdb6f38f35f5e229537de7607f".into(),
            "crc32c:aeaeda1c".into(),
            format!("blake3:{}", blake3::hash(&bytes)),
        ];
        assert_eq!(digests(&*source, &[Sha256, Adler32, Md5, Crc32c, Blake3]), expected);
        assert_eq!(digests(&*source, &[Crc32c]), ["crc32c:aeaeda1c"]);
        assert!(digests(&*source, &[]).is_empty());
    }
}

#[test]
fn the_digests_of_a_sparse_file_are_those_of_other_programs() {
    let (_temp, stores) = stores();
    for store in stores {
        let source = written(&*store, &[(1 << 20, &pattern(1 << 16))], 3 << 20);
        let expected = [
            "crc32c:2d57192a",
            "adler32:88d3187d",
            "md5:15499941052489700cb10bf8e5c48751",
            "sha256:ef65ad99a029b862c291db18722950819df39d1885c1a979afc8122fc7309dbd",
        ];
        assert_eq!(digests(&*source, &Algorithm::ALL)[..4], expected);
    }
}

/// Beyond the bytes written so far an unfinished file counts as a hole.
#[test]
fn the_digest_of_an_unfinished_file_covers_its_final_length() {
    let (_temp, stores) = stores();
    for store in stores {
        let sink = store.create(&path("f"), "t").unwrap();
        sink.write_at(b"abc", 4).unwrap();
        let all = [Algorithm::Sha256, Algorithm::Md5, Algorithm::Crc32c, Algorithm::Adler32];
        let early = of_unfinished(&*sink.as_source().unwrap(), &path("f"), &all, 1 << 20).unwrap();
        sink.commit(&finish(1 << 20)).unwrap();
        assert_eq!(early, of_file(&*store.open(&path("f")).unwrap(), &path("f"), &all).unwrap());
    }
}

#[test]
fn the_digests_of_an_empty_file_are_those_of_other_programs() {
    let (_temp, stores) = stores();
    for store in stores {
        let source = written(&*store, &[], 0);
        let expected = [
            "crc32c:00000000",
            "adler32:00000001",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
            concat!(
                "sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce",
                "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"
            ),
        ];
        assert_eq!(digests(&*source, &Algorithm::ALL), expected);
    }
}

/// A hole of 5 GiB: no byte is read, because CRC-32C and Adler-32 of zeros can be computed.
#[test]
fn five_gib_of_hole_take_no_time() {
    let (_temp, [posix, _]) = stores();
    let size = 5 << 30;
    let source = written(&*posix, &[], size);
    if source.extent(0, size).unwrap() != Extent::Hole(size) {
        return skipped("five_gib_of_hole_take_no_time", "this file system does not tell where holes are");
    }
    let before = thread_cpu();
    let sums = digests(&*source, &[Algorithm::Crc32c, Algorithm::Adler32]);
    assert_eq!(sums, ["crc32c:2cc5f6d6", "adler32:c10e0001"]);
    let spent = thread_cpu() - before;
    assert!(spent < Duration::from_millis(100), "{spent:?}");
}

/// A file that reports a larger length than it has, like a file that is cut short between two calls.
#[derive(Debug)]
struct Longer(Arc<dyn Source>, u64);

impl Source for Longer {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> store::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn stat(&self) -> store::Result<store::Stat> {
        let mut stat = self.0.stat()?;
        stat.meta.size = self.1;
        Ok(stat)
    }

    fn extent(&self, offset: u64, size: u64) -> store::Result<Extent> {
        self.0.extent(offset, size)
    }
}

/// The range that was cut off must not count as zeros.
#[test]
fn a_file_cut_short_is_an_error() {
    let (_temp, stores) = stores();
    for store in stores {
        for (block, size, believed) in [(4096, 4096, 8192), (4096, 1 << 20, 2 << 20), (0, 1 << 20, 2 << 20), (0, 0, 1)]
        {
            let source = written(&*store, &[(0, &pattern(block))], size);
            let error = of_file(&Longer(source, believed), &path("f"), &Algorithm::ALL).unwrap_err();
            assert!(error.to_string().contains("cannot read f"), "{error}");
            assert!(std::error::Error::source(&error).unwrap().to_string().contains("shorter"), "{error:?}");
        }
    }
}

#[test]
fn a_digest_that_is_no_longer_wanted_is_not_computed_further() {
    let (_temp, stores) = stores();
    for store in stores {
        let bytes = pattern(3 << 20);
        let source = written(&*store, &[(0, &bytes)], bytes.len() as u64);
        let calls = std::cell::Cell::new(0);
        let wanted_until = |most: u32| {
            calls.set(0);
            let still = || {
                calls.set(calls.get() + 1);
                calls.get() <= most
            };
            store::digest::of_file_while(&*source, &path("f"), &[Algorithm::Crc32c], &still).unwrap()
        };
        assert_eq!(wanted_until(1), None);
        assert_eq!(calls.get(), 2, "nothing is read after `false`");
        assert_eq!(wanted_until(9).unwrap(), of_file(&*source, &path("f"), &[Algorithm::Crc32c]).unwrap());
    }
}
