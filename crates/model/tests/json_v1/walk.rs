//! Reads JSON into a type and notes what the type asks for: its fields, and the words of its enums.
//!
//! A field that the text lacks is noted and gets a made-up value, so that the file of a new document need not be written by hand.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::{Error, Value, json};

/// Findings of a walk.
#[derive(Default)]
pub struct Notes {
    /// Places of fields that the type has and the text lacks; null and an empty list count as lacking.
    pub missing: Vec<String>,
    /// Words of enums that occurred.
    pub met: BTreeMap<Enum, BTreeSet<&'static str>>,
    /// Names of structs that occurred.
    pub structs: BTreeSet<&'static str>,
    made_up: u8,
}

/// An enum: its name and all its words.
pub type Enum = (&'static str, &'static [&'static str]);

/// Reads a document into its type; without a document it is made up.
pub fn read<T: DeserializeOwned>(document: Option<&Value>, notes: &RefCell<Notes>) -> Result<T, Error> {
    T::deserialize(Walk { value: document, place: String::new(), notes, kinds: None })
}

/// A value of the text, or none where it has to be made up.
struct Walk<'a> {
    value: Option<&'a Value>,
    place: String,
    notes: &'a RefCell<Notes>,
    /// For the list that this element is in: an element that is an enum sets it to the number of its words.
    kinds: Option<&'a Cell<usize>>,
}

impl<'a> Walk<'a> {
    fn child(&self, value: Option<&'a Value>, name: impl std::fmt::Display) -> Walk<'a> {
        Walk { value, place: format!("{}/{name}", self.place), notes: self.notes, kinds: None }
    }

    /// The last name of the place that is not a number.
    fn name(&self) -> &str {
        self.place.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default()
    }

    /// The value, if there is something in it. Below what is missing nothing more is noted.
    fn filled(&self) -> Option<&'a Value> {
        self.value.filter(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
    }

    fn note_if_empty(&self) {
        if self.value.is_some() && self.filled().is_none() {
            self.notes.borrow_mut().missing.push(self.place.clone());
        }
    }

    fn number(&self) -> u8 {
        let mut notes = self.notes.borrow_mut();
        notes.made_up = notes.made_up % 99 + 1;
        notes.made_up
    }

    fn text(&self) -> String {
        match self.name() {
            "id" | "next" => "01890a5d-ac96-774b-bcce-b302099a8057".into(),
            name => name.to_owned(),
        }
    }

    /// An object, for types that look at the text themselves: maps, and structs with flattened ones within.
    fn object(&self) -> Value {
        match self.name() {
            "pace" => json!({"mode": "bursts", "length": 16, "spacing_s": 0.001, "gap_s": 0.25}),
            "users" => {
                json!({"user": "alice", "bytes_in": 1, "bytes_out": 2, "files_in": 3, "files_out": 4, "requests": 5,
                "rate_bit_s": 6, "missed_bytes_max": 7})
            }
            "totals" => json!({"stream": 1, "direction": "forward", "bytes": 2, "rate_bit_s": 3, "counted_bytes": 4,
                "counted_s": 5.5, "congestion": "bbr", "cpu_s": 6.5}),
            name => json!({ name: name }),
        }
    }

    fn list(&self, length: Option<usize>) -> List<'a> {
        self.note_if_empty();
        let list = self.filled().and_then(Value::as_array);
        List { list, walk: self.child(None, ""), length, next: 0 }
    }
}

/// Leaves: as in the text, or made up.
macro_rules! leaves {
    ($($method:ident, $visit:ident, $make:expr;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let make: fn(&Walk<'_>) -> _ = $make;
            match self.value {
                Some(value) => value.clone().$method(visitor),
                None => visitor.$visit(make(&self)),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Walk<'_> {
    type Error = Error;

    leaves! {
        deserialize_bool, visit_bool, |_| true;
        deserialize_i8, visit_u8, |walk| walk.number();
        deserialize_i16, visit_u8, |walk| walk.number();
        deserialize_i32, visit_u8, |walk| walk.number();
        deserialize_i64, visit_u8, |walk| walk.number();
        deserialize_u8, visit_u8, |walk| walk.number();
        deserialize_u16, visit_u8, |walk| walk.number();
        deserialize_u32, visit_u8, |walk| walk.number();
        deserialize_u64, visit_u8, |walk| walk.number();
        deserialize_f32, visit_f64, |walk| f64::from(walk.number()) + 0.5;
        deserialize_f64, visit_f64, |walk| f64::from(walk.number()) + 0.5;
        deserialize_str, visit_string, |walk| walk.text();
        deserialize_string, visit_string, |walk| walk.text();
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.value.cloned().unwrap_or_else(|| self.object()).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note_if_empty();
        visitor.visit_some(Walk { value: self.filled(), ..self })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self.list(None))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self.list(Some(length)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.value.cloned().unwrap_or_else(|| self.object()).deserialize_map(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.notes.borrow_mut().structs.insert(name);
        visitor.visit_map(Fields { walk: self, left: fields, field: "" })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.kinds.inspect(|kinds| kinds.set(words.len()));
        visitor.visit_enum(Word { walk: self, of: (name, words) })
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

/// The fields of a struct, in the order of the type.
struct Fields<'a> {
    walk: Walk<'a>,
    left: &'static [&'static str],
    field: &'static str,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((field, left)) = self.left.split_first() else { return Ok(None) };
        (self.field, self.left) = (field, left);
        let key: StringDeserializer<Error> = (*field).to_owned().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = self.walk.value.and_then(|value| value.get(self.field));
        let child = self.walk.child(value, self.field);
        if self.walk.value.is_some() && value.is_none() {
            self.walk.notes.borrow_mut().missing.push(child.place.clone());
        }
        seed.deserialize(child)
    }
}

/// The elements of a list. One that is made up has one element, or one for each word of an enum.
struct List<'a> {
    list: Option<&'a Vec<Value>>,
    walk: Walk<'a>,
    length: Option<usize>,
    next: usize,
}

impl<'de> SeqAccess<'de> for List<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let length = self.length.or(self.list.map(Vec::len)).unwrap_or(1);
        if self.next >= length {
            return Ok(None);
        }
        let place = format!("{}{}", self.walk.place, self.next);
        let value = self.list.and_then(|list| list.get(self.next));
        let kinds = Cell::new(1);
        let element = seed.deserialize(Walk { value, place, notes: self.walk.notes, kinds: Some(&kinds) })?;
        if self.list.is_none() && self.length.is_none() {
            self.length = Some(kinds.get());
        }
        self.next += 1;
        Ok(Some(element))
    }
}

/// A word of an enum, with what belongs to it.
struct Word<'a> {
    walk: Walk<'a>,
    of: Enum,
}

impl Word<'_> {
    /// The word in the text; without a text, the word at the index of this element in its list, or the first word.
    fn word(&self) -> Result<&'static str, Error> {
        let found_word = self
            .walk
            .value
            .and_then(|value| value.as_str().or_else(|| value.as_object()?.keys().next().map(|key| &**key)));
        let place = self.walk.place.rsplit('/').next().and_then(|part| part.parse::<usize>().ok()).unwrap_or(0);
        let found = match (found_word, self.walk.value) {
            (Some(found_word), _) => self.of.1.iter().find(|word| **word == found_word),
            (None, None) => self.of.1.get(place),
            (None, Some(_)) => None,
        };
        found.copied().ok_or_else(|| Error::custom(format!("{}: not a word of {}", self.walk.place, self.of.0)))
    }
}

impl<'de, 'a> EnumAccess<'de> for Word<'a> {
    type Error = Error;
    type Variant = Walk<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Walk<'a>), Error> {
        let word = self.word()?;
        self.walk.notes.borrow_mut().met.entry(self.of).or_default().insert(word);
        let key: StringDeserializer<Error> = word.to_owned().into_deserializer();
        let inside = self.walk.value.and_then(|value| value.get(word));
        Ok((seed.deserialize(key)?, self.walk.child(inside, word)))
    }
}

impl<'de> VariantAccess<'de> for Walk<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}
