//! Names are bytes: everything but `/` and NUL goes in and comes out unchanged.

use store::Store;

use crate::support::{names, path, read, write};

pub fn any_byte_is_a_name(store: &dyn Store) {
    if !store.capabilities().any_name {
        return;
    }
    let bytes = || (1..=255u8).filter(|b| *b != b'/' && *b != b'.');
    for byte in bytes() {
        write(store, &path([byte]), &[byte]).unwrap();
    }
    assert_eq!(names(store, &path("")), bytes().map(|b| vec![b]).collect::<Vec<_>>());
    for byte in bytes() {
        assert_eq!(read(store, &path([byte])).unwrap(), [byte], "{byte:#x}");
    }
}

pub fn long_and_odd_names(store: &dyn Store) {
    let odd: [&[u8]; 12] = [
        &[b'x'; 255],
        &[0xff; 255],
        &[b'\n'; 255],
        b"new\nline",
        b"\xc3\x28",
        b" ",
        b"-rf",
        b"...",
        b"..x",
        b"~",
        b"a\\b",
        b"*?[]\"'`$(x)",
    ];
    // Some servers keep the metadata of a file beside it, under a longer name.
    let is_text = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|text| !text.contains(char::is_control));
    let is_plain = |name: &[u8]| name.len() < 200 && is_text(name);
    let fits = |name: &[u8]| store.capabilities().any_name || is_plain(name);
    let odd: Vec<&[u8]> = odd.into_iter().filter(|name| fits(name)).collect();
    for name in &odd {
        write(store, &path(name), name).unwrap();
        let dir = path([b"d", &name[..name.len().min(254)]].concat());
        store.make_dir(&dir).unwrap();
        write(store, &path([dir.as_bytes(), b"/", name].concat()), b"below").unwrap();
        assert_eq!(names(store, &dir), [name.to_vec()]);
    }
    assert_eq!(names(store, &path("")).len(), 2 * odd.len());
    for name in odd {
        assert_eq!(read(store, &path(name)).unwrap(), name);
    }
}
