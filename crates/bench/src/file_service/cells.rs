//! The cells: the servers that take part, the command of the client, and the check of the result.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::servers::url;
use super::{MeasuredProtocol, ServerKind};
use crate::pki::Pki;
use crate::process::Server;

/// The client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// curl.
    Curl,
    /// davix-get and davix-put.
    Davix,
    /// xrdcp.
    Xrdcp,
}

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To the client.
    Get,
    /// From the client.
    Put,
}

/// The operation of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One large file.
    Large(Tool, Verb),
    /// A third-party copy that the measured server pulls from an xrootd.
    Pull,
    /// A third-party copy that an xrootd pulls from the measured server.
    Source,
    /// Many files of 1 MB over one connection, by curl or `xrdcp -r`.
    Small(Verb),
    /// [`CLIENTS`] clients at once, each of which reads a part of the large file's size.
    AtOnce,
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The protocol.
    pub protocol: MeasuredProtocol,
    /// The operation.
    pub operation: Operation,
    /// Whether it runs over TLS.
    pub tls: bool,
}

/// Size of a small file.
pub const SMALL: u64 = 1_000_000;
/// Clients at once.
pub const CLIENTS: u64 = 32;

impl Cell {
    /// All cells of a protocol, in the order of the report.
    pub fn all(protocol: MeasuredProtocol) -> Vec<Cell> {
        let cells = |operation| [false, true].map(|tls| Cell { protocol, operation, tls });
        let clear = |operation| Cell { protocol, operation, tls: false };
        let large = |tool| [Verb::Get, Verb::Put].map(|verb| Operation::Large(tool, verb));
        let small = [Verb::Get, Verb::Put].map(Operation::Small);
        match protocol {
            MeasuredProtocol::Http => {
                let large = [Tool::Curl, Tool::Davix].into_iter().flat_map(large);
                large.chain([Operation::Pull, Operation::Source]).chain(small).flat_map(cells).collect()
            }
            MeasuredProtocol::Root => {
                let by_both = large(Tool::Xrdcp).into_iter().chain(small).chain([Operation::AtOnce]).flat_map(cells);
                // `xrdcp -r` takes a directory that roots:// names for a file, whatever server has it.
                let by_both = by_both.filter(|cell| !(cell.tls && cell.operation == Operation::Small(Verb::Get)));
                // Over TLS the servers would find each other by addresses, which are not in their certificates.
                by_both.chain([Operation::Pull, Operation::Source].map(clear)).collect()
            }
        }
    }

    /// Its name for `--only`.
    pub fn name(self) -> String {
        let operation = match self.operation {
            Operation::Large(Tool::Curl, Verb::Get) => "curl-get",
            Operation::Large(Tool::Curl, Verb::Put) => "curl-put",
            Operation::Large(Tool::Davix, Verb::Get) => "davix-get",
            Operation::Large(Tool::Davix, Verb::Put) => "davix-put",
            Operation::Large(Tool::Xrdcp, Verb::Get) => "xrdcp-get",
            Operation::Large(Tool::Xrdcp, Verb::Put) => "xrdcp-put",
            Operation::AtOnce => "at-once",
            Operation::Pull => "pull",
            Operation::Source => "source",
            Operation::Small(Verb::Get) => "small-get",
            Operation::Small(Verb::Put) => "small-put",
        };
        format!("{operation}-{}", if self.tls { "tls" } else { "clear" })
    }

    /// Its title in tables.
    pub fn title(self, small: u64) -> String {
        let operation = match self.operation {
            Operation::Large(tool, verb) => {
                let tool = match tool {
                    Tool::Curl => "curl",
                    Tool::Davix => "davix",
                    Tool::Xrdcp => "xrdcp",
                };
                format!("{tool}, {}", if verb == Verb::Get { "GET" } else { "PUT" })
            }
            Operation::Pull => "third-party copy, pulled from an xrootd".into(),
            Operation::Source => "third-party copy, pulled by an xrootd".into(),
            Operation::Small(verb) => {
                format!("{} of {small} × 1 MB, one connection", if verb == Verb::Get { "GET" } else { "PUT" })
            }
            Operation::AtOnce => format!("{CLIENTS} clients at once, GET"),
        };
        format!("{operation}{}", if self.tls { ", TLS" } else { "" })
    }

    /// Whether the operation writes files, which must be compared and emptied.
    pub fn writes(self) -> bool {
        !matches!(self.operation, Operation::Large(_, Verb::Get) | Operation::Small(Verb::Get) | Operation::AtOnce)
    }

    /// Whether it moves many files.
    pub fn is_small(self) -> bool {
        matches!(self.operation, Operation::Small(_))
    }
}

/// The inputs of one run of a cell.
pub struct CellInputs<'a> {
    /// The cell.
    pub cell: Cell,
    /// The kind of the measured server.
    pub kind: ServerKind,
    /// The measured server.
    pub server: &'a Server,
    /// An xrootd as the other party of third-party copies.
    pub other: &'a Server,
    /// Certificates.
    pub pki: &'a Pki,
    /// Source files: `large` and `small/NUMBER` below the directory that all servers show.
    pub data: &'a Path,
    /// How many small files.
    pub small: u64,
    /// The fresh directory of this run below `data`, for the written files.
    pub target: String,
    /// The directory for lists and answers.
    pub scratch: &'a Path,
}

/// The file that each of many clients reads.
pub const PART: &str = "part";

/// The name of a small file.
pub fn small_name(at: u64) -> String {
    format!("small/{at:06}")
}

impl CellInputs<'_> {
    /// The client's command line.
    ///
    /// # Errors
    /// The list of files for curl cannot be written.
    pub fn words(&self) -> Result<Vec<String>> {
        match self.cell.protocol {
            MeasuredProtocol::Http => self.http_words(),
            MeasuredProtocol::Root => Ok(self.root_words()),
        }
    }

    fn url(&self, server: &Server, path: &str) -> String {
        url(server, self.cell.protocol, self.cell.tls, path)
    }

    fn root_words(&self) -> Vec<String> {
        let source = |name: &str| self.data.join(name).display().to_string();
        let at = |path: &str| self.url(self.server, path);
        let mut words = vec!["env".to_owned(), format!("X509_CERT_DIR={}", self.pki.directory.display())];
        let mut xrdcp = |more: &[&str]| {
            words.extend(["xrdcp", "--nopbar", "-s", "-f"].iter().chain(more).map(ToString::to_string));
        };
        match self.cell.operation {
            Operation::Large(_, Verb::Get) => xrdcp(&[&at("large"), "/dev/null"]),
            Operation::Large(_, Verb::Put) => xrdcp(&[&source("large"), &at(&format!("{}/large", self.target))]),
            Operation::Small(Verb::Get) => xrdcp(&["-r", &at("small"), &self.fetched().display().to_string()]),
            Operation::Small(Verb::Put) => xrdcp(&["-r", &source("small"), &at(&format!("{}/", self.target))]),
            Operation::Pull | Operation::Source => {
                let (from, to) = match self.cell.operation {
                    Operation::Pull => (self.other, self.server),
                    _ => (self.server, self.other),
                };
                let (from, to) = (self.url(from, "large"), self.url(to, &format!("{}/large", self.target)));
                xrdcp(&["--tpc", "only", &from, &to]);
            }
            Operation::AtOnce => {
                let one = format!("xrdcp --nopbar -s -f {} /dev/null", at(PART));
                words.extend(["sh", "-c"].map(String::from));
                words.push(format!("seq {CLIENTS} | xargs -P {CLIENTS} -I NUMBER {one}"));
            }
        }
        words
    }

    /// The directory for small files that xrdcp fetches.
    pub fn fetched(&self) -> PathBuf {
        self.scratch.join("fetched")
    }

    fn http_words(&self) -> Result<Vec<String>> {
        let cell = self.cell;
        let ca = self.pki.ca.display().to_string();
        let at = |server: &Server, path: &str| self.url(server, path);
        let source = self.data.join("large").display().to_string();
        let target = format!("{}/large", self.target);
        let words = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
        let curl = ["curl", "-sS", "-f", "--cacert", &ca];
        Ok(match cell.operation {
            Operation::Large(Tool::Curl, Verb::Get) => {
                words(&[&curl[..], &["-o", "/dev/null", &at(self.server, "large")]].concat())
            }
            Operation::Large(Tool::Curl, Verb::Put) => {
                words(&[&curl[..], &["-T", &source, &at(self.server, &target)]].concat())
            }
            // `-k`: a certificate check takes the same few milliseconds with both servers, and davix needs a directory of hashed names
            // for it.
            Operation::Large(Tool::Davix, Verb::Get) => {
                words(&["davix-get", "-k", &at(self.server, "large"), "/dev/null"])
            }
            Operation::Large(Tool::Davix, Verb::Put) => words(&["davix-put", "-k", &source, &at(self.server, &target)]),
            Operation::Large(Tool::Xrdcp, _) | Operation::AtOnce => bail!("no client of HTTP does this here"),
            Operation::Pull | Operation::Source => {
                let (active, passive) = match cell.operation {
                    Operation::Pull => (self.server, self.other),
                    _ => (self.other, self.server),
                };
                let from = format!("Source: {}", at(passive, "large"));
                let answer = self.answer().display().to_string();
                let more = ["-X", "COPY", "-H", &from, "-H", "Credential: none", "-o", &answer, &at(active, &target)];
                words(&[&curl[..], &more].concat())
            }
            Operation::Small(verb) => {
                let list = self.list(verb)?.display().to_string();
                words(&[&curl[..], &["-K", &list]].concat())
            }
        })
    }

    /// The file for the answer to a third-party copy.
    fn answer(&self) -> PathBuf {
        self.scratch.join("answer")
    }

    /// Writes curl's arguments for many files to a file.
    fn list(&self, verb: Verb) -> Result<PathBuf> {
        let mut text = String::new();
        for at in 0..self.small {
            let name = small_name(at);
            match verb {
                Verb::Get => {
                    writeln!(text, "url = \"{}\"\noutput = \"/dev/null\"", self.url(self.server, &name))?;
                }
                Verb::Put => {
                    let file = self.data.join(&name);
                    let path = format!("{}/{name}", self.target);
                    let to = self.url(self.server, &path);
                    writeln!(text, "url = \"{to}\"\nupload-file = \"{}\"\noutput = \"/dev/null\"", file.display())?;
                }
            }
        }
        let list = self.scratch.join("list");
        fs::write(&list, text)?;
        Ok(list)
    }

    /// Checks that the written files exist and have their sizes. Contents are compared after the last round.
    ///
    /// # Errors
    /// A third-party copy failed, or a file is missing or has another size.
    pub fn check(&self) -> Result<()> {
        let is_third_party = matches!(self.cell.operation, Operation::Pull | Operation::Source);
        if is_third_party && self.cell.protocol == MeasuredProtocol::Http {
            let text = fs::read_to_string(self.answer())?;
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            ensure!(last.starts_with("success"), "the copy ended in {last:?}");
        }
        if !self.cell.writes() {
            return Ok(());
        }
        let names: Vec<String> = match self.cell.operation {
            Operation::Small(_) => (0..self.small).map(small_name).collect(),
            _ => vec!["large".into()],
        };
        for name in names {
            let (from, to) = (self.data.join(&name), self.data.join(&self.target).join(&name));
            let (from, to) = (fs::metadata(from)?.len(), fs::metadata(&to).map(|meta| meta.len()));
            match to {
                Ok(to) if to == from => {}
                to => bail!("{name}: {to:?} bytes instead of {from}"),
            }
        }
        Ok(())
    }
}
