//! A typed client of an agent's API, blocking.

use model::id::Uuid;
use web::api_client::{ApiClient, ApiError};
use web::{Dialer, HttpUrl, Method};

use super::words::{AgentHealth, AgentTools, ToolRunOrder, ToolRunRenewal, ToolRunStatus};

type Result<T> = std::result::Result<T, ApiError>;

/// An agent's API.
#[derive(Clone)]
pub struct AgentApi(ApiClient);

impl AgentApi {
    /// The API of the agent at `https://HOST:PORT/`. `authorization` is the value of the field `Authorization`: `Bearer …`.
    pub fn new(dialer: Dialer, origin: HttpUrl, authorization: Option<&str>) -> AgentApi {
        AgentApi(ApiClient::new("agent", dialer, origin, authorization))
    }

    /// The agent's health.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub fn health(&self) -> Result<AgentHealth> {
        self.0.get("/api/v1/health")
    }

    /// The agent's tools.
    ///
    /// # Errors
    /// The agent cannot be reached, or refuses the request.
    pub fn tools(&self) -> Result<AgentTools> {
        self.0.get("/api/v1/tools")
    }

    /// Starts a run. Returns it, and whether it is new: the same order may be sent repeatedly.
    ///
    /// # Errors
    /// The agent cannot be reached, or refuses the order.
    pub fn start(&self, order: &ToolRunOrder) -> Result<(ToolRunStatus, bool)> {
        let (code, status) = self.0.send(&Method::Post, "/api/v1/runs", Some(order))?;
        Ok((status, code == 201))
    }

    /// A run.
    ///
    /// # Errors
    /// The agent cannot be reached, or does not know the run.
    pub fn run(&self, id: Uuid) -> Result<ToolRunStatus> {
        self.0.get(&format!("/api/v1/runs/{id}"))
    }

    /// Lets a run go on for `lifetime_s` seconds from now. A run that has ended does not change; its state is in the answer.
    ///
    /// # Errors
    /// The agent cannot be reached, or does not know the run.
    pub fn renew(&self, id: Uuid, lifetime_s: u32) -> Result<ToolRunStatus> {
        let renewal = ToolRunRenewal { lifetime_s };
        Ok(self.0.send(&Method::Patch, &format!("/api/v1/runs/{id}"), Some(&renewal))?.1)
    }

    /// Stops a run, and waits until its processes have ended. A run that has ended does not change.
    ///
    /// # Errors
    /// The agent cannot be reached, or does not know the run.
    pub fn stop(&self, id: Uuid) -> Result<ToolRunStatus> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/runs/{id}"), None::<&()>)?.1)
    }
}
