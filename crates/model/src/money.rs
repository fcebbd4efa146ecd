//! Amounts of money with their currency: `50kEUR`, `2MUSD`.
//!
//! Does not know: rates of exchange. Amounts of two currencies are never added.

use std::fmt;
use std::str::FromStr;

use crate::units::UnitError;
use crate::units::split_number;

/// A currency, by its code (ISO 4217).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

/// An amount in a currency. Negative amounts are savings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Money {
    /// The amount in whole units of the currency.
    pub amount: f64,
    /// The currency.
    pub currency: Currency,
}

const REMEDY: &str = "write it with prefix and currency, like 50kEUR, 2MUSD or 0.3MEUR";

impl Currency {
    /// The euro.
    pub const EUR: Currency = Currency(*b"EUR");

    /// The code, three capital letters.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("???")
    }
}

impl FromStr for Currency {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Currency, UnitError> {
        match <[u8; 3]>::try_from(text.as_bytes()) {
            Ok(code) if code.iter().all(u8::is_ascii_uppercase) => Ok(Currency(code)),
            _ => Err(UnitError {
                text: text.into(),
                what: "currency",
                remedy: "write its three letters, like EUR or USD",
            }),
        }
    }
}

impl FromStr for Money {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Money, UnitError> {
        let error = || UnitError { text: text.into(), what: "sum of money", remedy: REMEDY };
        let (number, unit) = split_number(text).ok_or_else(error)?;
        let code_at = unit.len().checked_sub(3).filter(|at| unit.is_char_boundary(*at)).ok_or_else(error)?;
        let (prefix, code) = unit.split_at(code_at);
        let factor = match prefix {
            "" => 1.0,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            _ => return Err(error()),
        };
        Ok(Money { amount: number * factor, currency: code.parse().map_err(|_| error())? })
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Display for Money {
    /// With a prefix and three significant digits: `1.50 MEUR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (factor, prefix) = match self.amount.abs() {
            amount if amount >= 1e9 => (1e9, "G"),
            amount if amount >= 1e6 => (1e6, "M"),
            amount if amount >= 1e3 => (1e3, "k"),
            _ => (1.0, ""),
        };
        let amount = self.amount / factor;
        let decimals = match amount.abs() {
            amount if amount >= 100.0 => 0,
            amount if amount >= 10.0 => 1,
            _ => 2,
        };
        write!(f, "{amount:.decimals$} {prefix}{}", self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_and_shown_with_its_currency() {
        let shown = |text: &str| text.parse::<Money>().map(|money| money.to_string());
        assert_eq!(shown("50kEUR").as_deref(), Ok("50.0 kEUR"));
        assert_eq!(shown("1.7 MUSD").as_deref(), Ok("1.70 MUSD"));
        assert_eq!(shown("12EUR").as_deref(), Ok("12.0 EUR"));
        assert_eq!(shown("1500000EUR").as_deref(), Ok("1.50 MEUR"));
    }

    #[test]
    fn an_amount_without_a_currency_is_refused() {
        for text in ["50", "50k", "50keur", "EUR", "5 TEUR", "-5kEUR", "5k€", "NaNEUR"] {
            let error = text.parse::<Money>().expect_err(text);
            assert!(error.to_string().contains("50kEUR"), "{error}");
        }
    }
}
