//! The catalogue: names, their copies, rules.

use model::v1::hub::{
    Audit, AuditFindings, AuditOrder, Audits, BadReplica, Data, DataAccess, DataAccesses, DataChange, DataEvent,
    DataHistory, DataList, DataMerged, DataNames, DataRemoval, DataWhere, FileReplicasList, NewDataList, Quotas, Rule,
    RuleChange, RuleOrder, RuleWhy, Rules, Scope, ScopeOrder, Scopes, StorageUses, Subscription, SubscriptionOrder,
    Subscriptions, Webhook, WebhookOrder, Webhooks,
};
use web::Method;
use web::target::encode;

use super::{Api, Events, Result};

/// A name, encoded as one part of a URL path.
fn part(name: &str) -> String {
    encode(name.as_bytes()).replace('/', "%2F")
}

/// Which names of a scope are listed.
#[derive(Clone, Debug, Default)]
pub struct DataQuery {
    /// The scope.
    pub scope: String,
    /// A pattern of names, in which `*` stands for any characters; all names if empty.
    pub like: String,
    /// `file`, `dataset` or `container`; all if empty.
    pub kind: String,
    /// Keys of metadata and the values that they must have.
    pub metadata: Vec<(String, String)>,
    /// Whether the copies of files are listed with them.
    pub replicas: bool,
}

impl DataQuery {
    /// The query part of the URL.
    fn url_query(&self) -> String {
        let mut text = format!("scope={}", part(&self.scope));
        for (key, value) in [("like", &self.like), ("kind", &self.kind)] {
            if !value.is_empty() {
                text += &format!("&{key}={}", part(value));
            }
        }
        if self.replicas {
            text += "&replicas=true";
        }
        for (key, value) in &self.metadata {
            text += &format!("&meta.{}={}", part(key), part(value));
        }
        text
    }
}

impl Api {
    /// Adds names to the catalogue.
    pub fn enter_data(&self, list: &NewDataList) -> Result<DataList> {
        Ok(self.0.send(&Method::Post, "/api/v1/data", Some(list))?.1)
    }

    /// Adds names from another catalogue; names that exist already are kept.
    pub fn merge_data(&self, list: &NewDataList) -> Result<DataMerged> {
        Ok(self.0.send(&Method::Post, "/api/v1/data/merge", Some(list))?.1)
    }

    /// A page of names of a scope.
    pub fn list_data(&self, query: &DataQuery, after: Option<&str>, limit: usize) -> Result<DataList> {
        let after = after.map(|after| format!("&after_name={}", part(after))).unwrap_or_default();
        self.0.get(&format!("/api/v1/data?{}&limit={limit}{after}", query.url_query()))
    }

    /// A name.
    pub fn data(&self, name: &str) -> Result<Data> {
        self.0.get(&format!("/api/v1/data/{}", part(name)))
    }

    /// Changes a name.
    pub fn change_data(&self, name: &str, change: &DataChange) -> Result<Data> {
        Ok(self.0.send(&Method::parse("PATCH"), &format!("/api/v1/data/{}", part(name)), Some(change))?.1)
    }

    /// Ends a name a day from now, or at once; returns the name with its new lifetime.
    pub fn remove_data(&self, name: &str, at_once: bool) -> Result<Data> {
        let target = format!("/api/v1/data/{}?at_once={at_once}", part(name));
        Ok(self.0.send(&Method::Delete, &target, None::<&()>)?.1)
    }

    /// What would be removed together with a name.
    pub fn removal(&self, name: &str) -> Result<DataRemoval> {
        self.0.get(&format!("/api/v1/data/{}/removal", part(name)))
    }

    /// Declares a copy of a file bad: it is lost or damaged.
    pub fn declare_bad(&self, name: &str, bad: &BadReplica) -> Result<FileReplicasList> {
        Ok(self.0.send(&Method::Post, &format!("/api/v1/data/{}/replicas/bad", part(name)), Some(bad))?.1)
    }

    /// A page of the direct contents of a name.
    pub fn contents(&self, name: &str, after: Option<&str>, limit: usize) -> Result<DataList> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        self.0.get(&format!("/api/v1/data/{}/contents?limit={limit}{after}", part(name)))
    }

    /// Puts names into a dataset or container.
    pub fn attach(&self, parent: &str, names: &DataNames) -> Result<Data> {
        Ok(self.0.send(&Method::Post, &format!("/api/v1/data/{}/contents", part(parent)), Some(names))?.1)
    }

    /// Takes names out of a dataset or container.
    pub fn detach(&self, parent: &str, names: &DataNames) -> Result<Data> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/data/{}/contents", part(parent)), Some(names))?.1)
    }

    /// A page of the files that a name contains, directly or not, with their copies.
    pub fn data_files(&self, name: &str, after: i64, limit: usize) -> Result<FileReplicasList> {
        self.0.get(&format!("/api/v1/data/{}/files?after={after}&limit={limit}", part(name)))
    }

    /// How many files and bytes of a name each endpoint has.
    pub fn locations(&self, name: &str) -> Result<DataWhere> {
        self.0.get(&format!("/api/v1/data/{}/where", part(name)))
    }

    /// What happened to a name.
    pub fn history(&self, name: &str, after: i64, limit: usize) -> Result<DataHistory> {
        self.0.get(&format!("/api/v1/data/{}/history?after={after}&limit={limit}", part(name)))
    }

    /// Events of a name as they happen, after the event with the id `last`.
    pub fn data_events(&self, name: &str, last: Option<&str>) -> Result<Events<DataEvent>> {
        Ok(Events::new(self.0.listen(&format!("/api/v1/data/{}/events", part(name)), last)?, "data"))
    }

    /// The scopes.
    pub fn scopes(&self) -> Result<Scopes> {
        self.0.get("/api/v1/scopes")
    }

    /// Makes a scope.
    pub fn make_scope(&self, scope: &str, order: &ScopeOrder) -> Result<Scope> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/scopes/{}", part(scope)), Some(order))?.1)
    }

    /// Endpoints with storage: those that match an expression, or all.
    pub fn storage(&self, expression: Option<&str>) -> Result<StorageUses> {
        let query = expression.map(|text| format!("?expression={}", part(text))).unwrap_or_default();
        self.0.get(&format!("/api/v1/storage{query}"))
    }

    /// The quotas of an account: how much its rules may hold.
    pub fn quotas(&self, account: &str) -> Result<Quotas> {
        self.0.get(&format!("/api/v1/quotas/{}", part(account)))
    }

    /// Replaces the quotas of an account.
    pub fn set_quotas(&self, account: &str, quotas: &Quotas) -> Result<Quotas> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/quotas/{}", part(account)), Some(quotas))?.1)
    }

    /// Makes a rule. An order with an id may be sent again: it makes one rule only.
    pub fn make_rule(&self, order: &RuleOrder) -> Result<Rule> {
        Ok(self.0.send(&Method::Post, "/api/v1/rules", Some(order))?.1)
    }

    /// A page of rules, newest first: those older than the number `before`, and those of one name, if given.
    pub fn rules(&self, name: Option<&str>, before: Option<i64>, limit: usize) -> Result<Rules> {
        let name = name.map(|name| format!("&name={}", part(name))).unwrap_or_default();
        let before = before.map(|before| format!("&before={before}")).unwrap_or_default();
        self.0.get(&format!("/api/v1/rules?limit={limit}{name}{before}"))
    }

    /// A rule.
    pub fn rule(&self, id: &str) -> Result<Rule> {
        self.0.get(&format!("/api/v1/rules/{}", part(id)))
    }

    /// The progress of a rule, and what it waits for.
    pub fn rule_why(&self, id: &str) -> Result<RuleWhy> {
        self.0.get(&format!("/api/v1/rules/{}/why", part(id)))
    }

    /// Changes a rule.
    pub fn change_rule(&self, id: &str, change: &RuleChange) -> Result<Rule> {
        Ok(self.0.send(&Method::parse("PATCH"), &format!("/api/v1/rules/{}", part(id)), Some(change))?.1)
    }

    /// Ends a rule.
    pub fn end_rule(&self, id: &str) -> Result<Rule> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/rules/{}", part(id)), None::<&()>)?.1)
    }

    /// The subscriptions.
    pub fn subscriptions(&self) -> Result<Subscriptions> {
        self.0.get("/api/v1/subscriptions")
    }

    /// A subscription.
    pub fn subscription(&self, name: &str) -> Result<Subscription> {
        self.0.get(&format!("/api/v1/subscriptions/{}", part(name)))
    }

    /// Makes a subscription, or replaces the one of this name.
    pub fn set_subscription(&self, name: &str, order: &SubscriptionOrder) -> Result<Subscription> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/subscriptions/{}", part(name)), Some(order))?.1)
    }

    /// Removes a subscription.
    pub fn remove_subscription(&self, name: &str) -> Result<Subscription> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/subscriptions/{}", part(name)), None::<&()>)?.1)
    }

    /// The webhooks.
    pub fn webhooks(&self) -> Result<Webhooks> {
        self.0.get("/api/v1/webhooks")
    }

    /// Makes a webhook, or replaces the one of this name; the answer has its secret.
    pub fn set_webhook(&self, name: &str, order: &WebhookOrder) -> Result<Webhook> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/webhooks/{}", part(name)), Some(order))?.1)
    }

    /// Removes a webhook.
    pub fn remove_webhook(&self, name: &str) -> Result<Webhook> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/webhooks/{}", part(name)), None::<&()>)?.1)
    }

    /// Orders a comparison of an endpoint with the catalogue.
    pub fn order_audit(&self, endpoint: &str, order: &AuditOrder) -> Result<Audit> {
        Ok(self.0.send(&Method::Post, &format!("/api/v1/storage/{}/audits", part(endpoint)), Some(order))?.1)
    }

    /// Audits, the newest first.
    pub fn audits(&self) -> Result<Audits> {
        self.0.get("/api/v1/audits")
    }

    /// An audit.
    pub fn audit(&self, number: i64) -> Result<Audit> {
        self.0.get(&format!("/api/v1/audits/{number}"))
    }

    /// A page of the findings of an audit.
    pub fn audit_findings(&self, number: i64, after: i64) -> Result<AuditFindings> {
        self.0.get(&format!("/api/v1/audits/{number}/findings?after={after}"))
    }

    /// Orders the deletion of the unknown files that an audit has found.
    pub fn clean_audit(&self, number: i64) -> Result<Audit> {
        Ok(self.0.send(&Method::Post, &format!("/api/v1/audits/{number}/clean"), None::<&()>)?.1)
    }

    /// Reports that files of a name were fetched from an endpoint.
    pub fn note_access(&self, name: &str, access: &DataAccess) -> Result<DataAccesses> {
        Ok(self.0.send(&Method::Post, &format!("/api/v1/data/{}/accesses", part(name)), Some(access))?.1)
    }

    /// The names of a scope that were fetched most often in the last `days` days.
    pub fn popular(&self, scope: &str, days: u32) -> Result<DataAccesses> {
        self.0.get(&format!("/api/v1/scopes/{}/popular?days={days}", part(scope)))
    }
}
