//! `longhaul data webhook`: URLs that are posted the events of names.

use hubapi::Api;
use model::v1::hub::{Webhook, WebhookOrder};

use super::tell;
use crate::args::DataWebhookAction;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;

/// Runs the command.
pub(super) fn run(action: &DataWebhookAction, api: &Api, printer: &Printer) -> Result<(), Failure> {
    match action {
        DataWebhookAction::Set { name, url, kind, names } => {
            let order = WebhookOrder { url: url.clone(), kinds: kind.clone(), names: names.clone(), secret: None };
            tell(printer, &api.set_webhook(name, &order).map_err(failure)?, line);
        }
        DataWebhookAction::List => {
            let all = api.webhooks().map_err(failure)?.webhooks;
            all.iter().for_each(|webhook| tell(printer, webhook, line));
        }
        DataWebhookAction::Remove { name } => tell(printer, &api.remove_webhook(name).map_err(failure)?, line),
    }
    Ok(())
}

fn line(webhook: &Webhook) -> String {
    let secret = webhook.secret.as_ref().map(|secret| format!("\n{secret}")).unwrap_or_default();
    let again = webhook.not_before.as_deref().map(|at| format!("; again at {at}")).unwrap_or_default();
    let error =
        webhook.error.as_deref().map(|error| format!("; does not take them: {error}{again}")).unwrap_or_default();
    format!("{:30}  {}  {} events told{error}{secret}", webhook.name, webhook.url, webhook.told)
}
