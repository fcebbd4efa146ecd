//! The description of the collaboration: one row for each site, endpoint, link and community.

use model::v1::hub::Collaboration;
use sqlx::{AnyConnection, Row};

use super::hubs::count_description_change;
use super::{Database, Result};

/// The kinds of descriptions that have names.
pub const KINDS: [&str; 4] = ["site", "endpoint", "link", "community"];

impl Database {
    /// The description of the collaboration. Rows that cannot be read, because a newer hub has written them, are left out and named in the
    /// log.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn collaboration(&self) -> Result<Collaboration> {
        let rows =
            sqlx::query("SELECT kind, name, body FROM descriptions ORDER BY kind, name").fetch_all(&self.pool).await?;
        let mut all = Collaboration::default();
        for row in rows {
            let (kind, name, body): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if let Err(error) = enter(&mut all, &kind, &name, &body) {
                tracing::warn!(kind, name, %error, "a description cannot be read and is left out");
            }
        }
        Ok(all)
    }

    /// Replaces the whole description.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn describe(&self, all: Collaboration) -> Result<()> {
        self.writer.change(move |connection| Box::pin(describe(connection, all))).await
    }
}

fn enter(all: &mut Collaboration, kind: &str, name: &str, body: &str) -> serde_json::Result<()> {
    let name = name.to_owned();
    match kind {
        "site" => drop(all.sites.insert(name, serde_json::from_str(body)?)),
        "endpoint" => drop(all.endpoints.insert(name, serde_json::from_str(body)?)),
        "link" => drop(all.links.insert(name, serde_json::from_str(body)?)),
        "community" => drop(all.communities.insert(name, serde_json::from_str(body)?)),
        "routes" => all.routes = serde_json::from_str(body)?,
        "stopped" => all.stopped = serde_json::from_str(body)?,
        _ => {}
    }
    Ok(())
}

async fn describe(connection: &mut AnyConnection, all: Collaboration) -> Result<()> {
    let mut rows = Vec::new();
    let mut add = |kind: &'static str, name: &str, body: serde_json::Result<String>| {
        rows.push((kind, name.to_owned(), body.unwrap_or_default()));
    };
    all.sites.iter().for_each(|(name, it)| add("site", name, serde_json::to_string(it)));
    all.endpoints.iter().for_each(|(name, it)| add("endpoint", name, serde_json::to_string(it)));
    all.links.iter().for_each(|(name, it)| add("link", name, serde_json::to_string(it)));
    all.communities.iter().for_each(|(name, it)| add("community", name, serde_json::to_string(it)));
    add("routes", "", serde_json::to_string(&all.routes));
    add("stopped", "", serde_json::to_string(&all.stopped));
    count_description_change(connection).await?;
    sqlx::query("DELETE FROM descriptions").execute(&mut *connection).await?;
    for (kind, name, body) in rows {
        let sql = "INSERT INTO descriptions (kind, name, body) VALUES ($1, $2, $3)";
        sqlx::query(sql).bind(kind).bind(name).bind(body).execute(&mut *connection).await?;
    }
    Ok(())
}
