//! Exercises: their board at the hub, and their outcomes for its watch.

use model::id::Uuid;
use model::v1::exercise::{ExerciseBoard, ExerciseBoards, ExerciseOutcome, ExerciseProgress, ExerciseStop};
use model::v1::watch::Alarms;
use web::Method;

use super::{Api, Result};

impl Api {
    /// Reports the state of a run; the answer says whether somebody has stopped it.
    pub fn report_exercise(&self, id: Uuid, progress: &ExerciseProgress) -> Result<ExerciseStop> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/exercises/{id}"), Some(progress))?.1)
    }

    /// The runs on the board, those with the latest reports first.
    pub fn exercises(&self) -> Result<ExerciseBoards> {
        self.0.get("/api/v1/exercises")
    }

    /// Stops a run.
    pub fn stop_exercise(&self, id: Uuid) -> Result<ExerciseBoard> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/exercises/{id}/stop"), None::<&()>)?.1)
    }

    /// Hands the outcome of a repeated exercise to the watch of the hub; returns the alarms that it raised.
    pub fn watch_exercise(&self, outcome: &ExerciseOutcome) -> Result<Alarms> {
        Ok(self.0.send(&Method::Post, "/api/v1/watch/exercises", Some(outcome))?.1)
    }
}
