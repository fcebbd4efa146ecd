//! A case: an action of a client, and the required outcome.

use crate::context::CaseContext;

/// One action of one client.
#[derive(Clone)]
pub struct Case {
    /// The client, which is the heading in the table.
    pub client: &'static str,
    /// A short name, unique among the cases of the client.
    pub name: &'static str,
    /// What the client does, for the table.
    pub does: &'static str,
    /// The outcome, for the table.
    pub outcome: &'static str,
    /// How a stock xrootd 5.5 answers differently, if it does.
    pub stock: Option<&'static str>,
    /// Runs the case; panics where the outcome differs.
    pub run: fn(&CaseContext),
}

impl Case {
    /// A case of a client.
    pub const fn new(
        client: &'static str,
        name: &'static str,
        does: &'static str,
        outcome: &'static str,
        run: fn(&CaseContext),
    ) -> Case {
        Case { client, name, does, outcome, stock: None, run }
    }

    /// A stock xrootd 5.5 answers differently.
    pub const fn stock(self, how: &'static str) -> Case {
        Case { stock: Some(how), ..self }
    }

    /// Its name, unique among all cases.
    pub fn id(&self) -> String {
        format!("{}/{}", self.client, self.name)
    }

    /// The programs without which it cannot run.
    pub fn programs(&self) -> &'static [&'static str] {
        match self.client {
            "davix" => &["davix-get"],
            "gfal2" | "gfal2-root" => &["gfal-copy", "gfal-sum"],
            "rclone" => &["rclone"],
            "longhaul-root" => &["xrootd"],
            "xrootd-front" => &["xrdcp", "xrootd", "setpriv"],
            "python3-xrootd" => &["/usr/bin/python3"],
            "xrdcp" | "xrdcp-root" | "xrdfs-root" => &["xrdcp", "xrdfs", "xrootd"],
            "litmus" => &["litmus", "curl"],
            "cadaver" => &["cadaver", "curl"],
            "davfs2" => &["mount.davfs", "curl"],
            "webdav4" | "webdavclient3" | "rucio" => &["python3"],
            client if crate::fts::is_of(client) || crate::catalogue::is_of(client) => &["python3", "setpriv"],
            "third-party" | "third-party-errors" => &["curl", "xrootd"],
            _ => &["curl"],
        }
    }
}
