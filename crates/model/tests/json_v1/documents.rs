//! The documents: the name of each one's golden file, and how its type rewrites it.

use std::cell::RefCell;

use model::fault::Fault;
use model::v1::probe::{self, all, disk, host, latency, route, tcp, udp};
use model::v1::{self, exercise, hub, node, tune, watch};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Error, Value};

use crate::walk::{self, Notes};

/// A document.
pub struct Document {
    /// The name of its golden file, without the suffix.
    pub name: &'static str,
    /// The text of the golden file, as the type writes it.
    pub rewrite: fn(Option<&Value>, &RefCell<Notes>) -> Result<String, Error>,
}

/// A document that programs read as well.
const fn read<T: DeserializeOwned + Serialize>(name: &'static str) -> Document {
    Document { name, rewrite: |old, notes| pretty(&walk::read::<T>(old, notes)?) }
}

fn pretty(document: &impl Serialize) -> Result<String, Error> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// All documents: those that commands print, the requests and responses of APIs, results of tests, and messages between nodes for tests.
pub const DOCUMENTS: &[Document] = &[
    read::<Words>("words"),
    read::<v1::Receipt>("receipt"),
    Document { name: "progress", rewrite: |_, _| pretty(&progress()) },
    Document { name: "planned", rewrite: |_, _| pretty(&planned()) },
    Document { name: "file-outcome", rewrite: |_, _| pretty(&file_outcome()) },
    Document { name: "failure", rewrite: |_, _| pretty(&failure()) },
    read::<v1::Transfer>("transfer"),
    read::<v1::Transfers>("transfers"),
    read::<v1::Change>("change"),
    read::<node::Order>("order"),
    read::<node::Capabilities>("capabilities"),
    read::<node::FileResults>("file-results"),
    read::<hub::JobOrder>("hub-job-order"),
    read::<hub::Job>("hub-job"),
    read::<hub::Jobs>("hub-jobs"),
    read::<hub::Files>("hub-files"),
    read::<hub::JobChange>("hub-job-change"),
    read::<hub::JobEvent>("hub-job-event"),
    read::<hub::JobTransfers>("hub-job-transfers"),
    read::<hub::Estimate>("hub-estimate"),
    read::<hub::RepeatOrder>("hub-repeat-order"),
    read::<hub::Repeats>("hub-repeats"),
    read::<hub::WhoAmI>("hub-whoami"),
    read::<hub::SignInProviders>("hub-sign-in-providers"),
    read::<hub::RenameOrder>("hub-rename-order"),
    read::<hub::Deletions>("hub-deletions"),
    read::<hub::ShareLinkOrder>("hub-share-link-order"),
    read::<hub::ShareLinks>("hub-share-links"),
    read::<hub::SharedQuery>("hub-shared-query"),
    read::<hub::Shared>("hub-shared"),
    read::<hub::HubActions>("hub-actions"),
    read::<hub::LinkMark>("hub-link-mark"),
    read::<Vec<hub::Why>>("hub-why"),
    read::<hub::Queues>("hub-queues"),
    read::<hub::Shares>("hub-shares"),
    read::<hub::Offer>("hub-offer"),
    read::<hub::NotPromised>("hub-not-promised"),
    read::<hub::Collaboration>("hub-collaboration"),
    read::<hub::Site>("hub-site"),
    read::<hub::Endpoint>("hub-endpoint"),
    read::<hub::Link>("hub-link"),
    read::<hub::Route>("hub-route"),
    read::<hub::Community>("hub-community"),
    read::<hub::Activity>("hub-activity"),
    read::<hub::NewDataList>("hub-new-data"),
    read::<hub::DataMerged>("hub-data-merged"),
    read::<hub::DataAccess>("hub-data-access"),
    read::<hub::DataAccesses>("hub-data-accesses"),
    read::<hub::Data>("hub-data"),
    read::<hub::DataList>("hub-data-list"),
    read::<hub::DataChange>("hub-data-change"),
    read::<hub::DataNames>("hub-data-names"),
    read::<hub::BadReplica>("hub-bad-replica"),
    read::<hub::DataRemoval>("hub-data-removal"),
    read::<hub::Removables>("hub-removables"),
    read::<hub::DataWhere>("hub-data-where"),
    read::<hub::DataHistory>("hub-data-history"),
    read::<hub::FileReplicasList>("hub-file-replicas"),
    read::<hub::Scope>("hub-scope"),
    read::<hub::Scopes>("hub-scopes"),
    read::<hub::ScopeOrder>("hub-scope-order"),
    read::<hub::StorageUses>("hub-storage"),
    read::<hub::Folder>("hub-folder"),
    read::<hub::FileUrl>("hub-file-url"),
    read::<hub::Download>("hub-download"),
    read::<hub::Quotas>("hub-quotas"),
    read::<hub::RuleOrder>("hub-rule-order"),
    read::<hub::RuleChange>("hub-rule-change"),
    read::<hub::Rule>("hub-rule"),
    read::<hub::Rules>("hub-rules"),
    read::<hub::RuleWhy>("hub-rule-why"),
    read::<hub::NotPlaced>("hub-not-placed"),
    read::<hub::SubscriptionOrder>("hub-subscription-order"),
    read::<hub::Subscriptions>("hub-subscriptions"),
    read::<hub::WebhookOrder>("hub-webhook-order"),
    read::<hub::Webhooks>("hub-webhooks"),
    read::<hub::AuditOrder>("hub-audit-order"),
    read::<hub::Audits>("hub-audits"),
    read::<hub::AuditFindings>("hub-audit-findings"),
    read::<node::Schedule>("schedule"),
    read::<Vec<node::ScheduledTest>>("scheduled-tests"),
    read::<node::Schedules>("schedules"),
    read::<node::ScratchOrder>("scratch-order"),
    read::<node::ScratchChange>("scratch-change"),
    read::<node::ScratchFiles>("scratch-files"),
    read::<node::ScratchPlace>("scratch-place"),
    read::<node::Measurements>("measurements"),
    read::<Vec<node::Found>>("measurements-found"),
    read::<exercise::ExerciseProgress>("exercise-progress"),
    read::<exercise::ExerciseStop>("exercise-stop"),
    read::<exercise::ExerciseBoards>("exercise-boards"),
    read::<exercise::ExerciseOutcome>("exercise-outcome"),
    read::<watch::Grid>("watch-grid"),
    read::<watch::History>("watch-history"),
    read::<watch::Alarms>("watch-alarms"),
    read::<watch::Why>("watch-why"),
    read::<watch::Annotation>("watch-annotation"),
    read::<watch::Interfaces>("watch-interfaces"),
    read::<watch::Talkers>("watch-talkers"),
    read::<watch::Directory>("watch-directory"),
    read::<node::Health>("health"),
    read::<node::Problem>("problem"),
    read::<v1::flows::Flows>("flows"),
    read::<node::ProbeOrder>("probe-order"),
    read::<Vec<node::ProbeTest>>("probe-order-tests"),
    read::<node::Probe>("probe"),
    read::<node::Probes>("probes"),
    read::<v1::Lab>("lab"),
    read::<hub::PlanTwin>("hub-plan-twin"),
    read::<hub::WhatIf>("hub-what-if"),
    read::<hub::WhatIfAnswer>("hub-what-if-answer"),
    read::<hub::SiteAnswers>("hub-site-answers"),
    read::<hub::SiteCatalogue>("hub-site-catalogue"),
    read::<hub::SiteQuestions>("hub-site-questions"),
    read::<hub::SiteRound>("hub-site-round"),
    read::<v1::plan::PlanFigures>("plan-figures"),
    read::<v1::plan::PlanForwarding>("plan-forwarding"),
    read::<v1::plan::PlanLinks>("plan-links"),
    read::<v1::plan::PlanOverlay>("plan-overlay"),
    read::<v1::plan::PlanPrediction>("plan-prediction"),
    read::<v1::plan::PlanEarlySign>("plan-early-sign"),
    read::<v1::plan::PlanSimulation>("plan-simulation"),
    read::<tune::AuditRequest>("tune-ask"),
    Document { name: "probe-result", rewrite: |_, _| pretty(&result(&hosts())) },
    read::<host::Hosts>("probe-hosts"),
    read::<Vec<all::Cause>>("probe-causes"),
    read::<Vec<all::Segment>>("probe-segments"),
    read::<all::Support>("probe-all"),
    read::<tcp::Order>("probe-tcp-order"),
    read::<tcp::Report>("probe-tcp"),
    read::<tcp::ScanReport>("probe-tcp-scan"),
    read::<udp::UdpOrder>("probe-udp-order"),
    read::<Vec<udp::UdpPace>>("probe-udp-paces"),
    read::<udp::UdpSweep>("probe-udp-sweep"),
    read::<udp::UdpSent>("probe-udp-sent"),
    read::<udp::UdpReceived>("probe-udp-received"),
    read::<udp::UdpPoint>("probe-udp-point"),
    read::<udp::UdpRequestOrder>("probe-udp-request-order"),
    read::<udp::UdpRequests>("probe-udp-requests"),
    read::<udp::UdpAnswered>("probe-udp-answered"),
    read::<latency::Latency>("probe-latency"),
    read::<route::RouteOrder>("probe-route-order"),
    read::<route::Route>("probe-route"),
    read::<route::Routes>("probe-routes"),
    read::<route::Sweep>("probe-route-sweep"),
    read::<route::Mtu>("probe-route-mtu"),
    read::<Vec<route::Change>>("probe-route-changes"),
    read::<disk::Order>("probe-disk-order"),
    read::<disk::Report>("probe-disk"),
    read::<probe::Limits>("probe-limits"),
    read::<probe::TestRequest>("far-ask"),
    read::<Vec<probe::Test>>("far-tests"),
    read::<Vec<probe::Task>>("far-tasks"),
    read::<Vec<probe::ClaimLine>>("far-claim-lines"),
    read::<Vec<tcp::TcpSampleLine>>("far-tcp-lines"),
    read::<Vec<probe::FlowLine>>("far-flow-lines"),
    read::<Vec<probe::DiskLine>>("far-disk-lines"),
];

/// Every word of the enums without fields.
#[derive(Serialize, Deserialize)]
struct Words {
    fault: Vec<Fault>,
    state: Vec<v1::State>,
    transfer_state: Vec<v1::Stage>,
    probe_state: Vec<node::ProbeStage>,
    direction: Vec<probe::Direction>,
    directions: Vec<tcp::Directions>,
    tcp_scan: Vec<tcp::Scan>,
    disk_test: Vec<disk::Test>,
    disk_mode: Vec<disk::IoMode>,
    route_end: Vec<route::End>,
    route_said: Vec<route::RouterReply>,
    route_suspect_by: Vec<route::SuspectBy>,
    route_mtu_bound: Vec<route::MtuBound>,
    route_change: Vec<route::ChangeOf>,
    cause: Vec<all::Kind>,
    hub_role: Vec<hub::Role>,
    hub_endpoint: Vec<hub::EndpointKind>,
    hub_constraint: Vec<hub::ConstraintKind>,
    hub_data: Vec<hub::DataKind>,
    hub_grouping: Vec<hub::Grouping>,
    hub_rule_state: Vec<hub::RuleState>,
    hub_audit_state: Vec<hub::AuditState>,
    watch_health: Vec<watch::Health>,
    watch_alarm: Vec<watch::AlarmKind>,
    watch_cause: Vec<watch::CauseKind>,
}

fn progress() -> v1::Progress {
    v1::Progress {
        v: 1,
        event: "progress",
        bytes: 5_368_709_120,
        bytes_total: 10_737_418_240,
        files: 41,
        files_total: 80,
        scanned: true,
        rate_bit_s: 9_412_000_000,
        eta_s: Some(4.5),
        eta_error_s: Some(0.25),
        seconds: 4.75,
        waiting_for: "space at the target".into(),
    }
}

fn planned() -> v1::Planned {
    let path_b64 = Some("cnVuNy//LmRhdA==".into());
    v1::Planned { v: 1, event: "would", step: "copy", path: "run7/\\xff.dat".into(), path_b64, bytes: 1_048_576 }
}

fn file_outcome() -> v1::FileOutcome {
    let path_b64 = Some("cnVuNy//LmRhdA==".into());
    v1::FileOutcome { v: 1, event: "file", path: "run7/\\xff.dat".into(), path_b64, bytes: 1_048_576, outcome: "done" }
}

fn failure() -> v1::Failure {
    let message = "no answer from dtn.example.org:7600; is the node up?".into();
    v1::Failure { v: 1, event: "error", exit: 4, fault: "path".into(), message }
}

fn hosts() -> host::Hosts {
    let near = host::Use { software: "longhaul 0.1.0".into(), processors: 8, ..host::Use::default() };
    host::Hosts { far: Some(near.clone()), near }
}

/// The head of a test's line, with the shortest of what may follow.
fn result(hosts: &host::Hosts) -> impl Serialize + '_ {
    const LIMITS: probe::Limits =
        probe::Limits { seconds: 60.0, tests: 2, bytes_a_day: 3, bytes_left: 4, anonymous_udp_bit_s: 5, clock: 6 };
    probe::ProbeDocument::of("result", "limits", "lh://dtn.example.org", &LIMITS).on(Some(hosts))
}
