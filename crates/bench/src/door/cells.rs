//! What is done in each cell: which servers take part, what the client is told, and what must come of it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::Who;
use super::pki::Pki;
use super::servers::url;
use crate::process::Server;

/// The client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// curl.
    Curl,
    /// davix-get and davix-put.
    Davix,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To the client.
    Get,
    /// From the client.
    Put,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One large file.
    Large(Tool, Verb),
    /// A third-party copy pulled by the server in question from an xrootd.
    Pull,
    /// A third-party copy pulled by an xrootd from the server in question.
    Source,
    /// Many files of 1 MB over one connection, by curl.
    Small(Verb),
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What.
    pub what: What,
    /// In TLS.
    pub tls: bool,
}

/// Size of a small file.
pub const SMALL: u64 = 1_000_000;

impl Cell {
    /// All, in the order of the report.
    pub fn all() -> Vec<Cell> {
        let mut whats = Vec::new();
        for tool in [Tool::Curl, Tool::Davix] {
            whats.extend([Verb::Get, Verb::Put].map(|verb| What::Large(tool, verb)));
        }
        whats.extend([What::Pull, What::Source, What::Small(Verb::Get), What::Small(Verb::Put)]);
        whats.into_iter().flat_map(|what| [false, true].map(|tls| Cell { what, tls })).collect()
    }

    /// Its name for `--only`.
    pub fn name(self) -> String {
        let what = match self.what {
            What::Large(Tool::Curl, Verb::Get) => "curl-get",
            What::Large(Tool::Curl, Verb::Put) => "curl-put",
            What::Large(Tool::Davix, Verb::Get) => "davix-get",
            What::Large(Tool::Davix, Verb::Put) => "davix-put",
            What::Pull => "pull",
            What::Source => "source",
            What::Small(Verb::Get) => "small-get",
            What::Small(Verb::Put) => "small-put",
        };
        format!("{what}-{}", if self.tls { "tls" } else { "clear" })
    }

    /// Its title in tables.
    pub fn title(self, small: u64) -> String {
        let what = match self.what {
            What::Large(tool, verb) => {
                let tool = if tool == Tool::Curl { "curl" } else { "davix" };
                format!("{tool}, {}", if verb == Verb::Get { "GET" } else { "PUT" })
            }
            What::Pull => "third-party copy, pulled from an xrootd".into(),
            What::Source => "third-party copy, pulled by an xrootd".into(),
            What::Small(verb) => {
                format!("{} of {small} × 1 MB, one connection", if verb == Verb::Get { "GET" } else { "PUT" })
            }
        };
        format!("{what}{}", if self.tls { ", TLS" } else { "" })
    }

    /// Whether something is written that must be compared and emptied.
    pub fn writes(self) -> bool {
        !matches!(self.what, What::Large(_, Verb::Get) | What::Small(Verb::Get))
    }

    /// Whether it moves many files.
    pub fn is_small(self) -> bool {
        matches!(self.what, What::Small(_))
    }
}

/// All that a run of a cell needs.
pub struct Setting<'a> {
    /// The cell.
    pub cell: Cell,
    /// Whose turn it is.
    pub who: Who,
    /// The server of whose turn it is.
    pub server: &'a Server,
    /// An xrootd as the other party of third-party copies.
    pub other: &'a Server,
    /// Certificates.
    pub pki: &'a Pki,
    /// Source files: `large` and `small/NUMBER` below the directory that all servers show.
    pub data: &'a Path,
    /// How many small files.
    pub small: u64,
    /// The fresh directory of this run below `data`, for what is written.
    pub target: String,
    /// For lists and answers.
    pub scratch: &'a Path,
}

/// The name of a small file.
pub fn small_name(at: u64) -> String {
    format!("small/{at:06}")
}

impl Setting<'_> {
    /// The client's words.
    pub fn words(&self) -> Result<Vec<String>> {
        let (cell, ca) = (self.cell, self.pki.ca.display().to_string());
        let at = |server: &Server, path: &str| url(server, cell.tls, path);
        let (source, target) = (self.data.join("large").display().to_string(), format!("{}/large", self.target));
        let words = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<String>>();
        let curl = ["curl", "-sS", "-f", "--cacert", &ca];
        Ok(match cell.what {
            What::Large(Tool::Curl, Verb::Get) => {
                words(&[&curl[..], &["-o", "/dev/null", &at(self.server, "large")]].concat())
            }
            What::Large(Tool::Curl, Verb::Put) => {
                words(&[&curl[..], &["-T", &source, &at(self.server, &target)]].concat())
            }
            // Checks of certificates are the same few milliseconds for both; davix wants a directory of hashed names.
            What::Large(Tool::Davix, Verb::Get) => words(&["davix-get", "-k", &at(self.server, "large"), "/dev/null"]),
            What::Large(Tool::Davix, Verb::Put) => words(&["davix-put", "-k", &source, &at(self.server, &target)]),
            What::Pull | What::Source => {
                let (active, passive) = match cell.what {
                    What::Pull => (self.server, self.other),
                    _ => (self.other, self.server),
                };
                let from = format!("Source: {}", at(passive, "large"));
                let answer = self.answer().display().to_string();
                let more = ["-X", "COPY", "-H", &from, "-H", "Credential: none", "-o", &answer, &at(active, &target)];
                words(&[&curl[..], &more].concat())
            }
            What::Small(verb) => {
                let list = self.list(verb)?.display().to_string();
                words(&[&curl[..], &["-K", &list]].concat())
            }
        })
    }

    /// Where a third-party copy's answer goes.
    fn answer(&self) -> PathBuf {
        self.scratch.join("answer")
    }

    /// curl's words for many files, as a file.
    fn list(&self, verb: Verb) -> Result<PathBuf> {
        let mut text = String::new();
        for at in 0..self.small {
            let name = small_name(at);
            match verb {
                Verb::Get => {
                    writeln!(text, "url = \"{}\"\noutput = \"/dev/null\"", url(self.server, self.cell.tls, &name))?;
                }
                Verb::Put => {
                    let file = self.data.join(&name);
                    let path = format!("{}/{name}", self.target);
                    let to = url(self.server, self.cell.tls, &path);
                    writeln!(text, "url = \"{to}\"\nupload-file = \"{}\"\noutput = \"/dev/null\"", file.display())?;
                }
            }
        }
        let list = self.scratch.join("list");
        fs::write(&list, text)?;
        Ok(list)
    }

    /// Whether what was to be written is there, by its sizes: contents are compared after the last round.
    pub fn check(&self) -> Result<()> {
        if matches!(self.cell.what, What::Pull | What::Source) {
            let text = fs::read_to_string(self.answer())?;
            let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            ensure!(last.starts_with("success"), "the copy ended in {last:?}");
        }
        if !self.cell.writes() {
            return Ok(());
        }
        let names: Vec<String> = match self.cell.what {
            What::Small(_) => (0..self.small).map(small_name).collect(),
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
