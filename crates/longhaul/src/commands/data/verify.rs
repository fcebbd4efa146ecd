//! `longhaul data verify`: compares the replicas at endpoints with the catalogue, by their checksums.

use hubapi::Api;
use model::Exit;
use model::checksum::{Algorithm, Digest};
use model::v1::hub::{BadReplica, FileReplicas, Replica};
use serde::Serialize;
use wire::frame::Request;

use super::each_file;
use crate::commands::files;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The result of the verification of one replica.
#[derive(Serialize)]
struct Verification {
    name: String,
    endpoint: String,
    /// `good`, `bad` or `unknown`.
    found: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Runs the command.
pub(super) fn run(
    name: &str,
    declare: bool,
    api: &Api,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let mut good = 0u64;
    let mut others = 0u64;
    each_file(api, name, |file| {
        for copy in file.replicas.iter().filter(|copy| copy.state == "available") {
            let verification = verify(&file, copy, settings);
            if verification.found == "good" {
                good += 1;
                continue;
            }
            others += 1;
            print_verification(printer, &verification);
            if declare && verification.found == "bad" {
                let why = verification.why.clone().unwrap_or_default();
                let bad = BadReplica { endpoint: copy.endpoint.clone(), why };
                api.declare_bad(&file.name, &bad).map_err(failure)?;
            }
        }
        Ok(())
    })?;
    if printer.is_chatty() && !printer.is_json() {
        printer.line(&format!("{good} copies are what they should be, {others} are not, or could not be checked"));
    }
    Ok(if others == 0 { Exit::Done } else { Exit::Partial })
}

fn print_verification(printer: &Printer, verification: &Verification) {
    if printer.is_json() {
        return printer.object(verification);
    }
    let why = verification.why.as_deref().unwrap_or_default();
    printer.line(&format!("{:7}  {} at {}: {why}", verification.found, verification.name, verification.endpoint));
}

fn verify(file: &FileReplicas, copy: &Replica, settings: &Settings) -> Verification {
    let result = |found, why: Option<String>| Verification {
        name: file.name.clone(),
        endpoint: copy.endpoint.clone(),
        found,
        why,
    };
    let known = [(Algorithm::Adler32, &file.adler32), (Algorithm::Md5, &file.md5)];
    let known = known.into_iter().find_map(|(algorithm, value)| Some((algorithm, value.as_ref()?)));
    let Some((algorithm, value)) = known else {
        return result("unknown", Some("the catalogue has no checksum of it".to_owned()));
    };
    let Ok(right) = format!("{}:{value}", algorithm.name()).parse::<Digest>() else {
        return result("unknown", Some(format!("the catalogue's checksum {value} is not valid")));
    };
    match digest(&copy.url, algorithm, settings) {
        Ok(Some(found)) if found == right => result("good", None),
        Ok(Some(found)) => result("bad", Some(format!("its checksum is {found}, and {right} is right"))),
        Ok(None) => result("unknown", Some("its endpoint has no checksum of it".to_owned())),
        Err(error) if error.fault == model::Fault::Missing => result("bad", Some("it is not there".to_owned())),
        Err(error) => result("unknown", Some(error.message)),
    }
}

/// The checksum of a file, as its node computes it.
fn digest(url: &str, algorithm: Algorithm, settings: &Settings) -> Result<Option<Digest>, Failure> {
    let model::Locator::Node { at, place, .. } = settings.locator(url.as_ref())? else {
        return Err(Failure::usage(format!(
            "{url} is not on a node, and only nodes compute checksums for this command"
        )));
    };
    let mut found = None;
    files::send_request(settings, &at, Request::Digest(place, vec![algorithm]), |lines| {
        found = lines.into_iter().flat_map(|line| line.digests).next().or(found.take());
    })?;
    Ok(found)
}
