//! Facts of entries as text: of one entry, and of the entries of a directory.

use model::checksum::Digest;
use model::name::Name;

use crate::Malformed;
use crate::bytes::before_nul;

/// Flags of an entry.
pub mod entry_flags {
    /// A file that can be executed, or a directory that can be entered.
    pub const EXECUTABLE: u32 = 1;
    /// A directory.
    pub const DIRECTORY: u32 = 2;
    /// Neither a file nor a directory.
    pub const OTHER: u32 = 4;
    /// On tape, and not on disk.
    pub const OFFLINE: u32 = 8;
    /// The client may read it.
    pub const READABLE: u32 = 16;
    /// The client may change it.
    pub const WRITABLE: u32 = 32;
    /// It is being written, and is removed unless it is closed.
    pub const UNFINISHED: u32 = 64;
}

/// The facts of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFacts {
    /// A number that tells files apart.
    pub id: u64,
    /// Bytes.
    pub size: u64,
    /// [`entry_flags`].
    pub flags: u32,
    /// The last change, seconds since 1970.
    pub mtime: i64,
    /// Permission bits, where the server reports them.
    pub mode: Option<u32>,
}

impl EntryFacts {
    /// Parses `id size flags mtime [ctime atime mode owner group]`.
    ///
    /// # Errors
    /// [`Malformed::Field`]: fewer than four numbers.
    pub fn parse(text: &str) -> Result<EntryFacts, Malformed> {
        const WHAT: Malformed = Malformed::Field("the facts of an entry");
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [id, size, flags, mtime, rest @ ..] = &words[..] else { return Err(WHAT) };
        // Servers write the number of a file as signed or unsigned, and nobody counts with it.
        let id = id.parse::<u64>().or_else(|_| id.parse::<i64>().map(i64::cast_unsigned)).unwrap_or(0);
        Ok(EntryFacts {
            id,
            size: size.parse().map_err(|_| WHAT)?,
            flags: flags.parse().map_err(|_| WHAT)?,
            mtime: mtime.parse().map_err(|_| WHAT)?,
            mode: rest.get(2).and_then(|mode| u32::from_str_radix(mode, 8).ok()),
        })
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.flags & entry_flags::DIRECTORY != 0
    }
}

impl std::fmt::Display for EntryFacts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let EntryFacts { id, size, flags, mtime, mode } = self;
        write!(f, "{id} {size} {flags} {mtime}")?;
        // Clients read the long form from nine words on.
        mode.map_or(Ok(()), |mode| write!(f, " {mtime} {mtime} {mode:04o} - -"))
    }
}

/// The space below a path, as an answer to a stat of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceFacts {
    /// Whether files can be written there.
    pub is_writable: bool,
    /// Free bytes.
    pub free_bytes: u64,
    /// Used part, percent.
    pub used_percent: u8,
}

impl std::fmt::Display for SpaceFacts {
    /// Servers for writing, the free space in MiB and the used part of it; the same three of the space for staging, which is none.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SpaceFacts { is_writable, free_bytes, used_percent } = self;
        write!(f, "{} {} {used_percent} 0 0 0", u8::from(*is_writable), free_bytes >> 20)
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its name.
    pub name: Name,
    /// Its facts, where they were asked for.
    pub facts: Option<EntryFacts>,
}

/// What a listing with facts begins with, so that clients see that the server knows them.
const FACTS_LEAD: &str = ".\n0 0 0 0";

/// Writes a listing, part by part.
#[derive(Debug, Default)]
pub struct ListingWriter {
    text: Vec<u8>,
}

impl ListingWriter {
    /// A listing; `has_facts` says whether each entry has them.
    pub fn new(has_facts: bool) -> ListingWriter {
        ListingWriter { text: if has_facts { FACTS_LEAD.into() } else { Vec::new() } }
    }

    /// Adds an entry, with the checksum of its file where that was asked for. An entry whose name has a line end cannot be listed.
    pub fn add(&mut self, name: &Name, facts: Option<&EntryFacts>, digest: Option<Option<&Digest>>) {
        if name.as_bytes().contains(&b'\n') {
            return;
        }
        if !self.text.is_empty() {
            self.text.push(b'\n');
        }
        self.text.extend_from_slice(name.as_bytes());
        if let Some(facts) = facts {
            self.text.extend_from_slice(format!("\n{facts}").as_bytes());
        }
        match digest {
            Some(Some(digest)) => self.text.extend_from_slice(format!(" [ {digest} ]").as_bytes()),
            Some(None) => self.text.extend_from_slice(b" [ none:none ]"),
            None => {}
        }
    }

    /// Bytes that have been written and not taken.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether nothing has been written since the last part.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes a part. The next part goes on with a line of its own, because clients join the parts.
    pub fn take_part(&mut self) -> Vec<u8> {
        let mut part = std::mem::take(&mut self.text);
        part.push(b'\n');
        part
    }

    /// The last part.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.text.is_empty() {
            self.text.push(0);
        }
        self.text
    }
}

/// Parses a listing, of which all parts have been joined. `.` and `..` are left out, and so is a name that no file can have.
///
/// # Errors
/// [`Malformed::Field`]: the facts of an entry are missing.
pub fn parse_listing(bytes: &[u8], asked_for_facts: bool) -> Result<Vec<ListedEntry>, Malformed> {
    let mut lines = before_nul(bytes).split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).peekable();
    // A server that does not know how to add facts sends names only.
    let has_facts = asked_for_facts && before_nul(bytes).starts_with(b".\n");
    let mut entries = Vec::new();
    while let Some(name) = lines.next() {
        let facts = if has_facts {
            let line = lines.next().ok_or(Malformed::Field("the facts of an entry"))?;
            Some(EntryFacts::parse(&String::from_utf8_lossy(line))?)
        } else {
            None
        };
        if let Ok(name) = Name::new(name) {
            entries.push(ListedEntry { name, facts });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_written_as_they_are_parsed() {
        let facts = EntryFacts { id: 7, size: 12, flags: 51, mtime: 1_700_000_000, mode: Some(0o644) };
        assert_eq!(facts.to_string(), "7 12 51 1700000000 1700000000 1700000000 0644 - -");
        assert_eq!(EntryFacts::parse(&facts.to_string()), Ok(facts));
        assert_eq!(EntryFacts::parse("-9 0 2 5").map(|facts| (facts.is_dir(), facts.mode)), Ok((true, None)));
        assert!(EntryFacts::parse("1 2 3").is_err() && EntryFacts::parse("1 x 3 4").is_err());
    }

    #[test]
    fn a_listing_in_parts_is_parsed_as_one() {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let facts = EntryFacts { size: 5, flags: 16, ..EntryFacts::default() };
        let mut listing = ListingWriter::new(true);
        listing.add(&name("a"), Some(&facts), None);
        let mut bytes = listing.take_part();
        listing.add(&name("b c"), Some(&facts), Some(Some(&Digest::crc32c(1))));
        listing.add(&name("two\nlines"), Some(&facts), None);
        bytes.extend(listing.finish());
        let read = parse_listing(&bytes, true).unwrap();
        let names: Vec<String> = read.iter().map(|entry| entry.name.to_string()).collect();
        assert_eq!(names, ["a", "b c"]);
        assert_eq!(read[1].facts, Some(facts));
        assert_eq!(parse_listing(b"x\n.\ny\0", true).unwrap().len(), 2, "an old server sends names only");
        assert!(parse_listing(b".\n0 0 0 0\na", true).is_err());
    }
}
