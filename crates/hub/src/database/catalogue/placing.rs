//! Places the files of a rule: at endpoints that its expression matches, with enough space and quota left.

use std::collections::BTreeMap;

use model::v1::hub::Grouping;
use replicas::{Candidate, Choice, Expression, Shortage, check_spread, choose};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::rule_rows::RuleRow;
use super::stores::{self, StoreUse};
use super::{closure, locks, quotas};
use crate::database::{Database, DatabaseError, Result};
use crate::topology::{StoragePlace, Topology};
use database::rows::{id_list, insert_new};

/// The endpoints that a rule may use, with the space and quota that are left.
pub(super) struct Placing {
    candidates: Vec<Candidate>,
    /// The quotas of the rule's account, with the bytes that are left.
    quotas: Vec<QuotaLeft>,
    /// For each candidate, the indices of the quotas that apply to it.
    quotas_of_candidate: Vec<Vec<usize>>,
    /// The endpoints that have stored files, by name.
    stores: BTreeMap<String, StoreUse>,
}

/// Files of a rule that go to the same endpoints.
#[derive(Clone, Copy, Debug)]
pub(super) enum Group<'a> {
    /// All files of the rule, which has these datasets.
    All(&'a [i64]),
    /// A dataset.
    Dataset(i64),
    /// A file, with its bytes.
    File(i64, i64),
}

impl Group<'_> {
    /// The group of a dataset's files; `None` if each file is a group.
    pub fn of(grouping: Grouping, dataset: i64, datasets: &[i64]) -> Option<Group<'_>> {
        match grouping {
            Grouping::All => Some(Group::All(datasets)),
            Grouping::Dataset => Some(Group::Dataset(dataset)),
            Grouping::File => None,
        }
    }

    /// The number that scatters the choices of groups. It is the same for all rules of one dataset, so that they choose the same endpoints
    /// and share copies.
    fn scatter(self, rule: &RuleRow) -> u64 {
        let number = match self {
            Group::All(_) => rule.name,
            Group::Dataset(dataset) => dataset,
            Group::File(file, _) => file,
        };
        number as u64
    }

    /// Its number among the placements of a rule; `None` for a single file, whose locks say where it is placed.
    fn number(self) -> Option<i64> {
        match self {
            Group::All(_) => Some(0),
            Group::Dataset(dataset) => Some(dataset),
            Group::File(..) => None,
        }
    }
}

impl Placing {
    /// The endpoints that a rule may use, with the space that each has left and the rest of the account's quotas.
    pub async fn new(connection: &mut AnyConnection, rule: &RuleRow, topology: &Topology) -> Result<Placing> {
        let stores = stores::all(connection).await?;
        let held = quotas::held_bytes(connection, &rule.account).await?;
        let quotas = quotas::of(connection, &rule.account).await?;
        let quotas = quotas_left(topology, &stores, &held, &quotas);
        let expression: Expression = rule.expression.parse().map_err(|error: replicas::ExpressionError| {
            DatabaseError::Refused(format!("the rule {}: {error}", rule.id))
        })?;
        let candidate = |place: &StoragePlace| {
            // Replicas without locks are deleted when their space is needed.
            let used = stores.get(&place.endpoint).map_or(0, |used| used.bytes - used.spare);
            let weight = match &rule.weight {
                None => 1.0,
                Some(word) => place.number(word).filter(|weight| *weight > 0.0)?,
            };
            Some(Candidate {
                name: place.endpoint.clone(),
                site: place.site.clone(),
                weight,
                space_bytes: place.capacity_bytes.map(|capacity| capacity.saturating_sub(used.max(0) as u64)),
                quota_bytes: None,
                present_bytes: 0,
                promised_bytes: 0,
            })
        };
        let is_usable = |place: &&StoragePlace| {
            expression.matches(&place.endpoint, &place.attributes) && !topology.refuses(&place.endpoint)
        };
        let mut candidates = Vec::new();
        let mut quotas_of_candidate = Vec::new();
        for place in topology.storage.values().filter(is_usable) {
            let Some(candidate) = candidate(place) else { continue };
            candidates.push(candidate);
            quotas_of_candidate.push((0..quotas.len()).filter(|at| quotas[*at].applies_to(place)).collect());
        }
        let mut placing = Placing { candidates, quotas, quotas_of_candidate, stores };
        placing.update_quota_bytes();
        Ok(placing)
    }

    /// Sets the quota of each candidate to the least that is left of the quotas that apply to it.
    fn update_quota_bytes(&mut self) {
        for (candidate, quotas) in self.candidates.iter_mut().zip(&self.quotas_of_candidate) {
            candidate.quota_bytes = quotas.iter().map(|at| self.quotas[*at].left).min();
        }
    }

    /// The endpoints of a group, by an earlier choice or by a new one.
    ///
    /// # Errors
    /// Too few endpoints can take it.
    pub async fn endpoints(
        &mut self,
        connection: &mut AnyConnection,
        rule: &RuleRow,
        group: Group<'_>,
    ) -> Result<std::result::Result<Vec<String>, Shortage>> {
        if let Some(number) = group.number() {
            let endpoints = stored_placement(connection, rule.number, number).await?;
            if !endpoints.is_empty() {
                return Ok(Ok(endpoints));
            }
        }
        let (bytes, present) = self.present(connection, group, &[]).await?;
        self.set_present_bytes(&present);
        let candidates = &self.candidates;
        let copies = rule.copies.max(0) as usize;
        let choice = Choice { copies, bytes: bytes.max(0) as u64, group: group.scatter(rule) };
        let chosen = match choose(candidates, choice) {
            Ok(chosen) => chosen,
            Err(shortage) => return Ok(Err(shortage)),
        };
        let chosen: Vec<String> = chosen.into_iter().map(|at| candidates[at].name.clone()).collect();
        if let Some(group) = group.number() {
            store_placement(connection, rule.number, group, &chosen).await?;
        }
        Ok(Ok(chosen))
    }

    /// Sets at each candidate the bytes of a group that it has.
    fn set_present_bytes(&mut self, present: &BTreeMap<i64, PresentBytes>) {
        for candidate in &mut self.candidates {
            let present = self.stores.get(&candidate.name).and_then(|store| present.get(&store.id));
            let present = present.copied().unwrap_or_default();
            candidate.present_bytes = present.bytes.max(0) as u64;
            candidate.promised_bytes = present.promised.max(0) as u64;
        }
    }

    /// Bytes of the last group whose space at an endpoint is reserved already.
    fn promised(&self, endpoint: &str) -> i64 {
        let candidate = self.candidates.iter().find(|candidate| candidate.name == endpoint);
        candidate.map_or(0, |candidate| candidate.promised_bytes as i64)
    }

    /// Subtracts `missing` bytes from the space of an endpoint, and `bytes` from the quotas that apply to it.
    ///
    /// # Errors
    /// The endpoint has no space for them.
    fn reserve(&mut self, endpoint: &str, missing: u64, bytes: u64) -> std::result::Result<(), Shortage> {
        let no_room = || Shortage { wanted: 1, bytes, able: Vec::new(), full: vec![endpoint.to_owned()] };
        let at = self.candidates.iter().position(|candidate| candidate.name == endpoint).ok_or_else(no_room)?;
        let candidate = &mut self.candidates[at];
        let promised_bytes = bytes.saturating_sub(missing);
        if !(Candidate { promised_bytes, ..candidate.clone() }).has_room(bytes) {
            return Err(no_room());
        }
        candidate.space_bytes = candidate.space_bytes.map(|space| space - missing);
        for quota in &self.quotas_of_candidate[at] {
            self.quotas[*quota].left -= bytes;
        }
        self.update_quota_bytes();
        Ok(())
    }

    /// Subtracts files from the space of an endpoint, and from the quotas that apply to it, so that groups that are placed later see the
    /// rest.
    ///
    /// # Errors
    /// The endpoint has no space for them.
    pub async fn reserve_files(
        &mut self,
        connection: &mut AnyConnection,
        group: Group<'_>,
        endpoint: &str,
        files: &[(i64, i64)],
    ) -> Result<std::result::Result<(), Shortage>> {
        let bytes: i64 = files.iter().map(|(_, bytes)| *bytes).sum();
        let missing = match group {
            // The present bytes of a single file have just been read.
            Group::File(..) => bytes - self.promised(endpoint),
            _ => locks::missing_bytes(connection, endpoint, files).await?,
        };
        Ok(self.reserve(endpoint, missing.max(0) as u64, bytes.max(0) as u64))
    }

    /// Bytes of a group, and its bytes at each endpoint, by the endpoint's number. Files of `earlier` datasets are not counted: they have
    /// been placed with these datasets.
    async fn present(
        &self,
        connection: &mut AnyConnection,
        group: Group<'_>,
        earlier: &[i64],
    ) -> Result<(i64, BTreeMap<i64, PresentBytes>)> {
        let files = match group {
            Group::File(file, bytes) => {
                let sql = format!("SELECT r.store, {PRESENT} FROM replicas r WHERE r.file = $1 GROUP BY r.store");
                let rows = sqlx::query(AssertSqlSafe(sql)).bind(file).fetch_all(connection).await?;
                return Ok((bytes, rows.iter().map(PresentBytes::read).collect::<Result<_>>()?));
            }
            Group::All(datasets) => {
                let datasets = id_list(datasets.iter().copied());
                format!("SELECT DISTINCT child AS file FROM contents WHERE parent IN {datasets}")
            }
            Group::Dataset(dataset) => {
                let earlier = id_list(earlier.iter().copied().chain([0]));
                format!(
                    "SELECT c.child AS file FROM contents c WHERE c.parent = {dataset} AND NOT EXISTS \
                     (SELECT 1 FROM contents o WHERE o.child = c.child AND o.parent IN {earlier})"
                )
            }
        };
        let sql =
            format!("SELECT CAST(COALESCE(SUM(n.bytes), 0) AS BIGINT) FROM ({files}) f JOIN names n ON n.id = f.file");
        let bytes: i64 = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut *connection).await?.try_get(0)?;
        let sql =
            format!("SELECT r.store, {PRESENT} FROM ({files}) f JOIN replicas r ON r.file = f.file GROUP BY r.store");
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await?;
        Ok((bytes, rows.iter().map(PresentBytes::read).collect::<Result<_>>()?))
    }
}

/// The bytes of a group at an endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct PresentBytes {
    /// Bytes that it has or will get.
    bytes: i64,
    /// Bytes whose space is reserved already: all but copies without locks, which may be deleted for others.
    promised: i64,
}

/// The columns of [`PresentBytes`], for replicas `r`.
const PRESENT: &str = "CAST(SUM(CASE WHEN r.state < 3 THEN r.bytes ELSE 0 END) AS BIGINT), \
                       CAST(SUM(CASE WHEN r.state = 0 AND r.locks = 0 THEN 0 ELSE r.bytes END) AS BIGINT)";

impl PresentBytes {
    fn read(row: &AnyRow) -> Result<(i64, PresentBytes)> {
        Ok((row.try_get(0)?, PresentBytes { bytes: row.try_get(1)?, promised: row.try_get(2)? }))
    }
}

/// A quota, with the bytes that are left.
#[derive(Debug)]
struct QuotaLeft {
    expression: Expression,
    /// Bytes that are left at all its endpoints together.
    left: u64,
}

impl QuotaLeft {
    fn applies_to(&self, place: &StoragePlace) -> bool {
        self.expression.matches(&place.endpoint, &place.attributes)
    }
}

fn quotas_left(
    topology: &Topology,
    stores: &BTreeMap<String, StoreUse>,
    held: &BTreeMap<i64, i64>,
    quotas: &[(String, i64)],
) -> Vec<QuotaLeft> {
    let left = |(text, bytes): &(String, i64)| {
        let mut quota = QuotaLeft { expression: text.parse().ok()?, left: 0 };
        let holds = |place: &StoragePlace| held.get(&stores.get(&place.endpoint)?.id).copied();
        let held: i64 = topology.storage.values().filter(|place| quota.applies_to(place)).filter_map(holds).sum();
        quota.left = bytes.saturating_sub(held).max(0) as u64;
        Some(quota)
    };
    quotas.iter().filter_map(left).collect()
}

impl Database {
    /// Bytes that the rules of an account may still hold, by endpoint; endpoints without a quota are left out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn quotas_left(&self, account: &str, topology: &Topology) -> Result<BTreeMap<String, u64>> {
        let stores = self.stores().await?;
        let held = self.held_bytes(account).await?;
        let quotas = self.quotas(account).await?;
        let left = quotas_left(topology, &stores, &held, &quotas);
        let least_quota = |place: &StoragePlace| {
            let left = left.iter().filter(|quota| quota.applies_to(place)).map(|quota| quota.left).min()?;
            Some((place.endpoint.clone(), left))
        };
        Ok(topology.storage.values().filter_map(least_quota).collect())
    }
}

/// The endpoints that were chosen for a group of a rule; empty before the choice.
async fn stored_placement(connection: &mut AnyConnection, rule: i64, group: i64) -> Result<Vec<String>> {
    let sql = "SELECT s.endpoint FROM placements p JOIN stores s ON s.id = p.store WHERE p.rule = $1 AND p.dataset = $2 ORDER BY s.endpoint";
    let rows = sqlx::query(sql).bind(rule).bind(group).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn store_placement(connection: &mut AnyConnection, rule: i64, group: i64, endpoints: &[String]) -> Result<()> {
    let mut stores = Vec::with_capacity(endpoints.len());
    for endpoint in endpoints {
        stores.push(stores::id_or_new(connection, endpoint).await?);
    }
    let into = "placements (rule, dataset, store)";
    insert_new(connection, into, 3, &stores, |query, store| query.bind(rule).bind(group).bind(*store)).await?;
    Ok(())
}

/// Removes the placement of a group without locks: the next attempt chooses endpoints again.
pub(super) async fn remove_unused_placement(connection: &mut AnyConnection, rule: i64, group: Group<'_>) -> Result<()> {
    let Some(number) = group.number() else { return Ok(()) };
    let datasets = match group {
        Group::All(datasets) => id_list(datasets.iter().copied()),
        _ => id_list([number].into_iter()),
    };
    let sql = format!(
        "DELETE FROM placements WHERE rule = $1 AND dataset = $2 AND NOT EXISTS \
         (SELECT 1 FROM locks l JOIN contents c ON c.child = l.file WHERE l.rule = $1 AND c.parent IN {datasets})"
    );
    sqlx::query(AssertSqlSafe(sql)).bind(rule).bind(number).execute(connection).await?;
    Ok(())
}

/// Checks whether a new rule can be fulfilled, with all its groups together; returns the shortage if not.
pub(super) async fn check(
    connection: &mut AnyConnection,
    rule: &RuleRow,
    topology: &Topology,
) -> Result<Option<Shortage>> {
    let datasets = closure::datasets_below(connection, rule.name).await?;
    let mut placing = Placing::new(connection, rule, topology).await?;
    let groups = match (datasets.is_empty(), rule.grouping) {
        (true, _) => {
            let row = sqlx::query("SELECT bytes FROM names WHERE id = $1").bind(rule.name).fetch_one(&mut *connection);
            vec![Group::File(rule.name, row.await?.try_get(0)?)]
        }
        (false, Grouping::All) => vec![Group::All(&datasets)],
        (false, Grouping::Dataset) => datasets.iter().map(|dataset| Group::Dataset(*dataset)).collect(),
        (false, Grouping::File) => {
            let (bytes, present) = placing.present(connection, Group::All(&datasets), &[]).await?;
            placing.set_present_bytes(&present);
            return Ok(check_spread(&placing.candidates, rule.copies.max(0) as usize, bytes.max(0) as u64).err());
        }
    };
    for (at, group) in groups.into_iter().enumerate() {
        let (bytes, present) = placing.present(connection, group, &datasets[..at]).await?;
        let bytes = bytes.max(0) as u64;
        placing.set_present_bytes(&present);
        let choice = Choice { copies: rule.copies.max(0) as usize, bytes, group: group.scatter(rule) };
        let chosen = match choose(&placing.candidates, choice) {
            Ok(chosen) => chosen,
            Err(shortage) => return Ok(Some(shortage)),
        };
        // Several copies may count against one quota, and several groups may go to one endpoint.
        for at in chosen {
            let Candidate { name, promised_bytes, .. } = placing.candidates[at].clone();
            if let Err(shortage) = placing.reserve(&name, bytes.saturating_sub(promised_bytes), bytes) {
                return Ok(Some(shortage));
            }
        }
    }
    Ok(None)
}
