//! FTS's easy bindings: each of their functions.

use serde_json::json;

use super::BINDINGS;
use super::hub_with_nodes::{HubWithNodes, environment};
use crate::case::Case;
use crate::context::CaseContext;

pub const CASES: &[Case] = &[Case::new(
    BINDINGS,
    "functions",
    "whoami, submit, list, status, cancel, cancel_all, bans, staging, deletion",
    "as FTS answers; deletion and staging are refused in a sentence",
    functions,
)];

fn functions(context: &CaseContext) {
    let python = environment("fts3").join("bin/python").display().to_string();
    let hub = HubWithNodes::start(context, 2, &[]);
    let files = (0..4).map(|at| hub.put(0, &format!("f{at}"), b"123456789")).collect::<Vec<_>>();
    let targets = (0..4).map(|at| hub.at(1, &format!("g{at}"))).collect::<Vec<_>>();
    let settings = json!({
        "endpoint": hub.endpoint(), "user": hub.user, "admin": hub.admin, "sources": files, "targets": targets,
        "storages": [hub.storage(0), hub.storage(1)],
    });
    let script = context.write("bindings.py", include_bytes!("bindings.py"));
    context.run(&[&python, &script, &settings.to_string()]).expect_success().expect_text("all of them");
    assert_eq!((hub.get(1, "g0"), hub.has(1, "g1")), (b"123456789".to_vec(), false));
}
