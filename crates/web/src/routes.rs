//! A table of routes: the methods and paths of an API, with their parameters and responses. Requests are routed by it, and the OpenAPI
//! document is made from it ([`crate::openapi`]), so that the two cannot differ. The table is generic over the type of the handler, a
//! function of the service.

/// A method of a path.
#[derive(Clone, Copy, Debug)]
pub struct Route<H> {
    /// The method; `GET` includes `HEAD`.
    pub method: &'static str,
    /// The path. One part may be `{id}`.
    pub path: &'static str,
    /// Its unique name in the document.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Parameters of the query, and what they mean.
    pub query: &'static [(&'static str, &'static str)],
    /// The schema of the request's body.
    pub body: Option<&'static str>,
    /// The responses other than errors, and the errors with a specific meaning.
    pub answers: &'static [Answer],
    /// Answers the requests.
    pub handler: H,
}

/// Whether a route needs a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Credentials are ignored.
    Public,
    /// The response depends on the credential.
    Optional,
    /// A credential is required.
    Required,
}

/// A response, as the document describes it.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// What it means.
    pub means: &'static str,
    /// The schema of its body, where there is one.
    pub schema: Option<&'static str>,
    /// The media type of its body.
    pub media: &'static str,
}

/// `application/json`.
pub const JSON: &str = "application/json";
/// Problems of RFC 9457.
pub const PROBLEM: &str = "application/problem+json";
/// Server-sent events.
pub const EVENTS: &str = "text/event-stream";

impl Answer {
    /// JSON of this schema.
    pub const fn json(status: u16, means: &'static str, schema: &'static str) -> Answer {
        Answer { status, means, schema: Some(schema), media: JSON }
    }

    /// JSON of no schema, or no body.
    pub const fn any(status: u16, means: &'static str) -> Answer {
        Answer { status, means, schema: None, media: JSON }
    }

    /// A problem with a specific meaning.
    pub const fn problem(status: u16, means: &'static str) -> Answer {
        Answer { status, means, schema: Some("Problem"), media: PROBLEM }
    }

    /// A stream of events.
    pub const fn events(status: u16, means: &'static str) -> Answer {
        Answer { status, means, schema: None, media: EVENTS }
    }
}

/// Why no route matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// No route has this path.
    Path,
    /// Routes have this path, with these methods.
    Method(Vec<&'static str>),
}

/// The route of a method and a path (without the leading slash), and the value of `{id}`.
///
/// # Errors
/// No route has this path, or none with this method.
pub fn find<'r, 'p, H>(
    routes: &'r [Route<H>],
    method: &str,
    path: &'p str,
) -> Result<(&'r Route<H>, Option<&'p str>), RouteError> {
    let mut allowed = Vec::new();
    for route in routes {
        let Some(id) = match_path(route.path, path) else { continue };
        if route.method == method || route.method == "GET" && method == "HEAD" {
            return Ok((route, id));
        }
        allowed.push(route.method);
    }
    Err(if allowed.is_empty() { RouteError::Path } else { RouteError::Method(allowed) })
}

/// The methods of a path.
pub fn methods<H>(routes: &[Route<H>], path: &str) -> Vec<&'static str> {
    routes.iter().filter(|route| match_path(route.path, path).is_some()).map(|route| route.method).collect()
}

/// Matches a path with that of a route. Returns the value of `{id}`, if the route has one; `None` where they do not match.
fn match_path<'p>(route: &str, path: &'p str) -> Option<Option<&'p str>> {
    let (mut parts, mut id) = (path.split('/'), None);
    for wanted in route.trim_start_matches('/').split('/') {
        let part = parts.next()?;
        match wanted {
            "{id}" => id = Some(part),
            wanted if wanted != part => return None,
            _ => {}
        }
    }
    parts.next().is_none().then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &'static str, path: &'static str, handler: u8) -> Route<u8> {
        Route { method, path, name: path, summary: "", query: &[], body: None, answers: &[], handler }
    }

    #[test]
    fn a_request_is_routed_by_its_path_and_method() {
        let routes = [route("GET", "/a", 1), route("POST", "/a", 2), route("GET", "/a/{id}/b", 3)];
        let found = |method, path| find(&routes, method, path).map(|(route, id)| (route.handler, id));
        assert_eq!((found("GET", "a"), found("HEAD", "a")), (Ok((1, None)), Ok((1, None))));
        assert_eq!((found("POST", "a"), found("GET", "a/x/b")), (Ok((2, None)), Ok((3, Some("x")))));
        assert_eq!(found("PUT", "a"), Err(RouteError::Method(vec!["GET", "POST"])));
        for path in ["", "b", "a/x", "a/x/b/c"] {
            assert_eq!(found("GET", path), Err(RouteError::Path), "{path}");
        }
        assert_eq!(methods(&routes, "a"), ["GET", "POST"]);
    }
}
