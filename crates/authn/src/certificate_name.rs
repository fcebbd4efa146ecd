//! The name in a client's certificate, as the policy's rules write names.

use auth::policy::DistinguishedName;

/// A certificate's name. One with several attributes in one part, with a value that is not text, or with no part at all has
/// none that a rule could be about.
pub fn name_of(certificate: &[u8]) -> Option<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let parts: Option<Vec<(String, String)>> = parsed.subject().iter().map(relative).collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    let name = DistinguishedName::from_root(parts.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Some(name.rfc4514())
}

/// The one attribute of a part: a short name or numbers with dots, and its value.
fn relative(part: &x509_parser::x509::RelativeDistinguishedName<'_>) -> Option<(String, String)> {
    let mut attributes = part.iter();
    let (attribute, None) = (attributes.next()?, attributes.next()) else { return None };
    let oid = attribute.attr_type();
    let known = x509_parser::objects::oid2abbrev(oid, x509_parser::objects::oid_registry()).map(str::to_owned);
    Some((known.unwrap_or_else(|_| oid.to_id_string()), attribute.as_str().ok()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName as Names, DnType, KeyPair};

    #[test]
    fn a_name_is_what_the_policy_reads() {
        let mut params = CertificateParams::default();
        params.distinguished_name = Names::new();
        params.distinguished_name.push(DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]), "org");
        params.distinguished_name.push(DnType::OrganizationName, "A, B+C");
        params.distinguished_name.push(DnType::CommonName, "Robot/CN=x");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let name = name_of(certificate.der()).unwrap();
        assert_eq!(name, "CN=Robot/CN\\=x,O=A\\, B\\+C,DC=org");
        assert_eq!(DistinguishedName::parse(&name).unwrap().rfc4514(), name);
        let mut nameless = CertificateParams::default();
        nameless.distinguished_name = Names::new();
        assert_eq!(name_of(nameless.self_signed(&KeyPair::generate().unwrap()).unwrap().der()), None);
    }
}
