//! FTS's easy bindings: each of their functions.

use serde_json::json;

use super::BINDINGS;
use super::stage::{HubWithNodes, environment};
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
    let stage = HubWithNodes::set(context, 2, &[]);
    let files = (0..4).map(|at| stage.put(0, &format!("f{at}"), b"123456789")).collect::<Vec<_>>();
    let targets = (0..4).map(|at| stage.at(1, &format!("g{at}"))).collect::<Vec<_>>();
    let settings = json!({
        "endpoint": stage.endpoint(), "user": stage.user, "admin": stage.admin, "sources": files, "targets": targets,
        "storages": [stage.storage(0), stage.storage(1)],
    });
    let script = context.write("bindings.py", include_bytes!("bindings.py"));
    context.run(&[&python, &script, &settings.to_string()]).expect_success().expect_text("all of them");
    assert_eq!((stage.get(1, "g0"), stage.has(1, "g1")), (b"123456789".to_vec(), false));
}
