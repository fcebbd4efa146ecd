//! What stayed, or did not come, of a tree: told one by one (RFC 4918, sections 9.6.1 and 9.8.5).

use model::RelPath;
use web::dav::multistatus;
use web::{Response, head, target};

use crate::http::refused::{Outcome, Trouble, refuse};
use crate::http::request_context::RequestContext;
use crate::http::text::Text;

/// Places that are told of; whoever has more learns of them with the next request.
const TOLD_MAX: usize = 1000;

/// Places below the node's root that something went wrong with, and what.
#[derive(Debug, Default)]
pub(super) struct Stayed {
    told: Vec<(RelPath, u16, String)>,
    untold: usize,
    /// Something else was done: a status alone would say that nothing was.
    pub is_partial: bool,
}

impl Stayed {
    /// Nothing did.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// One more: an export, and a path in it.
    pub fn add(&mut self, export: &str, path: &RelPath, status: u16, reason: String) {
        if self.told.len() == TOLD_MAX {
            self.untold += 1;
            return;
        }
        if let Ok(top) = RelPath::parse(export.as_bytes()) {
            self.told.push((top.join_path(path), status, reason));
        }
    }

    /// The same from an error; a broken connection ends everything.
    pub fn note(&mut self, export: &str, path: &RelPath, trouble: Trouble) -> Outcome<()> {
        match trouble {
            Trouble::Refused(refused) => {
                self.add(export, path, refused.status, refused.reason);
                Ok(())
            }
            broken @ Trouble::Broken(_) => Err(broken),
        }
    }

    /// The answer: a status alone where only the place itself was the trouble, else each with its own.
    pub fn answer(self, context: &mut RequestContext<'_>) -> Outcome {
        if let [(path, status, reason)] = self.told.as_slice()
            && *path == context.target.path
            && !self.is_partial
        {
            return Err(refuse(*status, reason.clone()));
        }
        let mut text = multistatus::open();
        for (path, status, _) in &self.told {
            let href = target::location("", path, false, None);
            text.push_str(&multistatus::status(&href, *status, head::reason(*status)));
        }
        text.push_str(multistatus::close());
        let first = self.told.first().map(|(path, status, reason)| format!("/{path}: {status} {reason}"));
        let (places, first) = (self.told.len() + self.untold, first.unwrap_or_default());
        tracing::info!(target = context.shown(), places, first, "not all of a tree");
        let response = Response::new(207).with("Content-Type", multistatus::CONTENT_TYPE);
        Ok(Text::send(context.exchange, response, text.as_bytes())?)
    }
}
