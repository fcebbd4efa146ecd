//! The forms on pages: begin and end of a browser session, uploads, new directories.
//!
//! No script runs on a page. A form is a POST to the page with the query `form`, and is answered with the page. A form is accepted
//! only from a page of this node: browsers name the site of a form in `Origin`.

use auth::Action;
use model::{Kind, Name, RelPath};
use serve::{Length, SHORT_BODY_BYTES_MAX};
use web::form::{FormError, Parts};
use web::target::{self, Target};
use web::{Headers, Response};

use super::refused::{Outcome, RequestFailure, RequestOutcome, cut_short, refuse};
use super::request_context::RequestContext;
use super::{get, put};
use crate::http::short_body::read_short_body;
use authn::sessions;

impl From<FormError> for RequestFailure {
    fn from(error: FormError) -> RequestFailure {
        refuse(400, error.to_string())
    }
}

/// Answers a form.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    check_origin(context)?;
    if let Some(parts) = Parts::of(&context.request().headers) {
        let bytes = upload(context, parts)?;
        return redirect_to_page(context, None, bytes);
    }
    let body = read_short_body(context.exchange, SHORT_BODY_BYTES_MAX, "a form")?;
    // Forms encode spaces as plus signs.
    let body = String::from_utf8(body).map_err(|_| refuse(400, "the form is not text"))?.replace('+', "%20");
    let field = |name: &str| target::pairs(&body).find(|(key, _)| key == name).map(|(_, value)| value);
    match field("do").as_deref() {
        Some("enter") => {
            let key = field("key").unwrap_or_default().trim().to_owned();
            context.service.services.authenticator.check_new_session_credential(context.exchange.peer().ip(), &key)?;
            let id = context.service.services.authenticator.sessions.open(key);
            let id = id.ok_or_else(|| {
                refuse(500, "no session can be opened for this credential: send it with each request")
            })?;
            redirect_to_page(context, Some(Some(id)), 0)
        }
        Some("leave") => {
            context.service.services.authenticator.sessions.close(context.request(), context.exchange.is_secure());
            redirect_to_page(context, Some(None), 0)
        }
        Some("mkdir") => {
            make_dir(context, &field("name").unwrap_or_default())?;
            redirect_to_page(context, None, 0)
        }
        _ => Err(refuse(400, "the form does not say what to do")),
    }
}

/// Refuses a form of another site, which would act with the rights of this browser.
fn check_origin(context: &RequestContext<'_>) -> Outcome<()> {
    let origin = context.request().headers.get("origin").unwrap_or_default();
    let host = origin.split_once("://").map(|(_, host)| host).unwrap_or_default();
    match context.authority() {
        Some(called) if !host.is_empty() && host.eq_ignore_ascii_case(called) => Ok(()),
        _ => Err(refuse(403, "a form is accepted only from a page of this node (Origin)")),
    }
}

/// Redirects the browser to the page itself, and sets or removes the session's cookie.
fn redirect_to_page(context: &mut RequestContext<'_>, session: Option<Option<String>>, bytes: u64) -> Outcome {
    let mut response = Response::new(303).with("Location", "?").with("Cache-Control", "no-store");
    if let Some(id) = session {
        let cookie = sessions::cookie(&context.request().headers, context.exchange.is_secure(), id.as_deref());
        response = response.with("Set-Cookie", cookie);
    }
    context.exchange.begin(response, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 303, bytes })
}

/// The export and path of a name in the directory of the page.
fn below(context: &RequestContext<'_>, name: &str) -> Outcome<(String, RelPath)> {
    let bad = || refuse(400, format!("{name:?} cannot be a name here"));
    let name = Name::new(name.as_bytes()).map_err(|_| bad())?;
    let (export, dir) = context.place()?.ok_or_else(|| refuse(403, "the root cannot be written to"))?;
    Ok((export, dir.join(&name)))
}

fn make_dir(context: &RequestContext<'_>, name: &str) -> Outcome<()> {
    let (export, path) = below(context, name)?;
    let resolved = context.resolve(Action::MakeDir, &export, &path)?;
    if get::kind(&resolved)?.is_some() {
        return Err(refuse(409, format!("{name} exists already")));
    }
    Ok(resolved.store.make_dir(&resolved.path)?)
}

/// The target of a request for a file in the directory of the page.
fn file_in(dir: &Target, path: &RelPath) -> Target {
    let path = path.name().map_or_else(|| dir.path.clone(), |name| dir.path.join(&name));
    Target { path, is_dir: false, ..dir.clone() }
}

/// Stores the files of a form, none of which replaces an existing entry; returns their bytes.
fn upload(context: &mut RequestContext<'_>, mut parts: Parts) -> Outcome<u64> {
    let dir = context.target.clone();
    let mut bytes = 0;
    let mut files = 0;
    loop {
        let next = parts.next(&mut |into: &mut [u8]| context.exchange.read(into).map_err(cut_short))?;
        let Some(head) = next else { break };
        // A browser sends an empty part if no file was chosen.
        let Some(name) = head.file.filter(|name| !name.is_empty()) else { continue };
        let (export, path) = below(context, &name)?;
        context.target = file_in(&dir, &path);
        let resolved = context.resolve(Action::Create, &export, &path)?;
        if put::existing_target(context, &resolved, false)?.is_some_and(|kind| kind != Kind::Dir) {
            return Err(refuse(409, format!("{name} exists already; remove it first, or give the file another name")));
        }
        bytes += put::receive_part(context, &resolved, &mut parts)?;
        files += 1;
        context.meter.file_received();
        context.target = dir.clone();
    }
    if files == 0 {
        return Err(refuse(400, "no file was chosen"));
    }
    Ok(bytes)
}
