//! The board of exercises: controllers report their runs, members look at them, and owners and operators stop them.

use model::v1::exercise::{ExerciseBoard, ExerciseBoards, ExerciseProgress, ExerciseStop};
use uuid::Uuid;
use web::Refused;

use super::{ApiRequest, ApiResult, json};
use crate::catalogue::refused;
use crate::database::exercises::ExerciseRow;
use crate::time;

/// How long a run stays on the board after its last report.
const KEPT_MS: i64 = 7 * 86_400_000;
/// Runs on the board.
const BOARD_MAX: i64 = 100;
/// Runs of one owner: the oldest leave the board for new ones.
const RUNS_PER_OWNER_MAX: i64 = 50;
/// Flows of a report: an exercise has no more.
const FLOWS_MAX: usize = 1_000;

/// The name of the route by which controllers report. Reports come every second, so they are no actions of the audit trail.
pub(super) const REPORT: &str = "reportExercise";

/// PUT /api/v1/exercises/ID.
pub(super) async fn report(request: ApiRequest) -> ApiResult {
    let progress: ExerciseProgress = request.read("the report of an exercise")?;
    if request.id.parse::<Uuid>().is_err() {
        return Err(Refused::new(400, "the id of a run is a UUID"));
    }
    if progress.flows.len() > FLOWS_MAX {
        return Err(Refused::new(400, format!("a report has {FLOWS_MAX} flows at most")));
    }
    let database = &request.hub.database;
    let now = time::now();
    let body = serde_json::to_string(&progress).unwrap_or_default();
    let (id, owner) = (request.id.clone(), request.member.owner.clone());
    let row = ExerciseRow { id, owner, reported: now, stopped_by: String::new(), body };
    database.report_exercise(row, now - KEPT_MS, RUNS_PER_OWNER_MAX).await.map_err(refused)?;
    let stored = database.exercise(&request.id).await.map_err(refused)?;
    let stored = stored.filter(|row| row.owner == request.member.owner).ok_or_else(|| unknown(&request.id))?;
    json(200, &ExerciseStop { stopped_by: Some(stored.stopped_by).filter(|by| !by.is_empty()) })
}

/// GET /api/v1/exercises.
pub(super) async fn list(request: ApiRequest) -> ApiResult {
    let rows = request.hub.database.exercises(time::now() - KEPT_MS, BOARD_MAX).await.map_err(refused)?;
    json(200, &ExerciseBoards { exercises: rows.into_iter().map(to_api).collect() })
}

/// PUT /api/v1/exercises/ID/stop.
pub(super) async fn stop(request: ApiRequest) -> ApiResult {
    let database = &request.hub.database;
    let row = database.exercise(&request.id).await.map_err(refused)?.ok_or_else(|| unknown(&request.id))?;
    if !request.member.may_change(&row.owner, "") {
        return Err(Refused::new(403, format!("only {} and operators stop this run", row.owner)));
    }
    if to_api(row.clone()).progress.result.is_some() {
        return Err(Refused::new(409, "this run has ended already"));
    }
    database.stop_exercise(row.id, request.member.owner.clone()).await.map_err(refused)?;
    let row = database.exercise(&request.id).await.map_err(refused)?.ok_or_else(|| unknown(&request.id))?;
    json(200, &to_api(row))
}

fn unknown(id: &str) -> Refused {
    Refused::new(404, format!("there is no run {id} of an exercise, or none of yours"))
}

fn to_api(row: ExerciseRow) -> ExerciseBoard {
    ExerciseBoard {
        id: row.id,
        owner: row.owner,
        reported: time::show(row.reported),
        stopped_by: Some(row.stopped_by).filter(|by| !by.is_empty()),
        progress: serde_json::from_str(&row.body).unwrap_or_default(),
    }
}
