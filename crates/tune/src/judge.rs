//! Compares a value with the one that a rule wants. Pure.

use std::cmp::Ordering;

use crate::rule::{Value, Want};
use crate::target::{ResolveContext, Resolved, Target};

/// The result of comparing a value with its rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// The value is as the rule wants it, or the rule wants nothing.
    Ok,
    /// The value is not as the rule wants it.
    Differs,
    /// It cannot be determined; why.
    Unknown(String),
}

/// The value that a rule wants: in words, and as it would be set.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedSetting {
    /// In words: `at least 67108864`, `fq or fq_codel`.
    pub words: String,
    /// The value that is written; none where the rule names none.
    pub value: Option<String>,
}

/// A number as the kernel writes it.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 9e15 { format!("{value:.0}") } else { format!("{value}") }
}

fn shown(resolved: &Resolved) -> Result<String, String> {
    match resolved {
        Resolved::Number(value) => Ok(number(*value)),
        Resolved::Word(word) => Ok(word.clone()),
        Resolved::Unknown(why) => Err(why.clone()),
    }
}

/// The wanted value on this host.
///
/// # Errors
/// The reason for which it is not known.
pub fn wanted(want: &Want, target: &Target, context: ResolveContext<'_>) -> Result<WantedSetting, String> {
    let value = |value: &Value| shown(&target.resolve(value, context));
    Ok(match want {
        Want::Is(is) => {
            let is = value(is)?;
            WantedSetting { words: is.clone(), value: Some(is) }
        }
        Want::AtLeast(least) => {
            let least = value(least)?;
            WantedSetting { words: format!("at least {least}"), value: Some(least) }
        }
        Want::AtMost(most) => {
            let most = value(most)?;
            WantedSetting { words: format!("at most {most}"), value: Some(most) }
        }
        Want::OneOf(all) => {
            let all = all.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            WantedSetting { words: all.join(" or "), value: all.first().cloned() }
        }
        Want::Contains(word) => {
            let word = value(word)?;
            WantedSetting { words: format!("with {word}"), value: Some(word) }
        }
        Want::Report(_) => WantedSetting { words: "as it is".into(), value: None },
    })
}

/// Whether a value is as wanted.
pub fn judge(observed: &str, want: &Want, target: &Target, context: ResolveContext<'_>) -> Judgement {
    let test = |value: &Value, holds: fn(Ordering) -> bool| match target.resolve(value, context) {
        Resolved::Unknown(why) => Err(why),
        Resolved::Number(wanted) => number_of(observed).map(|is| is.partial_cmp(&wanted).is_some_and(holds)),
        Resolved::Word(word) => match (version(&word).filter(|parts| parts.len() >= 3), version(observed)) {
            (Some(wanted), Some(is)) => Ok(holds(is.cmp(&wanted))),
            (Some(_), None) => Err(format!("{observed:?} is not a release")),
            _ => Ok(selected(observed) == word),
        },
    };
    // A value with a bound is a size, a count or a time: none of these is negative.
    let bound = |value: &Value, holds: fn(Ordering) -> bool| match number_of(observed) {
        Ok(number) if number < 0.0 => Err(format!("{observed:?} is negative")),
        _ => test(value, holds),
    };
    let outcome = match want {
        Want::Is(value) => test(value, Ordering::is_eq),
        Want::AtLeast(value) => bound(value, Ordering::is_ge),
        Want::AtMost(value) => bound(value, Ordering::is_le),
        Want::OneOf(all) => any(all.iter().map(|value| test(value, Ordering::is_eq))),
        Want::Contains(value) => shown(&target.resolve(value, context))
            .map(|wanted| observed.split([' ', ',', '\t']).any(|part| part == wanted)),
        Want::Report(_) => Ok(true),
    };
    match outcome {
        Ok(true) => Judgement::Ok,
        Ok(false) => Judgement::Differs,
        Err(why) => Judgement::Unknown(why),
    }
}

/// Whether any alternative holds. If none does, and one is unknown, the result is unknown.
fn any(outcomes: impl Iterator<Item = Result<bool, String>>) -> Result<bool, String> {
    let mut unknown = None;
    for outcome in outcomes {
        match outcome {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => unknown = Some(why),
        }
    }
    unknown.map_or(Ok(false), Err)
}

/// A number of the kernel, which has 64 bits and no exponent; `unlimited` is more than any number.
fn number_of(observed: &str) -> Result<f64, String> {
    if observed == "unlimited" {
        return Ok(f64::INFINITY);
    }
    let plain = observed.bytes().all(|b| b.is_ascii_digit() || b"+-.".contains(&b));
    let number = observed.parse::<f64>().ok().filter(|number| plain && number.abs() <= u64::MAX as f64);
    number.ok_or_else(|| format!("{observed:?} is not a number"))
}

/// A version, `6.5.10`. The wanted value is a version if it has three numbers; with two it would be a number.
fn version(text: &str) -> Option<Vec<u32>> {
    let head = text.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
    let parts: Vec<u32> = head.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    (parts.len() >= 2).then_some(parts)
}

/// The selected choice, where a file of the kernel lists all of them: `always [madvise] never`.
pub(crate) fn selected(observed: &str) -> &str {
    let bracketed = observed.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(observed, |(selected, _)| selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ResolveContext<'static> = ResolveContext { nic_bit_s: None, named: &crate::target::no_numbers };

    fn word(word: &str) -> Value {
        Value::Word(word.into())
    }

    #[test]
    fn values_are_compared_by_their_type() {
        let target = Target { rate_bit_s: Some(10_000_000_000), rtt_s: 0.1, ..Target::default() };
        let judged = |observed: &str, want: Want| judge(observed, &want, &target, HERE);
        assert_eq!(judged("250000000", Want::AtLeast(word("window"))), Judgement::Ok);
        assert_eq!(judged("249999999", Want::AtLeast(word("window"))), Judgement::Differs);
        assert_eq!(judged("1", Want::Is(Value::Number(1.0))), Judgement::Ok);
        assert_eq!(judged("01", Want::Is(Value::Number(1.0))), Judgement::Ok);
        assert_eq!(judged("always [madvise] never", Want::Is(word("madvise"))), Judgement::Ok);
        assert_eq!(judged("[always] madvise never", Want::Is(word("madvise"))), Judgement::Differs);
        assert_eq!(judged("fq_codel", Want::OneOf(vec![word("fq"), word("fq_codel")])), Judgement::Ok);
        assert_eq!(judged("rw,noatime,largeio", Want::Contains(word("largeio"))), Judgement::Ok);
        assert_eq!(judged("anything", Want::Report(true)), Judgement::Ok);
        assert_eq!(judged("6.18.44-fc", Want::AtLeast(word("6.5.10"))), Judgement::Ok, "versions are not numbers");
        assert_eq!(judged("6.5.9", Want::AtLeast(word("6.5.10"))), Judgement::Differs);
        assert_eq!(judged("unlimited", Want::AtLeast(Value::Number(65_536.0))), Judgement::Ok);
    }

    #[test]
    fn invalid_values_are_unknown() {
        let target = Target::default();
        let unknown =
            |observed: &str, want: Want| matches!(judge(observed, &want, &target, HERE), Judgement::Unknown(_));
        for absurd in ["", "garbage", "NaN", "inf", "18446744073709551616x", "1e300", "-1", "99999999999999999999999"] {
            assert!(unknown(absurd, Want::AtLeast(Value::Number(1.0))), "{absurd}");
        }
        assert!(unknown("1", Want::AtLeast(word("window"))), "no speed is known");
        assert!(wanted(&Want::AtLeast(word("window")), &target, HERE).is_err());
        assert!(unknown("-7", Want::AtMost(Value::Number(0.0))), "a counter");
        assert!(unknown("garbage", Want::AtLeast(word("6.5.10"))), "not a release");
        assert_eq!(
            judge("-1", &Want::Is(Value::Number(1.0)), &target, HERE),
            Judgement::Differs,
            "some switches have this value"
        );
    }

    #[test]
    fn wanted_values_are_shown_in_words() {
        let target = Target::default();
        let judged = |want: Want| wanted(&want, &target, HERE).unwrap();
        assert_eq!(
            judged(Want::AtLeast(Value::Number(65_536.0))),
            WantedSetting { words: "at least 65536".into(), value: Some("65536".into()) }
        );
        assert_eq!(judged(Want::OneOf(vec![word("fq"), word("fq_codel")])).words, "fq or fq_codel");
        assert_eq!(judged(Want::Report(true)).value, None);
    }
}
