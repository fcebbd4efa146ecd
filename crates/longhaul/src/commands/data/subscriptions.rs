//! `longhaul data subscription`: rules that the hub adds to new data by itself.

use std::collections::BTreeMap;

use hubapi::Api;
use model::Exit;
use model::v1::hub::{Subscription, SubscriptionOrder};
use serde::{Deserialize, Serialize};

use super::print_value;
use crate::args::DataSubscriptionAction;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;
use crate::toml_file;

/// A file of subscriptions.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct SubscriptionFile {
    /// The subscriptions, by name.
    subscription: BTreeMap<String, SubscriptionOrder>,
}

/// Runs the command.
pub(super) fn run(action: &DataSubscriptionAction, api: &Api, printer: &Printer) -> Result<Exit, Failure> {
    match action {
        DataSubscriptionAction::Apply { file } => {
            let SubscriptionFile { subscription: all } = toml_file::read(file)?;
            for (name, order) in all {
                print_value(printer, &api.set_subscription(&name, &order).map_err(failure)?, line);
            }
        }
        DataSubscriptionAction::List => {
            let all = api.subscriptions().map_err(failure)?.subscriptions;
            all.iter().for_each(|subscription| print_value(printer, subscription, line));
        }
        DataSubscriptionAction::Show { name } => print_value(printer, &api.subscription(name).map_err(failure)?, text),
        DataSubscriptionAction::Remove { name } => {
            print_value(printer, &api.remove_subscription(name).map_err(failure)?, line);
        }
    }
    Ok(Exit::Done)
}

fn line(subscription: &Subscription) -> String {
    let state = if subscription.suspended { "suspended" } else { "active" };
    let waiting = match (&subscription.error, subscription.waiting) {
        (_, 0) | (None, _) => String::new(),
        (Some(error), waiting) => format!("; {waiting} wait: {error}"),
    };
    let rules = match subscription.rules.len() {
        1 => "1 rule".to_owned(),
        rules => format!("{rules} rules"),
    };
    format!(
        "{:30}  {state:9}  {rules} of {}, {} names have them{waiting}",
        subscription.name, subscription.account, subscription.names
    )
}

/// A subscription as `apply` reads it, with its state as a comment.
fn text(subscription: &Subscription) -> String {
    let order = SubscriptionOrder {
        filter: subscription.filter.clone(),
        rules: subscription.rules.clone(),
        community: Some(subscription.community.clone()),
        existing: false,
        suspended: subscription.suspended,
        expires: subscription.expires.clone(),
        comment: subscription.comment.clone(),
    };
    let file = SubscriptionFile { subscription: [(subscription.name.clone(), order)].into() };
    format!("# {}\n{}", line(subscription), toml::to_string(&file).unwrap_or_default())
}
