//! The tools that an agent can run, and what each of them can do. A tool is a row of a table; its arguments are made by a function of
//! [`arguments`] from checked fields, never by a shell.
//!
//! What this module does not know: where the programs are on this host (`installed`), and when they run.

use super::arguments::{self, ClientTask};
use super::process::OutputForm;

/// How the remote end is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemoteForm {
    /// A URL of one of these schemes.
    Url(&'static [&'static str]),
    /// `HOST:PORT`, as the source of both directions.
    Server,
}

/// How a tool gets a bearer. Arguments are not among the ways: every user of the host can read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BearerChannel {
    /// As a line of a configuration file of curl, on standard input.
    Stdin,
    /// In this variable of its environment.
    Variable(&'static str),
    /// It takes none.
    None,
}

/// Whether a tool can limit its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitOption {
    /// Every version can.
    Always,
    /// Versions whose help names this option can.
    IfHelpNames(&'static str),
    /// It has no such option.
    Never,
}

/// How a tool discards what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiscardForm {
    /// It has a word for it, or no local file at all.
    OwnWord,
    /// It writes to its stdout, which is discarded.
    Stdout,
    /// It writes to a link that leads to `/dev/null`. A tool that removes its target after an error removes the link.
    Link,
    /// It cannot.
    Never,
}

/// A tool: how its arguments are made, and which options it has.
pub(super) struct ToolTemplate {
    /// Its name in orders.
    pub name: &'static str,
    /// The name of its program; it is looked up in PATH, except for `longhaul`, which is this program.
    pub program: &'static str,
    /// The argument that prints its version.
    pub version_argument: &'static str,
    /// How its remote end is written.
    pub remote: RemoteForm,
    /// How it gets a bearer.
    pub bearer: BearerChannel,
    /// Whether it can verify a server by its public key.
    pub can_pin: bool,
    /// Whether it can limit its rate.
    pub limit: LimitOption,
    /// The most streams of a process.
    pub streams_max: u32,
    /// Whether the buffers of its sockets can be set.
    pub can_set_window: bool,
    /// The schemes to which `streams_max` and `can_set_window` apply; empty for all.
    pub tuned_schemes: &'static [&'static str],
    /// Whether a process can get several files.
    pub copies_several: bool,
    /// How it discards what arrives.
    pub discard: DiscardForm,
    /// What it prints.
    pub output: OutputForm,
    /// Variables that it always gets.
    pub environment: &'static [(&'static str, &'static str)],
    /// Makes its arguments.
    pub arguments: fn(&ClientTask<'_>) -> Vec<String>,
}

/// The protocols of GridFTP: only there gfal2 and Globus have streams and windows.
const GRIDFTP: &[&str] = &["gsiftp"];

/// All tools.
pub(super) static TOOLS: [ToolTemplate; 7] = [
    ToolTemplate {
        name: "curl",
        program: "curl",
        version_argument: "--version",
        remote: RemoteForm::Url(&["https", "http"]),
        bearer: BearerChannel::Stdin,
        can_pin: true,
        limit: LimitOption::Always,
        streams_max: 1,
        can_set_window: false,
        tuned_schemes: &[],
        copies_several: true,
        discard: DiscardForm::Link,
        output: OutputForm::Bytes,
        environment: &[],
        arguments: arguments::curl,
    },
    ToolTemplate {
        name: "xrdcp",
        program: "xrdcp",
        version_argument: "--version",
        remote: RemoteForm::Url(&["root", "roots", "https"]),
        bearer: BearerChannel::Variable("BEARER_TOKEN"),
        can_pin: false,
        limit: LimitOption::IfHelpNames("--xrate"),
        // The bound of xrdcp itself.
        streams_max: 15,
        can_set_window: false,
        tuned_schemes: &["root", "roots"],
        copies_several: true,
        discard: DiscardForm::Stdout,
        output: OutputForm::Nothing,
        // A file `x.meta4` is data here; xrdcp would read other servers from it and copy from those.
        environment: &[("XRD_METALINKPROCESSING", "0")],
        arguments: arguments::xrdcp,
    },
    ToolTemplate {
        name: "gfal-copy",
        program: "gfal-copy",
        version_argument: "--version",
        remote: RemoteForm::Url(&["https", "davs", "root", "roots", "gsiftp"]),
        bearer: BearerChannel::Variable("BEARER_TOKEN"),
        can_pin: false,
        limit: LimitOption::Never,
        streams_max: 64,
        can_set_window: true,
        tuned_schemes: GRIDFTP,
        copies_several: false,
        // After an error it removes its target, whatever that is, and it refuses to write over some special files.
        discard: DiscardForm::Never,
        output: OutputForm::Nothing,
        environment: &[],
        arguments: arguments::gfal_copy,
    },
    ToolTemplate {
        name: "globus-url-copy",
        program: "globus-url-copy",
        version_argument: "-version",
        remote: RemoteForm::Url(GRIDFTP),
        bearer: BearerChannel::None,
        can_pin: false,
        limit: LimitOption::Never,
        streams_max: 64,
        can_set_window: true,
        tuned_schemes: &[],
        copies_several: false,
        discard: DiscardForm::Link,
        output: OutputForm::Nothing,
        environment: &[],
        arguments: arguments::globus_url_copy,
    },
    ToolTemplate {
        name: "rsync",
        program: "rsync",
        version_argument: "--version",
        remote: RemoteForm::Url(&["rsync"]),
        bearer: BearerChannel::None,
        can_pin: false,
        limit: LimitOption::Always,
        streams_max: 1,
        can_set_window: true,
        tuned_schemes: &[],
        copies_several: true,
        discard: DiscardForm::Never,
        output: OutputForm::Nothing,
        environment: &[],
        arguments: arguments::rsync,
    },
    ToolTemplate {
        name: "iperf3",
        program: "iperf3",
        version_argument: "--version",
        remote: RemoteForm::Server,
        bearer: BearerChannel::None,
        can_pin: false,
        limit: LimitOption::Always,
        // The bound of iperf3 itself.
        streams_max: 128,
        can_set_window: true,
        tuned_schemes: &[],
        copies_several: false,
        discard: DiscardForm::OwnWord,
        output: OutputForm::Iperf3,
        environment: &[],
        arguments: arguments::iperf3,
    },
    ToolTemplate {
        name: "longhaul",
        program: "longhaul",
        version_argument: "--version",
        remote: RemoteForm::Url(&["lh"]),
        bearer: BearerChannel::Variable("LONGHAUL_KEY"),
        can_pin: false,
        limit: LimitOption::Always,
        streams_max: 128,
        can_set_window: false,
        tuned_schemes: &[],
        copies_several: false,
        discard: DiscardForm::OwnWord,
        output: OutputForm::Longhaul,
        environment: &[],
        arguments: arguments::longhaul,
    },
];

/// The tool of this name.
pub(super) fn find(name: &str) -> Option<&'static ToolTemplate> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// The names of all tools.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

impl ToolTemplate {
    /// Whether the options for streams and windows apply to a scheme.
    pub fn tunes(&self, scheme: &str) -> bool {
        self.tuned_schemes.is_empty() || self.tuned_schemes.contains(&scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::STREAMS_MAX;
    use super::*;

    /// The row of a tool in docs/exercise.md.
    fn row(tool: &ToolTemplate) -> String {
        let remote = match tool.remote {
            RemoteForm::Url(schemes) => schemes.join(", "),
            RemoteForm::Server => "HOST:PORT".to_owned(),
        };
        let bearer = match tool.bearer {
            BearerChannel::Stdin => "on standard input".to_owned(),
            BearerChannel::Variable(name) => format!("`{name}`"),
            BearerChannel::None => "no".to_owned(),
        };
        let limit = match tool.limit {
            LimitOption::Always => "yes".to_owned(),
            LimitOption::IfHelpNames(option) => format!("if it has `{option}`"),
            LimitOption::Never => "no".to_owned(),
        };
        let yes = |yes: bool| if yes { "yes" } else { "no" };
        let tuned =
            if tool.tuned_schemes.is_empty() { String::new() } else { format!(" ({})", tool.tuned_schemes.join(", ")) };
        let streams = format!("{}{}", tool.streams_max, if tool.streams_max > 1 { tuned.as_str() } else { "" });
        let window = format!("{}{}", yes(tool.can_set_window), if tool.can_set_window { tuned.as_str() } else { "" });
        let discards = yes(tool.discard != DiscardForm::Never);
        let name = tool.name;
        format!(
            "| {name} | {remote} | {limit} | {streams} | {window} | {} | {discards} | {bearer} | {} |",
            yes(tool.copies_several),
            yes(tool.can_pin)
        )
    }

    #[test]
    fn the_table_in_the_document_is_that_of_the_templates() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exercise.md");
        let text = std::fs::read_to_string(path).unwrap();
        for tool in &TOOLS {
            let row = row(tool);
            assert!(text.lines().any(|line| line == row), "docs/exercise.md needs the row\n{row}");
        }
    }

    #[test]
    fn every_tool_has_a_name_of_its_own_and_known_bounds() {
        for tool in &TOOLS {
            assert_eq!(TOOLS.iter().filter(|other| other.name == tool.name).count(), 1, "{}", tool.name);
            assert!((1..=STREAMS_MAX).contains(&tool.streams_max), "{}", tool.name);
            assert!(
                tool.tuned_schemes
                    .iter()
                    .all(|scheme| matches!(tool.remote, RemoteForm::Url(all) if all.contains(scheme)))
            );
            assert_eq!(find(tool.name).map(|found| found.name), Some(tool.name));
        }
        assert!(find("sh").is_none() && find("").is_none() && find("/bin/curl").is_none());
    }
}
