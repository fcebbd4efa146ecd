//! Replica scenarios: the flows, circuits, storage and costs of ways to keep copies of what sources produce.
//!
//! Does not know: when a file arrives (the simulator does), or what the data are worth.

use model::figure::Figure;
use scenario::{FlowDemand, ReplicaScenario, Scenario, ServingOrder, Years};

use crate::cost;
use crate::loads::{FlowChoice, LinkLoad, Loads, RoutedFlow, identifier, loads};
use crate::network::Network;
use crate::routes::Avoid;

/// What one source sends.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceFigures {
    /// The number of its flows to other countries.
    pub flows: Figure,
    /// The rate of one of them.
    pub rate: Figure,
    /// What it sends to other countries in sum.
    pub sent: Figure,
    /// The circuits that this takes.
    pub circuits: Figure,
    /// The time that a day of its data takes.
    pub day: Figure,
}

/// The figures of a replica scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaFigures {
    /// Its name.
    pub name: String,
    /// Of each source.
    pub sources: Vec<SourceFigures>,
    /// What the site that gets most receives.
    pub fullest_site: Option<Figure>,
    /// What a site passes on to another; none if sources send all copies.
    pub passed_on: Option<Figure>,
    /// All copies of the data of a day.
    pub stored: Figure,
    /// What each site that holds data for the others holds.
    pub held: Vec<Figure>,
    /// The loads of links that carry more than transfers may use of them.
    pub overloaded: Vec<Figure>,
    /// Its own costs, a year on average, one figure for each currency. Costs that belong to all options are not among them.
    pub costs: Vec<Figure>,
}

impl ReplicaFigures {
    /// All figures, in a fixed order.
    pub fn all(&self) -> Vec<Figure> {
        let of_source = |source: &SourceFigures| {
            let SourceFigures { flows, rate, sent, circuits, day } = source.clone();
            [flows, rate, sent, circuits, day]
        };
        let mut all: Vec<Figure> = self.sources.iter().flat_map(of_source).collect();
        all.extend(self.fullest_site.clone());
        all.extend(self.passed_on.clone());
        all.push(self.stored.clone());
        for more in [&self.held, &self.overloaded, &self.costs] {
            all.extend(more.iter().cloned());
        }
        all
    }
}

/// The figures of a replica scenario of `scenario`; its costs are those from the year `first` to the year `last`.
pub fn figures(
    scenario: &Scenario,
    network: &Network,
    replicas: &ReplicaScenario,
    (first, last): (u16, u16),
) -> ReplicaFigures {
    let plan = ReplicaFlows { scenario, replicas };
    let loads: Vec<Loads> = plan.turns().into_iter().map(|flows| turn_loads(scenario, network, flows)).collect();
    let own = cost::of_option(scenario, &replicas.name, first, last);
    let named = |figure: Figure| Figure { name: format!("{}: {}", replicas.name, figure.name), ..figure };
    ReplicaFigures {
        name: replicas.name.clone(),
        sources: replicas.from.iter().map(|source| plan.source_figures(*source)).collect(),
        fullest_site: plan.fullest_site(&loads).map(named),
        passed_on: replicas.passed_on.then(|| named(plan.passed_on())),
        stored: named(plan.stored()),
        held: plan.held().into_iter().map(named).collect(),
        overloaded: overloaded(network, &loads).into_iter().map(named).collect(),
        costs: own
            .into_iter()
            .map(|cost| Figure { name: format!("{}: own cost, a year on average", replicas.name), ..cost.yearly })
            .collect(),
    }
}

fn turn_loads(scenario: &Scenario, network: &Network, flows: Vec<FlowDemand>) -> Loads {
    let turn = Scenario { flows, ..scenario.clone() };
    loads(&turn, network, &FlowChoice::stated(None), &Avoid::default())
}

/// The highest load of each link that is overloaded in some turn.
fn overloaded(network: &Network, turns: &[Loads]) -> Vec<Figure> {
    let highest = |link: usize| {
        let of_turn = turns.iter().flat_map(|loads| loads.overloaded(network).map(move |load| (loads, load)));
        let of_link = of_turn.filter(|(_, load): &(&Loads, &LinkLoad)| load.link == link);
        of_link.max_by(|(_, a), (_, b)| a.load_bit_s.total_cmp(&b.load_bit_s))
    };
    (0..network.links.len()).filter_map(highest).map(|(loads, load)| loads.figure(network, load)).collect()
}

/// The flows of a replica scenario.
struct ReplicaFlows<'a> {
    scenario: &'a Scenario,
    replicas: &'a ReplicaScenario,
}

impl ReplicaFlows<'_> {
    /// The flows of each turn: of all sites at once, or of one site after the other.
    fn turns(&self) -> Vec<Vec<FlowDemand>> {
        let ReplicaScenario { from, to, sum_bit_s, .. } = self.replicas;
        if self.replicas.order == ServingOrder::InTurn {
            let turn = |target: &usize| {
                let others = from.iter().filter(|source| *source != target);
                others.map(|source| self.flow(self.site(*source), (*source, *target), *sum_bit_s)).collect()
            };
            return to.iter().map(turn).collect();
        }
        let mut flows: Vec<FlowDemand> = from.iter().flat_map(|source| self.pushed(*source)).collect();
        if self.replicas.passed_on {
            let sites: Vec<usize> = to.clone();
            let next = sites.iter().cycle().skip(1);
            let rate = self.passed_on().value * 1e9;
            let pass = |(site, next): (&usize, &usize)| {
                self.flow(&format!("passed on by {}", self.site(*site)), (*site, *next), rate)
            };
            flows.extend(sites.iter().zip(next).filter(|(site, next)| site != next).map(pass));
        }
        vec![flows]
    }

    /// What a source sends to all sites in parallel, or has a distribution centre send.
    fn pushed(&self, source: usize) -> Vec<FlowDemand> {
        let ReplicaScenario { to, full, sum_bit_s, .. } = self.replicas;
        let (rate, name) = (self.pair_bit_s(source) * self.copies_pushed(), self.site(source));
        let mut flows = Vec::new();
        let holder = self.via(source).filter(|_| self.holds());
        for target in to.iter().filter(|target| **target != source) {
            let sender = holder.filter(|_| self.is_abroad(source, *target)).unwrap_or(source);
            if sender != *target {
                flows.push(self.flow(self.site(sender), (sender, *target), rate));
            }
        }
        flows.extend(holder.map(|holder| self.flow(name, (source, holder), *sum_bit_s)));
        let others = full.iter().filter(|site| **site != source);
        flows.extend(others.map(|site| self.flow(&format!("{name} full copy"), (source, *site), *sum_bit_s)));
        flows
    }

    fn flow(&self, name: &str, (from, to): (usize, usize), rate_bit_s: f64) -> FlowDemand {
        let via = self.via(from).filter(|via| *via != to && self.is_abroad(from, to));
        FlowDemand {
            name: name.to_owned(),
            line: self.replicas.line,
            from: vec![from],
            to: vec![to],
            rate_bit_s,
            via: via.into_iter().collect(),
            switch: None,
            years: Years::default(),
            source: None,
        }
    }

    fn site(&self, site: usize) -> &str {
        &self.scenario.sites[site].name
    }

    fn via(&self, source: usize) -> Option<usize> {
        self.replicas.via.iter().find(|(from, _)| *from == source).map(|(_, via)| *via)
    }

    fn holds(&self) -> bool {
        !self.replicas.hold.is_zero()
    }

    /// Whether two sites are in different countries. A site without a country is abroad for all others.
    fn is_abroad(&self, from: usize, to: usize) -> bool {
        let country = |site: usize| self.scenario.sites[site].facts.country.as_ref();
        from != to && (country(from).is_none() || country(from) != country(to))
    }

    fn abroad(&self, source: usize, sites: &[usize]) -> f64 {
        sites.iter().filter(|site| self.is_abroad(source, **site)).count() as f64
    }

    /// What one site gets of one copy of a source's data, bit/s.
    fn pair_bit_s(&self, source: usize) -> f64 {
        self.replicas.sum_bit_s / self.abroad(source, &self.replicas.to).max(1.0)
    }

    /// The copies that sources send themselves.
    fn copies_pushed(&self) -> f64 {
        if self.replicas.passed_on { 1.0 } else { f64::from(self.replicas.copies) }
    }

    fn source_figures(&self, source: usize) -> SourceFigures {
        let figure = |name: &str, value: f64, unit: &str| {
            let text = self.replicas.source.clone().unwrap_or_default();
            Figure::new(format!("{}: {name} {}", self.replicas.name, self.site(source)), value, unit).source(text)
        };
        let sum = self.replicas.sum_bit_s / 1e9;
        let has_one_flow = self.replicas.order == ServingOrder::InTurn || self.holds();
        let (targets, full) = (self.abroad(source, &self.replicas.to), self.abroad(source, &self.replicas.full));
        let copies = self.copies_pushed();
        let (flows, rate) = if has_one_flow {
            let flows = figure("flows from", 1.0 + full, "").formula("1 + full").with("full", full, "");
            (flows, figure("rate of a flow from", sum, "Gbit/s").formula("sum").with("sum", sum, "Gbit/s"))
        } else {
            let flows = figure("flows from", targets + full, "").formula("targets + full");
            let rate = figure("rate of a flow from", copies * sum / targets.max(1.0), "Gbit/s");
            let rate = rate.formula("copies * sum / max(1, targets)").with("copies", copies, "");
            (
                flows.with("targets", targets, "").with("full", full, ""),
                rate.with("sum", sum, "Gbit/s").with("targets", targets, ""),
            )
        };
        let sent = figure("abroad from", (copies + full) * sum, "Gbit/s").formula("(copies + full) * sum");
        let sent = sent.with("copies", copies, "").with("full", full, "").with("sum", sum, "Gbit/s");
        let circuit = self.replicas.circuit_bit_s / 1e9;
        let circuits = figure("circuits from", (sent.value / circuit).ceil(), "").formula("ceil(sent / circuit)");
        let hours = self.daily_pb() * 8e6 / (sum * 3600.0);
        let day = figure("hours for a day of", hours, "h").formula("daily * 8000000 / (sum * 3600)");
        SourceFigures {
            flows,
            rate,
            circuits: circuits.with("sent", sent.value, "Gbit/s").with("circuit", circuit, "Gbit/s"),
            sent,
            day: day.with("daily", self.daily_pb(), "PB").with("sum", sum, "Gbit/s"),
        }
    }

    /// What the site that gets most receives: the sum of the flows to it.
    fn fullest_site(&self, turns: &[Loads]) -> Option<Figure> {
        let keepers = || self.replicas.to.iter().chain(&self.replicas.full);
        let received = |(turn, site): (&Loads, usize)| {
            let mut figure = Figure::new(format!("most into {}", self.site(site)), 0.0, "Gbit/s");
            let mut names = Vec::new();
            for RoutedFlow { flow, rate_bit_s, .. } in turn.flows.iter().filter(|flow| flow.to == site) {
                figure.value += rate_bit_s / 1e9;
                figure = figure.with(identifier(flow), rate_bit_s / 1e9, "Gbit/s");
                names.push(identifier(flow));
            }
            figure.formula(names.join(" + ")).source("the flows of the replica scenario")
        };
        let all = turns.iter().flat_map(|turn| keepers().map(move |site| (turn, *site))).map(received);
        // The first of several that receive the same.
        all.filter(|figure| figure.value > 0.0).reduce(|most, next| if next.value > most.value { next } else { most })
    }

    fn passed_on(&self) -> Figure {
        let more = f64::from(self.replicas.copies.saturating_sub(1));
        let rates =
            self.replicas.from.iter().map(|source| (identifier(self.site(*source)), self.pair_bit_s(*source) / 1e9));
        let rates: Vec<(String, f64)> = rates.collect();
        let sum: f64 = rates.iter().map(|(_, rate)| rate).sum();
        let names: Vec<&str> = rates.iter().map(|(name, _)| name.as_str()).collect();
        let figure = Figure::new("passed on by a site", more * sum, "Gbit/s")
            .formula(format!("(copies - 1) * ({})", names.join(" + ")))
            .source("each site sends what it has from each source to one other site")
            .with("copies", more + 1.0, "");
        rates.into_iter().fold(figure, |figure, (name, rate)| figure.with(name, rate, "Gbit/s"))
    }

    /// What a source produces in a day, PB.
    fn daily_pb(&self) -> f64 {
        let carried = self.replicas.sum_bit_s / 8.0 * 86_400.0;
        self.replicas.daily.map_or(carried, |bytes| bytes.0 as f64) / 1e15
    }

    fn stored(&self) -> Figure {
        let (sources, copies) = (self.replicas.from.len() as f64, f64::from(self.replicas.copies));
        let (full, daily) = (self.replicas.full.len() as f64, self.daily_pb());
        Figure::new("copies of a day", sources * daily * (copies + full), "PB")
            .formula("sources * daily * (copies + full)")
            .with("sources", sources, "")
            .with("daily", daily, "PB")
            .with("copies", copies, "")
            .with("full", full, "")
    }

    fn held(&self) -> Vec<Figure> {
        let days = self.replicas.hold.as_secs_f64() / 86_400.0;
        let held = |(_, site): &(usize, usize)| {
            Figure::new(format!("held by {}", self.site(*site)), days * self.daily_pb(), "PB")
                .formula("days * daily")
                .with("days", days, "days")
                .with("daily", self.daily_pb(), "PB")
        };
        if self.holds() { self.replicas.via.iter().map(held).collect() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: &str = "[site.telescope]\ncountry = \"ZA\"\n[site.home]\ncountry = \"ZA\"\n[site.coast]\n[site.one]\n[site.two]\n\
                         [path.telescope-home]\nrate = \"100Gbit/s\"\n[path.telescope-coast]\nrate = \"100Gbit/s\"\n\
                         [path.coast-one]\nrate = \"60Gbit/s\"\n[path.coast-two]\nrate = \"60Gbit/s\"\n";

    fn of(words: &str) -> ReplicaFigures {
        let text = format!(
            "{SITES}[replicas.r]\nfrom = \"telescope\"\nto = [\"home\", \"one\", \"two\"]\nsum = \"100Gbit/s\"\ndaily = \"1PB\"\n\
             via = {{ telescope = \"coast\" }}\n{words}"
        );
        let scenario = Scenario::read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        figures(&scenario, &Network::new(&scenario, None), &scenario.replicas[0], (2024, 2024))
    }

    fn overloaded(figures: &ReplicaFigures) -> Vec<(&str, f64)> {
        figures.overloaded.iter().map(|figure| (figure.name.as_str(), figure.value)).collect()
    }

    #[test]
    fn a_parallel_push_divides_the_sum_among_the_sites_abroad() {
        let parallel = of("");
        let source = &parallel.sources[0];
        assert_eq!((source.flows.value, source.rate.value, source.circuits.value), (2.0, 50.0, 1.0));
        assert_eq!(overloaded(&parallel), []);
        let in_turn = of("order = \"in-turn\"\n");
        assert_eq!((in_turn.sources[0].flows.value, in_turn.sources[0].rate.value), (1.0, 100.0));
        assert_eq!(overloaded(&in_turn), [("r: load of coast-one ab", 100.0), ("r: load of coast-two ab", 100.0)]);
    }

    #[test]
    fn a_second_copy_is_sent_by_the_source_or_passed_on() {
        let pushed = of("copies = 2\n");
        assert_eq!((pushed.sources[0].sent.value, pushed.sources[0].circuits.value), (200.0, 2.0));
        let passed = of("copies = 2\npassed_on = true\n");
        assert_eq!((passed.sources[0].circuits.value, passed.passed_on.as_ref().unwrap().value), (1.0, 50.0));
        // One sends its part to two over the coast: 50 from the telescope and 50 from one.
        assert_eq!(passed.fullest_site.as_ref().unwrap().value, 100.0);
        assert_eq!((pushed.stored.value, passed.stored.value), (2.0, 2.0));
    }

    #[test]
    fn a_distribution_centre_gets_one_flow_and_holds_days_of_data() {
        let centre = of("hold = \"3d\"\n");
        assert_eq!((centre.sources[0].flows.value, centre.sources[0].rate.value), (1.0, 100.0));
        assert_eq!(centre.held[0].value, 3.0);
        assert_eq!(centre.fullest_site.unwrap().value, 50.0);
    }

    #[test]
    fn costs_of_the_option_of_its_name_belong_to_a_replica_scenario() {
        let costs =
            "[cost.more]\noption = \"r\"\ncount = 2\nper_year = \"0.3MEUR\"\n[cost.all]\nper_year = \"1MEUR\"\n";
        let cost = of(costs).costs;
        assert_eq!(cost.iter().map(|cost| (cost.value, cost.unit.as_str())).collect::<Vec<_>>(), [(0.6e6, "EUR")]);
    }
}
