//! A case: what a client does, and what must come of it.

use crate::scene::Scene;

/// One thing that one client does.
#[derive(Clone)]
pub struct Case {
    /// The client: the heading that it stands under in the table.
    pub client: &'static str,
    /// Short, and its own among the client's.
    pub name: &'static str,
    /// What the client does, for the table.
    pub does: &'static str,
    /// What comes of it, for the table.
    pub outcome: &'static str,
    /// Where a stock xrootd 5.5 answers otherwise: how.
    pub stock: Option<&'static str>,
    /// Does it; panics where something else comes of it.
    pub run: fn(&Scene),
}

impl Case {
    /// A case of a client.
    pub const fn new(
        client: &'static str,
        name: &'static str,
        does: &'static str,
        outcome: &'static str,
        run: fn(&Scene),
    ) -> Case {
        Case { client, name, does, outcome, stock: None, run }
    }

    /// A stock xrootd 5.5 answers otherwise.
    pub const fn stock(self, how: &'static str) -> Case {
        Case { stock: Some(how), ..self }
    }

    /// Its name among all.
    pub fn id(&self) -> String {
        format!("{}/{}", self.client, self.name)
    }

    /// The programs without which it cannot run.
    pub fn programs(&self) -> &'static [&'static str] {
        match self.client {
            "davix" => &["davix-get"],
            "gfal2" => &["gfal-copy", "gfal-sum"],
            "rclone" => &["rclone"],
            "xrdcp" => &["xrdcp", "xrdfs", "xrootd"],
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
