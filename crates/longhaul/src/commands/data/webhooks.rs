//! `longhaul data webhook`: URLs to which the hub posts the events of names.

use hubapi::Api;
use model::v1::hub::{Webhook, WebhookOrder};

use super::print_value;
use crate::args::DataWebhookAction;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;

/// Runs the command.
pub(super) fn run(action: &DataWebhookAction, api: &Api, printer: &Printer) -> Result<(), Failure> {
    match action {
        DataWebhookAction::Set { name, url, kind, names } => {
            let order = WebhookOrder { url: url.clone(), kinds: kind.clone(), names: names.clone(), secret: None };
            print_value(printer, &api.set_webhook(name, &order).map_err(failure)?, line);
        }
        DataWebhookAction::List => {
            let all = api.webhooks().map_err(failure)?.webhooks;
            all.iter().for_each(|webhook| print_value(printer, webhook, line));
        }
        DataWebhookAction::Remove { name } => print_value(printer, &api.remove_webhook(name).map_err(failure)?, line),
    }
    Ok(())
}

fn line(webhook: &Webhook) -> String {
    let secret = webhook.secret.as_ref().map(|secret| format!("\n{secret}")).unwrap_or_default();
    let again = webhook.not_before.as_deref().map(|at| format!("; the next attempt is at {at}")).unwrap_or_default();
    let error = webhook
        .error
        .as_deref()
        .map(|error| format!("; the URL does not accept them: {error}{again}"))
        .unwrap_or_default();
    format!("{:30}  {}  {} events posted{error}{secret}", webhook.name, webhook.url, webhook.told)
}
