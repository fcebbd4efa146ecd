//! The cost of the options of a scenario: what is paid in each year and in a whole period, in its currency, with the range that uncertain
//! prices give.
//!
//! Does not know: discounting, inflation, or rates of exchange. Amounts of two currencies are never added.

use std::collections::BTreeSet;

use model::figure::Figure;
use model::money::{Currency, Money};
use scenario::{Cost, Scenario, Years};

use crate::loads::identifier;

/// Draws for a range: enough to know the bounds of the middle 90 % to about 1 % of the spread.
const DRAWS: usize = 10_000;

/// The sums of one option in one currency.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionCost {
    /// The option; none for a scenario without options.
    pub option: Option<String>,
    /// The currency of all amounts.
    pub currency: Currency,
    /// What is paid in the whole period.
    pub total: Figure,
    /// What is paid on average in a year.
    pub yearly: Figure,
    /// What is paid in each year, in the order of the years.
    pub by_year: Vec<(u16, f64)>,
}

/// The costs of all options from `first` to `last`. Costs without an option belong to each. The own costs of replica scenarios are no
/// options here: see [`crate::replication`].
pub fn options(scenario: &Scenario, first: u16, last: u16, seed: u64) -> Vec<OptionCost> {
    let is_option = |name: &&String| scenario.replicas.iter().all(|replicas| replicas.name != **name);
    let names: BTreeSet<&String> =
        scenario.costs.iter().filter_map(|cost| cost.option.as_ref()).filter(is_option).collect();
    let names: Vec<Option<&String>> = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    let mut all = Vec::new();
    for option in names {
        let belongs = |cost: &&Cost| cost.option.is_none() || cost.option.as_ref() == option;
        let costs: Vec<&Cost> = scenario.costs.iter().filter(belongs).collect();
        all.extend(by_currency(option, &costs, Period { first, last }, seed));
    }
    all
}

/// The costs of one option alone from `first` to `last`, without those that belong to all options.
pub fn of_option(scenario: &Scenario, option: &str, first: u16, last: u16) -> Vec<OptionCost> {
    let costs: Vec<&Cost> = scenario.costs.iter().filter(|cost| cost.option.as_deref() == Some(option)).collect();
    by_currency(Some(&option.to_owned()), &costs, Period { first, last }, scenario.seed)
}

fn by_currency(option: Option<&String>, costs: &[&Cost], period: Period, seed: u64) -> Vec<OptionCost> {
    let currencies: BTreeSet<Currency> = costs.iter().map(|cost| currency(cost)).collect();
    let sum = |currency_of_sum: Currency| {
        let costs: Vec<&Cost> = costs.iter().copied().filter(|cost| currency(cost) == currency_of_sum).collect();
        option_cost(option.cloned(), currency_of_sum, &costs, period, seed)
    };
    currencies.into_iter().map(sum).collect()
}

/// The years of a plan, both ends included.
#[derive(Clone, Copy, Debug)]
struct Period {
    first: u16,
    last: u16,
}

impl Period {
    /// The years of the period in which a cost is paid.
    fn years(self, years: Years) -> std::ops::RangeInclusive<u16> {
        years.from.unwrap_or(self.first).max(self.first)..=years.until.unwrap_or(self.last).min(self.last)
    }
}

/// The currency of a cost: the reader of scenarios refuses a cost without a price, and one with two currencies.
fn currency(cost: &Cost) -> Currency {
    cost.once.or(cost.per_year).map_or(Currency::EUR, |money| money.currency)
}

fn option_cost(option: Option<String>, currency: Currency, costs: &[&Cost], period: Period, seed: u64) -> OptionCost {
    let years = period.first..=period.last;
    let by_year: Vec<(u16, f64)> =
        years.clone().map(|year| (year, costs.iter().map(|cost| paid_in(cost, year, period)).sum())).collect();
    let name = option.as_ref().map_or_else(|| "cost".to_owned(), |option| format!("cost of {option}"));
    let mut total = Figure::new(format!("{name}, {} to {}", period.first, period.last), 0.0, currency.code());
    let mut terms = Vec::new();
    for cost in costs {
        let name = identifier(&cost.name);
        let (once, yearly) = (times_paid(cost, period), period.years(cost.years).count());
        let mut parts = Vec::new();
        total = total.with(format!("{name}_count"), cost.count, "");
        if let Some(price) = cost.once {
            total = total.with(format!("{name}_once"), price.amount, currency.code());
            total = total.with(format!("{name}_times"), once as f64, "");
            parts.push(format!("{name}_once * {name}_times"));
        }
        if let Some(price) = cost.per_year {
            total = total.with(format!("{name}_per_year"), price.amount, format!("{} a year", currency.code()));
            total = total.with(format!("{name}_years"), yearly as f64, "years");
            parts.push(format!("{name}_per_year * {name}_years"));
        }
        terms.push(format!("{name}_count * ({})", parts.join(" + ")));
    }
    total.value = by_year.iter().map(|(_, paid)| paid).sum();
    total.range = range(costs, period, seed);
    total = total.formula(terms.join(" + ")).source(sources(costs));
    let number_of_years = years.count() as f64;
    let yearly = Figure::new(format!("{name}, a year on average"), total.value / number_of_years, currency.code())
        .formula("total / years")
        .with("total", total.value, currency.code())
        .with("years", number_of_years, "years");
    OptionCost { option, currency, total, yearly, by_year }
}

/// How often the one-time price is due in the period: in the first year, and after each term.
fn times_paid(cost: &Cost, period: Period) -> usize {
    period.years(cost.years).filter(|year| is_due_once(cost, *year, period)).count()
}

fn is_due_once(cost: &Cost, year: u16, period: Period) -> bool {
    let since = year.wrapping_sub(cost.years.from.unwrap_or(period.first));
    match cost.term {
        Some(term) => since.is_multiple_of(term),
        None => since == 0,
    }
}

/// What is paid for a cost in a year.
fn paid_in(cost: &Cost, year: u16, period: Period) -> f64 {
    if !period.years(cost.years).contains(&year) {
        return 0.0;
    }
    let amount = |money: Option<Money>| money.map_or(0.0, |money| money.amount);
    let once = if is_due_once(cost, year, period) { amount(cost.once) } else { 0.0 };
    cost.count * (once + amount(cost.per_year))
}

/// The interval of the middle 90 % of the draws (Monte Carlo): each price independent and triangular around the stated one. None if all
/// prices are certain.
fn range(costs: &[&Cost], period: Period, seed: u64) -> Option<(f64, f64)> {
    if costs.iter().all(|cost| cost.spread == 0.0) {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let stated: Vec<(f64, f64)> = costs
        .iter()
        .map(|cost| (period.years(cost.years).map(|year| paid_in(cost, year, period)).sum(), cost.spread))
        .collect();
    // The sum of two uniform draws is triangular.
    let mut draw = |spread: f64| 1.0 + spread * (random.f64() + random.f64() - 1.0);
    let mut sums: Vec<f64> =
        (0..DRAWS).map(|_| stated.iter().map(|(amount, spread)| amount * draw(*spread)).sum()).collect();
    sums.sort_by(f64::total_cmp);
    Some((sums[DRAWS / 20], sums[DRAWS - 1 - DRAWS / 20]))
}

fn sources(costs: &[&Cost]) -> String {
    let named = costs.iter().filter_map(|cost| {
        let prices = cost.prices.map_or(String::new(), |year| format!(" (prices of {year})"));
        Some(format!("{}: {}{prices}", cost.name, cost.source.as_ref()?))
    });
    named.collect::<Vec<_>>().join("; ")
}

/// The price of an indefeasible right of use for a year of its term.
pub fn amortised(name: &str, price: Money, term_years: f64) -> Figure {
    Figure::new(format!("{name}, a year over {term_years} years"), price.amount / term_years, price.currency.code())
        .formula("price / term")
        .with("price", price.amount, price.currency.code())
        .with("term", term_years, "years")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(costs: &str) -> Scenario {
        Scenario::read(&format!("[site.a]\n{costs}")).unwrap()
    }

    #[test]
    fn options_have_their_own_costs_and_the_common_ones() {
        let scenario = scenario(
            "[cost.vrf]\noption = \"A\"\ncount = 16\nonce = \"50kEUR\"\nper_year = \"15kEUR\"\n\
             [cost.circuit]\noption = \"B\"\nonce = \"1.5MEUR\"\nper_year = \"0.5MEUR\"\n\
             [cost.staff]\nper_year = \"100kEUR\"\n",
        );
        let all = options(&scenario, 2024, 2025, 1);
        let totals: Vec<(Option<&str>, f64)> =
            all.iter().map(|cost| (cost.option.as_deref(), cost.total.value)).collect();
        assert_eq!(totals, [(Some("A"), 800e3 + 2.0 * 240e3 + 200e3), (Some("B"), 1.5e6 + 1e6 + 200e3)]);
        assert_eq!(all[0].by_year, [(2024, 1_140_000.0), (2025, 340_000.0)]);
        assert_eq!(all[0].total.range, None);
    }

    #[test]
    fn the_own_costs_of_a_replica_scenario_are_no_option() {
        let text = "[site.b]\n[cost.a]\noption = \"A\"\nonce = \"1EUR\"\n[cost.more]\noption = \"r\"\nonce = \"2EUR\"\n\
                    [replicas.r]\nfrom = \"a\"\nto = \"b\"\nsum = \"1Gbit/s\"\n";
        let scenario = scenario(text);
        let totals: Vec<f64> = options(&scenario, 2024, 2024, 1).iter().map(|cost| cost.total.value).collect();
        assert_eq!((totals, of_option(&scenario, "r", 2024, 2024)[0].total.value), (vec![1.0], 2.0));
    }

    #[test]
    fn a_right_of_use_is_paid_again_after_its_term() {
        let scenario = scenario("[cost.iru]\nonce = \"10MUSD\"\nterm = 15\nsince = 2024\n");
        let paid = |last: u16| options(&scenario, 2020, last, 1)[0].total.value;
        assert_eq!([2023, 2024, 2038, 2039].map(paid), [0.0, 10e6, 10e6, 20e6]);
    }

    #[test]
    fn amounts_of_two_currencies_are_not_added() {
        let scenario = scenario("[cost.a]\nonce = \"1MUSD\"\n[cost.b]\nonce = \"1MEUR\"\n");
        let all = options(&scenario, 2024, 2024, 1);
        assert_eq!(all.iter().map(|cost| cost.total.unit.as_str()).collect::<Vec<_>>(), ["EUR", "USD"]);
    }

    #[test]
    fn an_uncertain_price_gives_a_range_around_it() {
        let scenario = scenario("[cost.a]\nonce = \"1MEUR\"\nspread = \"30%\"\n");
        let (low, high) = options(&scenario, 2024, 2024, 1)[0].total.range.unwrap();
        // A triangle of ±30 %: 5 % lie below 1 − 0.3 × (1 − √0.1).
        assert!((low - 794.9e3).abs() < 5e3 && (high - 1205.1e3).abs() < 5e3, "{low} {high}");
    }
}
