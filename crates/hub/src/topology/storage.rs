//! The storage of endpoints, checked: where the catalogue may store files.

use model::v1::hub::{Endpoint, Storage};
use replicas::{Attributes, DataName, Naming};

/// The storage of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct StoragePlace {
    /// The endpoint.
    pub endpoint: String,
    /// Its site; empty if none is described.
    pub site: String,
    /// The URL of the directory of its files, without a slash at the end.
    pub url: String,
    /// How files are named below it.
    pub naming: Naming,
    /// The attributes for expressions. The site is among them, as `site`.
    pub attributes: Attributes,
    /// The bytes that it may hold.
    pub capacity_bytes: Option<u64>,
    /// The high-water and the low-water mark, percent of the capacity: above the first, replicas without locks are deleted down to the
    /// second.
    pub water_marks_percent: (u8, u8),
    /// Whether replicas without locks are deleted as soon as they may be.
    pub greedy: bool,
}

/// The high-water and low-water marks by default, percent of the capacity.
const HIGH_WATER: u8 = 90;
const LOW_WATER: u8 = 80;

impl StoragePlace {
    /// Checks the storage of a description.
    pub(super) fn new(name: &str, endpoint: &Endpoint, storage: &Storage) -> Result<StoragePlace, String> {
        let naming = if storage.naming.is_empty() { Naming::default() } else { storage.naming.parse()? };
        let high = storage.high_water_percent.unwrap_or(HIGH_WATER);
        let low = storage.low_water_percent.unwrap_or(LOW_WATER.min(high));
        if low > high || high > 100 {
            return Err(format!(
                "its low-water mark, {low} %, is above its high-water mark, {high} %, or that is above 100 %"
            ));
        }
        let mut attributes = storage.attributes.clone();
        if !endpoint.site.is_empty() {
            attributes.entry("site".to_owned()).or_insert_with(|| endpoint.site.clone());
        }
        if endpoint.tape {
            attributes.entry("tape".to_owned()).or_insert_with(|| "true".to_owned());
        }
        Ok(StoragePlace {
            endpoint: name.to_owned(),
            site: endpoint.site.clone(),
            url: storage.url.trim_end_matches('/').to_owned(),
            naming,
            attributes,
            capacity_bytes: storage.capacity_bytes,
            water_marks_percent: (high, low),
            greedy: storage.greedy,
        })
    }

    /// The bytes to delete if `used` bytes are stored: down to the low-water mark, once the high-water mark is exceeded. `None` if nothing
    /// has to be deleted.
    pub fn to_free(&self, used: i64) -> Option<i64> {
        if self.greedy {
            return Some(i64::MAX);
        }
        let capacity = i128::from(self.capacity_bytes?);
        let part = |percent: u8| i64::try_from(capacity * i128::from(percent) / 100).unwrap_or(i64::MAX);
        let (high, low) = self.water_marks_percent;
        (used > part(high)).then(|| used - part(low))
    }

    /// The URL of a file; `path` is its path below the directory, if that is not derived from its name.
    pub fn url_of(&self, name: &DataName, path: Option<&str>) -> String {
        let default_path = || self.naming.path(name);
        self.url_of_path(&path.map_or_else(default_path, str::to_owned))
    }

    /// The URL of a path below its directory.
    pub fn url_of_path(&self, path: &str) -> String {
        format!("{}/{}", self.url, web::target::encode(path.as_bytes()))
    }

    /// An attribute that is a number.
    pub fn number(&self, word: &str) -> Option<f64> {
        self.attributes.get(word)?.parse().ok().filter(|number: &f64| number.is_finite())
    }
}
