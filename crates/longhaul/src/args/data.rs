//! The arguments of `longhaul data`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::HubOption;

/// Manage data of a collaboration by name: store it, fetch it, keep as many copies as wanted.
///
/// A name is SCOPE:NAME. Your own scope is `user.YOU`; an operator creates other scopes.
#[derive(Debug, ClapArgs)]
pub struct Data {
    #[command(flatten)]
    pub at: HubOption,
    #[command(subcommand)]
    pub action: DataAction,
}

#[derive(Debug, Subcommand)]
pub enum DataAction {
    /// Copy files to an endpoint of the collaboration, and give them a name
    Put(DataPut),
    /// Fetch the files of a name from the nearest copies, and verify them
    Get(DataGet),
    /// List scopes, the names of a scope, or the contents of a name
    Ls {
        /// SCOPE, SCOPE:PATTERN with `*`, or SCOPE:NAME of a dataset or container; default: all scopes
        what: Option<String>,
    },
    /// Find names by their metadata
    Find(DataFind),
    /// Remove a name after a day, with the files that only it contains and all their copies
    Rm {
        /// SCOPE:NAME
        name: String,
        /// Show what would be removed; remove nothing
        #[arg(long, short = 'n', conflicts_with_all = ["now", "undo"])]
        dry_run: bool,
        /// Remove the name at once; this cannot be undone
        #[arg(long, conflicts_with = "undo")]
        now: bool,
        /// Undo a removal, within a day of it
        #[arg(long)]
        undo: bool,
    },
    /// Compare the checksums of all copies, as endpoints compute them, with the catalogue
    Verify {
        /// SCOPE:NAME
        name: String,
        /// Declare copies with a wrong checksum bad; if a rule holds such a copy, it is replaced
        #[arg(long)]
        declare: bool,
    },
    /// Show which endpoints have copies, how complete they are, and what is being copied
    Where {
        /// SCOPE:NAME
        name: String,
        /// Show each file and its copies
        #[arg(long)]
        files: bool,
    },
    /// Show the events of a name
    History {
        /// SCOPE:NAME
        name: String,
        /// Then print new events as they happen, until interrupted
        #[arg(long)]
        follow: bool,
    },
    /// Manage rules: how many copies to keep of a name, and where
    Rule(DataRule),
    /// Manage subscriptions: rules that new data gets automatically
    Subscription(DataSubscription),
    /// List the names of a scope that are fetched most often
    Popular {
        /// The scope
        scope: String,
        /// Count the last N days
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
    },
    /// Compare the files at an endpoint with the catalogue (operators)
    Audit(DataAudit),
    /// Manage webhooks: URLs to which the hub posts the events of names (operators)
    Webhook(DataWebhook),
    /// Export a scope of the catalogue as lines of JSON, for another hub
    Export {
        /// The scope
        scope: String,
        /// Write to this file (default: standard output)
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Import names of another catalogue; a name that differs here stays unchanged and is reported
    Import(DataImport),
    /// List the endpoints that can store data, and how full they are
    Storage {
        /// Only endpoints that match this expression: region=eu&tier=1
        #[arg(value_name = "EXPRESSION")]
        at: Option<String>,
    },
    /// Create a scope for an account (operators)
    Scope {
        /// The name
        scope: String,
        /// The account that owns the scope (default: yours)
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DataPut {
    /// A directory, whose files become the dataset; or one file
    pub source: PathBuf,
    /// SCOPE:NAME of the dataset; its files get the names SCOPE:NAME/PATH
    pub name: String,
    /// Copy to this endpoint first (default: the endpoint that connects fastest)
    #[arg(long, value_name = "ENDPOINT")]
    pub to: Option<String>,
    /// Keep copies at endpoints that match this expression: region=eu&tier=1
    #[arg(long, value_name = "EXPRESSION")]
    pub at: Option<String>,
    /// The number of copies
    #[arg(long, value_name = "N", default_value_t = 1, requires = "at")]
    pub copies: u32,
    /// Add this metadata to the dataset: telescope=low; can be repeated
    #[arg(long, value_name = "WORD=VALUE")]
    pub meta: Vec<String>,
    /// Close the dataset: nothing can be added later
    #[arg(long)]
    pub close: bool,
}

#[derive(Debug, ClapArgs)]
pub struct DataGet {
    /// SCOPE:NAME
    pub name: String,
    /// The directory to copy to
    pub target: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub struct DataFind {
    /// The scope
    pub scope: String,
    /// Only names with this metadata: telescope=low; can be repeated
    #[arg(long, value_name = "WORD=VALUE")]
    pub meta: Vec<String>,
    /// Only names that match this pattern; `*` stands for any characters
    #[arg(long, value_name = "PATTERN", default_value = "")]
    pub like: String,
    /// Only names of this kind
    #[arg(long)]
    pub kind: Option<DataKindWord>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DataKindWord {
    File,
    Dataset,
    Container,
}

#[derive(Debug, ClapArgs)]
pub struct DataRule {
    #[command(subcommand)]
    pub action: DataRuleAction,
}

#[derive(Debug, Subcommand)]
pub enum DataRuleAction {
    /// Add a rule
    Add(DataRuleAdd),
    /// List rules, newest first
    List {
        /// Only rules of this name: SCOPE:NAME
        name: Option<String>,
    },
    /// Explain the state of a rule: progress, rate, expected end, and which copies are stuck and why
    Why {
        /// The rule's id
        id: String,
    },
    /// Change a rule
    Set {
        /// The rule's id
        id: String,
        /// The priority, 1 to 5 (5 is the highest)
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
        priority: Option<u8>,
        /// The rule ends at this time: 2026-12-24T18:00:00Z; `never` removes the end
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// true: begin no new copies for the rule; false: continue
        #[arg(long, value_name = "true|false")]
        suspended: Option<bool>,
    },
    /// End a rule; copies that no other rule holds may be deleted after a day
    Remove {
        /// The rule's id
        id: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DataRuleAdd {
    /// SCOPE:NAME
    pub name: String,
    /// Keep the copies at endpoints that match this expression: region=eu&tier=1
    #[arg(long, value_name = "EXPRESSION")]
    pub at: String,
    /// The number of copies
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub copies: u32,
    /// Keep together at the same endpoints: everything, the files of each dataset, or each file by itself
    #[arg(long, value_name = "WHAT", default_value = "dataset")]
    pub grouping: GroupingWord,
    /// The rule ends at this time: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,
    /// All copies should be there by this time: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// The priority, 1 to 5 (5 is the highest)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub priority: Option<u8>,
    /// The activity of the rule's transfers
    #[arg(long, value_name = "A")]
    pub activity: Option<String>,
    /// Read only from endpoints that match this expression
    #[arg(long, value_name = "EXPRESSION")]
    pub from: Option<String>,
    /// Distribute the copies in proportion to this attribute of the endpoints
    #[arg(long, value_name = "WORD")]
    pub weight: Option<String>,
    /// The account that owns the rule (operators)
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// A comment, for readers
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum GroupingWord {
    All,
    Dataset,
    File,
}

#[derive(Debug, ClapArgs)]
pub struct DataSubscription {
    #[command(subcommand)]
    pub action: DataSubscriptionAction,
}

#[derive(Debug, Subcommand)]
pub enum DataSubscriptionAction {
    /// Create the subscriptions in a file; replace subscriptions of the same names
    Apply {
        /// A TOML file: [subscription.NAME], with a filter and rules
        file: PathBuf,
    },
    /// List subscriptions
    List,
    /// Print a subscription in the format that `apply` reads
    Show {
        /// The name
        name: String,
    },
    /// Remove a subscription; the rules that it has created stay
    Remove {
        /// The name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DataImport {
    /// A file that `export` has written; `-` for standard input; with --rucio, a directory
    pub from: PathBuf,
    /// Import tables of Rucio's database as CSV: dids.csv, contents.csv, replicas.csv; optional: rses.csv, scopes.csv, rules.csv
    #[arg(long)]
    pub rucio: bool,
    /// Import the rules as well
    #[arg(long)]
    pub rules: bool,
    /// The name of an endpoint in the other catalogue, and its name here; can be repeated
    #[arg(long, value_name = "THEIRS=OURS", value_parser = pair)]
    pub endpoint: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (theirs, ours) = text.split_once('=').ok_or_else(|| format!("{text:?} is not THEIRS=OURS"))?;
    Ok((theirs.to_owned(), ours.to_owned()))
}

#[derive(Debug, ClapArgs)]
pub struct DataWebhook {
    #[command(subcommand)]
    pub action: DataWebhookAction,
}

#[derive(Debug, Subcommand)]
pub enum DataWebhookAction {
    /// Post the events of names to a URL, signed as Standard Webhooks defines; the secret is printed only once
    Set {
        /// The name
        name: String,
        /// The URL to post to: https://… or http://…
        url: String,
        /// Only events of this kind, for example complete; can be repeated
        #[arg(long, value_name = "KIND")]
        kind: Vec<String>,
        /// Only events of names that match this pattern, for example survey:*; can be repeated
        #[arg(long, value_name = "PATTERN")]
        names: Vec<String>,
    },
    /// List webhooks, and the events that each has received
    List,
    /// Remove a webhook
    Remove {
        /// The name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DataAudit {
    #[command(subcommand)]
    pub action: DataAuditAction,
}

#[derive(Debug, Subcommand)]
pub enum DataAuditAction {
    /// Audit an endpoint, and wait for the result; a missing file is looked for again before its copy counts as bad
    Run {
        /// The endpoint
        endpoint: String,
        /// Only files below this directory of the endpoint
        #[arg(long, value_name = "DIR", default_value = "")]
        below: String,
        /// Use this listing instead; a line for each file: path, size (bytes), time of change (seconds since 1970), separated by tabs
        #[arg(long, value_name = "FILE", requires = "taken")]
        listing: Option<PathBuf>,
        /// The time when the listing was begun: 2026-12-24T18:00:00Z
        #[arg(long, value_name = "TIME", requires = "listing")]
        taken: Option<String>,
    },
    /// List audits, newest first
    List,
    /// Show the findings of an audit
    Show {
        /// The number of the audit
        number: i64,
    },
    /// Delete the files that an audit found and that are not in the catalogue, and wait for the result
    Clean {
        /// The number of the audit
        number: i64,
    },
}
