//! Metrics as OpenMetrics text, which Prometheus reads.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

/// The value of `Content-Type`.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a row: names with their values.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

#[derive(Clone, Copy, Debug)]
enum Value {
    Whole(u64),
    Real(f64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A number that only grows; its name ends in `_total`.
    Counter,
    Gauge,
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    unit: Option<Unit>,
    kind: Kind,
    help: &'static str,
    rows: Vec<(Labels, Value)>,
}

/// All metrics at one moment.
#[derive(Debug, Default)]
pub struct MetricsSnapshot(Vec<Family>);

impl MetricsSnapshot {
    fn add(&mut self, kind: Kind, name: &'static str, help: &'static str, rows: Vec<(Labels, Value)>) {
        // The library appends the unit to the name.
        let (name, unit) = match (name.strip_suffix("_bytes"), name.strip_suffix("_seconds")) {
            (Some(name), _) => (name, Some(Unit::Bytes)),
            (_, Some(name)) => (name, Some(Unit::Seconds)),
            _ => (name, None),
        };
        self.0.push(Family { name, unit, kind, help, rows });
    }

    /// Adds a number that only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str, count: u64) {
        self.counters(name, help, vec![(Labels::new(), count)]);
    }

    /// Adds numbers that only grow, each with labels.
    pub fn counters(&mut self, name: &'static str, help: &'static str, rows: Vec<(Labels, u64)>) {
        let rows = rows.into_iter().map(|(labels, count)| (labels, Value::Whole(count))).collect();
        self.add(Kind::Counter, name, help, rows);
    }

    /// Adds a real number that only grows.
    pub fn real_counter(&mut self, name: &'static str, help: &'static str, count: f64) {
        self.add(Kind::Counter, name, help, vec![(Labels::new(), Value::Real(count))]);
    }

    /// Adds a real number that goes up and down.
    pub fn real_gauge(&mut self, name: &'static str, help: &'static str, now: f64) {
        self.add(Kind::Gauge, name, help, vec![(Labels::new(), Value::Real(now))]);
    }

    /// Adds a number that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, now: u64) {
        self.gauges(name, help, vec![(Labels::new(), now)]);
    }

    /// Adds numbers that go up and down, each with labels.
    pub fn gauges(&mut self, name: &'static str, help: &'static str, rows: Vec<(Labels, u64)>) {
        let rows = rows.into_iter().map(|(labels, now)| (labels, Value::Whole(now))).collect();
        self.add(Kind::Gauge, name, help, rows);
    }

    /// The metrics as text.
    ///
    /// # Errors
    /// The library cannot encode the metrics.
    pub fn text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }
}

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, family.unit.as_ref(), kind)?;
            for (labels, value) in &family.rows {
                let labels: Vec<(&str, Cow<'_, str>)> =
                    labels.iter().map(|(name, value)| (*name, escaped(value))).collect();
                if labels.is_empty() {
                    write(&mut metric, family.kind, *value)?;
                } else {
                    write(&mut metric.encode_family(&labels)?, family.kind, *value)?;
                }
            }
        }
        Ok(())
    }
}

/// Escapes the value of a label, which the library does not do.
fn escaped(value: &str) -> Cow<'_, str> {
    if value.contains(['\\', '"', '\n']) {
        value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into()
    } else {
        value.into()
    }
}

fn write(metric: &mut MetricEncoder<'_>, kind: Kind, value: Value) -> Result<(), fmt::Error> {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter::<NoLabelSet, u64, f64>(&value, None),
        (Kind::Counter, Value::Real(value)) => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        (Kind::Gauge, Value::Whole(value)) => metric.encode_gauge(&value),
        (Kind::Gauge, Value::Real(value)) => metric.encode_gauge(&value),
    }
}

/// A label with its value.
pub fn label(name: &'static str, value: impl Into<Cow<'static, str>>) -> Labels {
    vec![(name, value.into())]
}

/// Labels with one more label.
pub fn with_label(mut labels: Labels, name: &'static str, value: &'static str) -> Labels {
    labels.push((name, value.into()));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_label_cannot_end_its_quotes() {
        let mut all = MetricsSnapshot::default();
        all.gauges("x", "X.", vec![(label("export", "a\"b\\c\nd".to_owned()), 1)]);
        let text = all.text().unwrap();
        assert!(text.contains(r#"x{export="a\"b\\c\nd"} 1"#), "{text}");
    }
}
