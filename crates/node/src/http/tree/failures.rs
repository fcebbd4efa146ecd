//! The entries of a tree that could not be removed or copied, reported one by one (RFC 4918, sections 9.6.1 and 9.8.5).

use model::RelPath;
use web::dav::multistatus;
use web::{Response, head, target};

use crate::http::refused::{Outcome, RequestFailure, refuse};
use crate::http::request_context::RequestContext;
use crate::http::text::Text;

/// Entries that one answer reports; the next request reports further ones.
const REPORTED_MAX: usize = 1000;

/// Paths below the node's root of entries that failed, each with a status and a reason.
#[derive(Debug, Default)]
pub(super) struct EntryFailures {
    reported: Vec<(RelPath, u16, String)>,
    /// The number of further entries, beyond [`REPORTED_MAX`].
    unreported: usize,
    /// Other entries were removed or copied: a single status would say that nothing was done.
    pub is_partial: bool,
}

impl EntryFailures {
    /// Whether no entry failed.
    pub fn is_empty(&self) -> bool {
        self.reported.is_empty()
    }

    /// Adds an entry: its export, and its path there.
    pub fn add(&mut self, export: &str, path: &RelPath, status: u16, reason: String) {
        if self.reported.len() == REPORTED_MAX {
            self.unreported += 1;
            return;
        }
        if let Ok(top) = RelPath::parse(export.as_bytes()) {
            self.reported.push((top.join_path(path), status, reason));
        }
    }

    /// Adds an entry with the status of a refusal.
    ///
    /// # Errors
    /// The failure is a broken connection, which ends the request.
    pub fn note(&mut self, export: &str, path: &RelPath, failure: RequestFailure) -> Outcome<()> {
        match failure {
            RequestFailure::Refused(refused) => {
                self.add(export, path, refused.status, refused.reason);
                Ok(())
            }
            broken @ RequestFailure::Broken(_) => Err(broken),
        }
    }

    /// Answers with a single status if only the target itself failed, else with a status for each entry.
    pub fn answer(self, context: &mut RequestContext<'_>) -> Outcome {
        if let [(path, status, reason)] = self.reported.as_slice()
            && *path == context.target.path
            && !self.is_partial
        {
            return Err(refuse(*status, reason.clone()));
        }
        let mut text = multistatus::open();
        for (path, status, _) in &self.reported {
            let href = target::location("", path, false, None);
            text.push_str(&multistatus::status(&href, *status, head::reason(*status)));
        }
        text.push_str(multistatus::close());
        let first = self.reported.first().map(|(path, status, reason)| format!("/{path}: {status} {reason}"));
        let places = self.reported.len() + self.unreported;
        let first = first.unwrap_or_default();
        tracing::info!(
            target = context.shown_target(),
            places,
            first,
            "some entries of a tree could not be removed or copied"
        );
        let response = Response::new(207).with("Content-Type", multistatus::CONTENT_TYPE);
        Ok(Text::send(context.exchange, response, text.as_bytes())?)
    }
}
