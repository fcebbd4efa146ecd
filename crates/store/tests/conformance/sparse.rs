//! Holes: they take no room, and they are found again.

use store::{Extent, Store};

use crate::support::{finish, path, pattern, skipped};

const TIB: u64 = 1 << 40;

pub fn holes_are_found(store: &dyn Store) {
    if !store.capabilities().sparse {
        return;
    }
    let (at, block) = (path("f"), pattern(1 << 16));
    let starts = [1 << 20, TIB / 2];
    let sink = store.create(&at, "t").unwrap();
    for start in starts {
        if let Err(error) = sink.write_at(&block, start) {
            return skipped("sparse::holes_are_found", &error.to_string());
        }
    }
    if let Err(error) = sink.commit(&finish(TIB)) {
        return skipped("sparse::holes_are_found", &error.to_string());
    }
    let source = store.open(&at).unwrap();
    if source.extent(0, TIB).unwrap() == Extent::Data(TIB) {
        return skipped("sparse::holes_are_found", "this file system does not tell where holes are");
    }
    let (mut offset, mut data) = (0, Vec::new());
    while offset < TIB {
        let end = match source.extent(offset, TIB).unwrap() {
            Extent::Data(end) => {
                data.push(offset..end);
                end
            }
            Extent::Hole(end) => end,
        };
        assert!(end > offset && end <= TIB, "an extent goes forward and stays inside: {offset} {end}");
        offset = end;
    }
    for start in starts {
        assert!(data.iter().any(|d| d.start <= start && d.end >= start + (1 << 16)), "{start} in {data:?}");
        let mut back = vec![1; block.len()];
        assert_eq!(source.read_at(&mut back, start).unwrap(), back.len());
        assert!(back == block);
    }
    let total: u64 = data.iter().map(|d| d.end - d.start).sum();
    assert!(total < 1 << 24, "data of {total} bytes");
    let stat = store.stat(&at).unwrap();
    assert!(stat.meta.size == TIB && stat.allocated < 1 << 24, "{stat:?}");
    let mut zeros = vec![1; 4096];
    assert_eq!(source.read_at(&mut zeros, TIB - 4096).unwrap(), 4096);
    assert!(zeros.iter().all(|b| *b == 0));
}
