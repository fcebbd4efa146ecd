//! The arguments of `longhaul data`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::HubOption;

/// Data of a collaboration, by name: put there, fetched, kept at as many places as wanted.
///
/// A name is SCOPE:NAME. You have the scope `user.YOU`; an operator makes others.
#[derive(Debug, ClapArgs)]
pub struct Data {
    #[command(flatten)]
    pub at: HubOption,
    #[command(subcommand)]
    pub action: DataAction,
}

#[derive(Debug, Subcommand)]
pub enum DataAction {
    /// Copy files to the collaboration and give them a name
    Put(DataPut),
    /// Fetch what has a name, from the nearest copies, and verify it
    Get(DataGet),
    /// List scopes, the names of a scope, or what a name contains
    Ls {
        /// SCOPE, SCOPE:PATTERN with `*`, or SCOPE:NAME of a dataset or container; without it, the scopes
        what: Option<String>,
    },
    /// Find names by what is said of them
    Find(DataFind),
    /// Remove it, a day from now; its last copies go with it
    Rm {
        /// SCOPE:NAME
        name: String,
        /// Say what would go, and remove nothing
        #[arg(long, short = 'n', conflicts_with_all = ["now", "undo"])]
        dry_run: bool,
        /// Now, and for good
        #[arg(long, conflicts_with = "undo")]
        now: bool,
        /// Keep it after all
        #[arg(long)]
        undo: bool,
    },
    /// Ask endpoints for the checksums of all copies, and compare them with the catalogue
    Verify {
        /// SCOPE:NAME
        name: String,
        /// Say of a copy that is not what it should be that it is bad: it is made anew where a rule holds it
        #[arg(long)]
        declare: bool,
    },
    /// How much of it is where, and what is on its way
    Where {
        /// SCOPE:NAME
        name: String,
        /// Each file and its copies
        #[arg(long)]
        files: bool,
    },
    /// What happened to it
    History {
        /// SCOPE:NAME
        name: String,
        /// And what happens from now on, until this is ended
        #[arg(long)]
        follow: bool,
    },
    /// Keep copies of it at so many places
    Rule(DataRule),
    /// Rules that new data gets by itself
    Subscription(DataSubscription),
    /// The names of a scope that are fetched most often
    Popular {
        /// The scope
        scope: String,
        /// Within so many days
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
    },
    /// Compare what is at an endpoint with what the catalogue says (operators)
    Audit(DataAudit),
    /// Who hears by HTTP of what happens to names (operators)
    Webhook(DataWebhook),
    /// Write what the catalogue knows of a scope, as lines of JSON, for another hub
    Export {
        /// The scope
        scope: String,
        /// The file; standard output unless said
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Take in what another catalogue knows; what is there already and something else stays, and is named
    Import(DataImport),
    /// The endpoints where data can be, and how full they are
    Storage {
        /// Only those that this means: region=eu&tier=1
        #[arg(value_name = "EXPRESSION")]
        at: Option<String>,
    },
    /// Make a scope for an account (operators)
    Scope {
        /// Its name
        scope: String,
        /// Whose it is to be; yours unless said
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DataPut {
    /// A directory, whose files become the dataset; or a file
    pub source: PathBuf,
    /// SCOPE:NAME of the dataset; files are SCOPE:NAME/PATH
    pub name: String,
    /// The endpoint that they are copied to first; the one that connects fastest unless said
    #[arg(long, value_name = "ENDPOINT")]
    pub to: Option<String>,
    /// Keep copies at endpoints of this expression: region=eu&tier=1
    #[arg(long, value_name = "EXPRESSION")]
    pub at: Option<String>,
    /// How many copies
    #[arg(long, value_name = "N", default_value_t = 1, requires = "at")]
    pub copies: u32,
    /// Say something of the dataset: telescope=low; may be given again
    #[arg(long, value_name = "WORD=VALUE")]
    pub meta: Vec<String>,
    /// Nothing is added to the dataset later
    #[arg(long)]
    pub close: bool,
}

#[derive(Debug, ClapArgs)]
pub struct DataGet {
    /// SCOPE:NAME
    pub name: String,
    /// The directory that it goes to
    pub target: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub struct DataFind {
    /// The scope
    pub scope: String,
    /// What is said of it: telescope=low; may be given again
    #[arg(long, value_name = "WORD=VALUE")]
    pub meta: Vec<String>,
    /// Names like this, in which `*` stands for any characters
    #[arg(long, value_name = "PATTERN", default_value = "")]
    pub like: String,
    /// Only of this kind
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
    /// Make a rule
    Add(DataRuleAdd),
    /// List rules, newest first
    List {
        /// Only those of this name
        name: Option<String>,
    },
    /// Say how far a rule is, how fast, when it is done, what is stuck and why
    Why {
        /// The rule's id
        id: String,
    },
    /// Change a rule
    Set {
        /// The rule's id
        id: String,
        /// 1 to 5
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
        priority: Option<u8>,
        /// It ends then: 2026-12-24T18:00:00Z; `never` for never
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Copy nothing new for it, or go on
        #[arg(long, value_name = "true|false")]
        suspended: Option<bool>,
    },
    /// End a rule: what it alone holds may be deleted after a day
    Remove {
        /// The rule's id
        id: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DataRuleAdd {
    /// SCOPE:NAME
    pub name: String,
    /// At endpoints of this expression: region=eu&tier=1
    #[arg(long, value_name = "EXPRESSION")]
    pub at: String,
    /// How many copies
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub copies: u32,
    /// What goes to the same endpoints: all of it, each dataset, or each file by itself
    #[arg(long, value_name = "WHAT", default_value = "dataset")]
    pub grouping: GroupingWord,
    /// It ends then: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,
    /// By when it is to be fulfilled
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// 1 to 5
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub priority: Option<u8>,
    /// The activity that it is for
    #[arg(long, value_name = "A")]
    pub activity: Option<String>,
    /// Read copies at endpoints of this expression alone
    #[arg(long, value_name = "EXPRESSION")]
    pub from: Option<String>,
    /// An attribute of endpoints that says how large a part each is to have
    #[arg(long, value_name = "WORD")]
    pub weight: Option<String>,
    /// The account whose rule it is to be (operators)
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// For people
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
    /// Make the subscriptions of a file, or replace those of the same names
    Apply {
        /// A TOML file: [subscription.NAME], with a filter and rules
        file: PathBuf,
    },
    /// List subscriptions
    List,
    /// Show what a subscription says, as `apply` reads it
    Show {
        /// Its name
        name: String,
    },
    /// Remove a subscription; the rules that it has made stay
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub struct DataImport {
    /// A file that `export` wrote, `-` for standard input; with --rucio, a directory
    pub from: PathBuf,
    /// Tables of Rucio's database as CSV: dids.csv, contents.csv, replicas.csv; rses.csv, scopes.csv, rules.csv if they are there
    #[arg(long)]
    pub rucio: bool,
    /// Make its rules, too
    #[arg(long)]
    pub rules: bool,
    /// What an endpoint of the other catalogue is called here; may be given again
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
    /// Post what happens to names to a URL, signed as Standard Webhooks says; the secret is told once
    Set {
        /// Its name
        name: String,
        /// https://… or http://…
        url: String,
        /// Only events of this kind: complete; may be given again
        #[arg(long, value_name = "KIND")]
        kind: Vec<String>,
        /// Only of names like this: survey:*; may be given again
        #[arg(long, value_name = "PATTERN")]
        names: Vec<String>,
    },
    /// List webhooks, and what each has heard
    List,
    /// Remove a webhook
    Remove {
        /// Its name
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
    /// Have an endpoint listed and compared, and wait for it; what is missing is asked for again before it counts as bad
    Run {
        /// The endpoint
        endpoint: String,
        /// Only what is below this directory of the endpoint's
        #[arg(long, value_name = "DIR", default_value = "")]
        below: String,
        /// A listing instead: a line for each file, its path, its bytes and when it changed (seconds since 1970), with tabs between them
        #[arg(long, value_name = "FILE", requires = "taken")]
        listing: Option<PathBuf>,
        /// When that listing was begun: 2026-12-24T18:00:00Z
        #[arg(long, value_name = "TIME", requires = "listing")]
        taken: Option<String>,
    },
    /// List audits, the newest first
    List,
    /// What an audit has found
    Show {
        /// Its number
        number: i64,
    },
    /// Delete the files that an audit found and the catalogue does not know of, and wait for it
    Clean {
        /// Its number
        number: i64,
    },
}
