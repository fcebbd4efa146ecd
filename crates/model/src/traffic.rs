//! Traffic of others on a link: the shapes that it may have, and the methods that forecast it.
//!
//! Names only. Does not know: how traffic is made up, or how it is forecast.

/// The shape of synthetic traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrafficShape {
    /// People: a high in the afternoon, less at weekends, slow growth.
    Daily,
    /// Machines: a batch of some hours each night, and a large one at the weekend.
    Nightly,
    /// Campaigns: some hours to two days of much traffic, at any time.
    Bursts,
    /// As `Daily`, until the habits change: then the high is eight hours later, and there is half as much again.
    Shifted,
}

/// A method of forecasting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ForecastMethod {
    /// The same hour of the week before.
    SeasonalNaive,
    /// Exponential smoothing of what is left without the seasons.
    Smoothing,
    /// Linear regression for each quantile.
    QuantileRegression,
    /// Gradient-boosted trees.
    Trees,
    /// A recurrent neural network.
    Network,
}

impl TrafficShape {
    /// All shapes.
    pub const ALL: [TrafficShape; 4] =
        [TrafficShape::Daily, TrafficShape::Nightly, TrafficShape::Bursts, TrafficShape::Shifted];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TrafficShape::Daily => "daily",
            TrafficShape::Nightly => "nightly",
            TrafficShape::Bursts => "bursts",
            TrafficShape::Shifted => "shifted",
        }
    }

    /// The shape of a name.
    pub fn of_name(name: &str) -> Option<TrafficShape> {
        TrafficShape::ALL.into_iter().find(|shape| shape.name() == name)
    }
}

impl ForecastMethod {
    /// All methods, the simplest first.
    pub const ALL: [ForecastMethod; 5] = [
        ForecastMethod::SeasonalNaive,
        ForecastMethod::Smoothing,
        ForecastMethod::QuantileRegression,
        ForecastMethod::Trees,
        ForecastMethod::Network,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ForecastMethod::SeasonalNaive => "seasonal-naive",
            ForecastMethod::Smoothing => "smoothing",
            ForecastMethod::QuantileRegression => "quantile-regression",
            ForecastMethod::Trees => "trees",
            ForecastMethod::Network => "network",
        }
    }

    /// The method of a name.
    pub fn of_name(name: &str) -> Option<ForecastMethod> {
        ForecastMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        assert!(TrafficShape::ALL.into_iter().all(|shape| TrafficShape::of_name(shape.name()) == Some(shape)));
        assert!(ForecastMethod::ALL.into_iter().all(|method| ForecastMethod::of_name(method.name()) == Some(method)));
        assert_eq!(TrafficShape::of_name("weekly"), None);
    }
}
