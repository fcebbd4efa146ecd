//! Cookies of the portal: they belong to one hub, scripts cannot read them, and pages of other sites cannot use them.

use http::{HeaderMap, HeaderName, Method, header};

/// The parts of a browser's request that its cookies depend on.
#[derive(Clone, Copy, Debug)]
pub struct BrowserRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// The host that it is sent to, with its port.
    pub host: &'a str,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// Whether it came over TLS.
    pub is_secure: bool,
}

/// The requests, besides those of the portal's own pages, that a browser sends a cookie with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// No other requests.
    Strict,
    /// Also requests by which another site sends the browser here: a provider, after signing in.
    Lax,
}

impl<'a> BrowserRequest<'a> {
    /// Takes the parts of a request's head. HTTP/2 names the host in the target.
    pub fn of(head: &'a http::request::Parts, is_secure: bool) -> BrowserRequest<'a> {
        let field = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = head.uri.authority().map(http::uri::Authority::as_str).or(field).unwrap_or_default();
        BrowserRequest { method: &head.method, host, headers: &head.headers, is_secure }
    }

    /// The origin that it is sent to.
    pub fn origin(self) -> String {
        format!("{}://{}", if self.is_secure { "https" } else { "http" }, self.host)
    }

    /// Whether it comes from the portal's own pages, or only reads. A read needs no check: a browser sends no `Strict` cookie with requests
    /// of other sites.
    pub fn is_of_own_page(self) -> bool {
        if matches!(*self.method, Method::GET | Method::HEAD) {
            return true;
        }
        let field = |name: HeaderName| self.headers.get(name).and_then(|value| value.to_str().ok());
        match field(HeaderName::from_static("sec-fetch-site")) {
            Some(site) => site == "same-origin",
            // Browsers from before 2023 do not send the field.
            None => field(header::ORIGIN) == Some(&self.origin()),
        }
    }

    /// The value of one of the portal's cookies.
    pub fn cookie(self, word: &str) -> Option<&'a str> {
        let wanted = self.cookie_name(word);
        let fields = self.headers.get_all(header::COOKIE).into_iter().filter_map(|field| field.to_str().ok());
        let pairs = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value);
        // Of two cookies with one name, one may have been set by another page.
        values.next().filter(|value| !value.is_empty() && values.next().is_none())
    }

    /// The header field that sets a cookie, with its value and its age in seconds, or removes it.
    pub fn set_cookie(self, word: &str, value: Option<(&str, i64)>, same_site: SameSite) -> String {
        let (value, age_s) = value.unwrap_or_default();
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite={same_site:?}{secure}", self.cookie_name(word))
    }

    /// The name of a cookie, which contains the port: cookies do not distinguish ports, and a host may have several hubs.
    fn cookie_name(self, word: &str) -> String {
        let port =
            self.host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()));
        // Browsers accept a name with the prefix `__Host-` only from the host itself, over TLS.
        match (self.is_secure, port) {
            (true, port) => format!("__Host-{word}-{}", port.unwrap_or("443")),
            (false, port) => format!("{word}-{}", port.unwrap_or("80")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_a_single_cookie_of_this_port_counts() {
        let id = "0".repeat(64);
        let shown_by = |cookie: &str, is_secure| {
            let headers = headers(&[("cookie", cookie)]);
            let request = BrowserRequest { method: &Method::GET, host: "h.example:7512", headers: &headers, is_secure };
            request.cookie("longhaul-hub").map(str::to_owned)
        };
        let cookie = format!("__Host-longhaul-hub-7512={id}");
        assert_eq!(shown_by(&format!("a=b; {cookie}"), true), Some(id.clone()));
        assert_eq!(shown_by(&cookie, false), None);
        assert_eq!(shown_by(&cookie.replace("7512", "7513"), true), None);
        assert_eq!(shown_by(&format!("{cookie}; {cookie}"), true), None, "one of them may be another's");
        assert_eq!(shown_by("__Host-longhaul-hub-7512=", true), None);
        assert_eq!(shown_by(&format!("longhaul-hub-7512={id}"), false), Some(id));
    }

    #[test]
    fn pages_of_other_sites_cannot_change_anything() {
        let is_own = |method: Method, fields: &[(&'static str, &str)]| {
            let headers = headers(fields);
            BrowserRequest { method: &method, host: "h.example", headers: &headers, is_secure: true }.is_of_own_page()
        };
        assert!(is_own(Method::GET, &[("sec-fetch-site", "cross-site")]));
        assert!(is_own(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(is_own(Method::DELETE, &[("origin", "https://h.example")]));
        for fields in [
            [("sec-fetch-site", "cross-site"), ("origin", "https://h.example")].as_slice(),
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://evil.example")],
            &[("origin", "http://h.example")],
            &[],
        ] {
            assert!(!is_own(Method::POST, fields), "{fields:?}");
        }
    }

    #[test]
    fn scripts_and_other_sites_cannot_use_a_cookie() {
        let request = BrowserRequest {
            method: &Method::POST,
            host: "h.example:7512",
            headers: &HeaderMap::new(),
            is_secure: true,
        };
        assert_eq!(
            request.set_cookie("longhaul-hub", Some(("x", 604_800)), SameSite::Strict),
            "__Host-longhaul-hub-7512=x; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"
        );
        assert!(
            request
                .set_cookie("a", None, SameSite::Lax)
                .ends_with("=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure")
        );
    }
}
