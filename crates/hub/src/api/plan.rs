//! The twin of the collaboration, and what-if questions about it.

use std::time::{Duration, Instant};

use model::v1::hub::{PlanTwin, WhatIf, WhatIfAnswer};
use model::v1::plan::PlanSimulation;
use plan::simulate;
use scenario::Scenario;
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::state::unavailable;
use crate::time;
use crate::twin::Twin;

/// The wall time of one simulation. The answer holds what was simulated until then.
const SIMULATION_MAX: Duration = Duration::from_secs(4);

/// GET /api/v1/plan/twin.
pub(super) async fn twin(request: ApiRequest) -> ApiResult {
    let twin = current_twin(&request).await?;
    json(200, &PlanTwin { scenario: twin.scenario(time::now()).map_err(Refused::from)? })
}

/// POST /api/v1/plan/what-if.
pub(super) async fn what_if(request: ApiRequest) -> ApiResult {
    let change: WhatIf = request.read("a what-if question")?;
    let today = current_twin(&request).await?;
    let mut changed = today.clone();
    changed.change(&change).map_err(Refused::from)?;
    // Away from the threads that answer requests.
    let answer = tokio::task::spawn_blocking(move || compare(&today, &changed)).await;
    json(200, &answer.map_err(|error| Refused::new(500, format!("the simulation ended: {error}")))??)
}

fn compare(today: &Twin, changed: &Twin) -> Result<WhatIfAnswer, Refused> {
    Ok(WhatIfAnswer { today: simulate_twin("today", today)?, changed: simulate_twin("changed", changed)? })
}

async fn current_twin(request: &ApiRequest) -> Result<Twin, Refused> {
    let queues = request.hub.database.queues().await.map_err(unavailable)?;
    let may_see =
        |queue: &crate::database::queues::Queue| request.member.may_change(&queue.key.owner, &queue.key.community);
    let seen: Vec<_> = queues.into_iter().filter(may_see).collect();
    let measured = request.hub.measured_paths();
    Ok(Twin::new(&request.hub.topology.load().described, &seen, measured, time::now()))
}

fn simulate_twin(name: &str, twin: &Twin) -> Result<PlanSimulation, Refused> {
    let text = twin.scenario(time::now()).map_err(Refused::from)?;
    let scenario = Scenario::read(&text).map_err(|problem| {
        Refused::new(500, format!("the twin is not a scenario ({problem}): this is a fault of the hub"))
    })?;
    let began = Instant::now();
    let outcome = simulate(&scenario, None, &mut |_| began.elapsed() < SIMULATION_MAX);
    Ok(outcome.document(name, scenario.seed, None))
}
