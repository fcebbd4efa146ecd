//! Extended attributes: requests for them, and their answers.

use crate::Malformed;
use crate::bytes::Fields;
use crate::head::FileHandle;
use crate::limits::{ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX};
use crate::place::{FileOrPath, RootPath};

/// What is done with attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributesAction {
    /// Removes those of these names.
    Remove(Vec<Vec<u8>>),
    /// Reads those of these names.
    Get(Vec<Vec<u8>>),
    /// Lists the names.
    List {
        /// With the values.
        with_values: bool,
    },
    /// Sets names to values.
    Set {
        /// The names, each with its value.
        values: Vec<(Vec<u8>, Vec<u8>)>,
        /// Fails for an attribute that exists.
        only_new: bool,
    },
}

/// A request about the attributes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributesRequest {
    /// The entry.
    pub of: FileOrPath,
    /// What is done.
    pub action: AttributesAction,
}

const REMOVE: u8 = 0;
const GET: u8 = 1;
const LIST: u8 = 2;
const SET: u8 = 3;
const ONLY_NEW: u8 = 1;
const WITH_VALUES: u8 = 0x10;

impl AttributesRequest {
    pub(crate) fn parse(fields: &mut Fields<'_>, payload: &[u8]) -> Result<AttributesRequest, Malformed> {
        let file = FileHandle(fields.array("the file handle")?);
        let (code, count) = (fields.u8("what to do")?, usize::from(fields.u8("the number of attributes")?));
        let options = fields.u8("the options")?;
        if count > ATTRIBUTES_MAX {
            return Err(Malformed::Field("the number of attributes"));
        }
        let mut rest = Fields(payload);
        let path = if payload.is_empty() { &[][..] } else { rest.until_nul("the path")? };
        let of = if path.is_empty() { FileOrPath::File(file) } else { FileOrPath::Path(RootPath::parse(path)?) };
        let action = match code {
            REMOVE => AttributesAction::Remove(names(&mut rest, count)?),
            GET => AttributesAction::Get(names(&mut rest, count)?),
            LIST => AttributesAction::List { with_values: options & WITH_VALUES != 0 },
            SET => {
                let names = names(&mut rest, count)?;
                let values: Vec<_> =
                    names.into_iter().map(|name| Ok((name, value(&mut rest)?))).collect::<Result<_, Malformed>>()?;
                AttributesAction::Set { values, only_new: options & ONLY_NEW != 0 }
            }
            _ => return Err(Malformed::Field("what to do")),
        };
        Ok(AttributesRequest { of, action })
    }

    /// The fields of the head, and the payload.
    pub(crate) fn to_parts(&self) -> ([u8; 7], Vec<u8>) {
        let (code, options, names) = match &self.action {
            AttributesAction::Remove(names) => (REMOVE, 0, names.clone()),
            AttributesAction::Get(names) => (GET, 0, names.clone()),
            AttributesAction::List { with_values } => (LIST, if *with_values { WITH_VALUES } else { 0 }, Vec::new()),
            AttributesAction::Set { values, only_new } => {
                (SET, u8::from(*only_new), values.iter().map(|(name, _)| name.clone()).collect())
            }
        };
        let (file, mut payload) = match &self.of {
            FileOrPath::File(file) => (file.0, vec![0]),
            FileOrPath::Path(place) => ([0; 4], [&place.to_bytes()[..], &[0]].concat()),
        };
        names.iter().for_each(|name| payload.extend(status_and_name(0, name)));
        if let AttributesAction::Set { values, .. } = &self.action {
            values.iter().for_each(|(_, value)| payload.extend(with_length(value)));
        }
        let [f0, f1, f2, f3] = file;
        ([f0, f1, f2, f3, code, names.len() as u8, options], payload)
    }
}

fn names(rest: &mut Fields<'_>, count: usize) -> Result<Vec<Vec<u8>>, Malformed> {
    const WHAT: &str = "the name of an attribute";
    let name = |_| {
        rest.u16(WHAT)?;
        let name = rest.until_nul(WHAT)?;
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_BYTES_MAX {
            return Err(Malformed::Field(WHAT));
        }
        Ok(name.to_vec())
    };
    (0..count).map(name).collect()
}

fn value(rest: &mut Fields<'_>) -> Result<Vec<u8>, Malformed> {
    const WHAT: &str = "the value of an attribute";
    let length = rest.length(WHAT)? as usize;
    if length > ATTRIBUTE_VALUE_BYTES_MAX {
        return Err(Malformed::Field(WHAT));
    }
    Ok(rest.take(length, WHAT)?.to_vec())
}

fn status_and_name(code: u16, name: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], name, &[0]].concat()
}

fn with_length(value: &[u8]) -> Vec<u8> {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], value].concat()
}

/// How it went for one attribute: 0, or the number of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeResult {
    /// Its name.
    pub name: Vec<u8>,
    /// 0, or the number of an error.
    pub code: u16,
    /// Its value, where it was asked for.
    pub value: Option<Vec<u8>>,
}

/// The answer to removing, reading or setting attributes. The values follow all names.
pub fn results(all: &[AttributeResult]) -> Vec<u8> {
    let failed = all.iter().filter(|one| one.code != 0).count();
    let mut bytes = vec![failed as u8, all.len() as u8];
    all.iter().for_each(|one| bytes.extend(status_and_name(one.code, &one.name)));
    all.iter().filter_map(|one| one.value.as_ref()).for_each(|value| bytes.extend(with_length(value)));
    bytes
}

/// The answer to a list: names, each with its value where that was asked for.
pub fn list(all: &[(Vec<u8>, Option<Vec<u8>>)]) -> Vec<u8> {
    let one = |(name, value): &(Vec<u8>, Option<Vec<u8>>)| {
        let value = value.as_ref().map(|value| with_length(value)).unwrap_or_default();
        [&name[..], &[0], &value].concat()
    };
    all.iter().flat_map(one).collect()
}
