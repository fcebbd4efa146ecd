//! One transfer of the near end: its order, its stream settings and its control.

use std::sync::Arc;

use engine::control::{Control, Label};
use engine::receive::{Policy, Receiving};
use engine::scan::SourceRoot;
use engine::session::{Report, Session, SessionParts};
use model::spec::LiveSettings;
use store::Store;
use wire::frame::Open;
use wire::receiver::Target;

use super::fixture::rel;

/// The order and settings of one transfer.
pub struct TestTransfer {
    pub order: Open,
    pub parts: SessionParts,
    pub control: Control,
}

impl TestTransfer {
    /// A transfer whose settings do not change.
    pub fn new(order: Open, parts: SessionParts) -> TestTransfer {
        TestTransfer { order, parts, control: control(LiveSettings::default()) }
    }

    /// Sends one source out of a store.
    pub fn push(self, session: &mut Session, store: Arc<dyn Store>, from: &str) -> Report {
        let path = rel(from);
        let root = SourceRoot { store, name: path.name().unwrap(), path };
        session.push(self.order, vec![root], None, &self.parts, &self.control, &mut |_| {})
    }

    /// Fetches into a store.
    pub fn pull(self, session: &mut Session, store: Arc<dyn Store>, target: Target, policy: Policy) -> Report {
        let receiving = |waker| Some(Receiving::new(store, target, policy, waker, Box::new(|_| {})));
        session.pull(self.order, None, &self.parts, receiving, &self.control, &mut |_| {})
    }
}

pub fn control(steer: LiveSettings) -> Control {
    Control::new(Label::default(), steer, Default::default())
}
