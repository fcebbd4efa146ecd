//! Requests of people besides those for jobs and data: estimates, repeats, share links, marks of links, the audit trail.

use model::v1::hub::{
    Estimate, HubActions, JobOrder, Link, LinkMark, Repeat, RepeatOrder, Repeats, ShareLink, ShareLinkOrder, ShareLinks,
};
use web::Method;
use web::target::encode_value;

use crate::{Api, Result};

impl Api {
    /// How long a job would take.
    pub fn estimate(&self, order: &JobOrder) -> Result<Estimate> {
        Ok(self.0.send(&Method::Post, "/api/v1/estimates", Some(order))?.1)
    }

    /// Makes a repeat: an order that is submitted every day or week.
    pub fn repeat(&self, order: &RepeatOrder) -> Result<Repeat> {
        Ok(self.0.send(&Method::Post, "/api/v1/repeats", Some(order))?.1)
    }

    /// The repeats.
    pub fn repeats(&self) -> Result<Repeats> {
        self.0.get("/api/v1/repeats")
    }

    /// Ends a repeat.
    pub fn end_repeat(&self, id: &str) -> Result<Repeat> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/repeats/{}", encode_value(id)), None::<&()>)?.1)
    }

    /// Makes a share link: an address for people without an account.
    pub fn share(&self, order: &ShareLinkOrder) -> Result<ShareLink> {
        Ok(self.0.send(&Method::Post, "/api/v1/share-links", Some(order))?.1)
    }

    /// The share links.
    pub fn share_links(&self) -> Result<ShareLinks> {
        self.0.get("/api/v1/share-links")
    }

    /// Ends a share link.
    pub fn end_share_link(&self, id: &str) -> Result<ShareLink> {
        Ok(self.0.send(&Method::Delete, &format!("/api/v1/share-links/{}", encode_value(id)), None::<&()>)?.1)
    }

    /// Sets the high-water mark of a link: the part of its capacity that may be used.
    pub fn set_mark(&self, link: &str, mark: f64) -> Result<Link> {
        Ok(self.0.send(&Method::Put, &format!("/api/v1/marks/{}", encode_value(link)), Some(&LinkMark { mark }))?.1)
    }

    /// The audit trail, the latest action first; only those of the member `by`, unless it is empty.
    pub fn actions(&self, by: &str, limit: usize) -> Result<HubActions> {
        self.0.get(&format!("/api/v1/actions?limit={limit}&by={}", encode_value(by)))
    }
}
