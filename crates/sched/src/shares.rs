//! Hierarchical shares over many resources: community → activity → aggregate, or a tree of any depth.
//!
//! Each resource has its own tree, of the aggregates that use it only: a community that moves data between other sites must not lose
//! here what it cannot use there. Within a resource, a group's share is divided among its members by their weights. The part that a
//! member cannot use goes to its siblings first, then to the siblings of its group, and so on up.
//!
//! The division alternates two steps. [`allocate`] gives rates for weights, and names the resource that binds each aggregate. The tree
//! of that resource gives the entitlement of each aggregate there, which is its weight in the next pass. Over one bottleneck the second
//! pass is exact. Over several bottlenecks, every pass is feasible and leaves no capacity that an aggregate could use. Many divisions
//! have these two properties; the passes choose one of them by the entitlements.

use crate::allocation::{Binding, Demand, Rate, allocate};
use crate::max_min::weighted_max_min;

/// The classes of aggregates, in the order in which they are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Promised capacity: reservations, and transfers with an accepted deadline.
    Reserved,
    /// All others.
    #[default]
    Standard,
    /// Aggregates that wait until no other wants the capacity.
    Background,
}

impl Class {
    /// All classes, the first to be served first.
    pub const ALL: [Class; 3] = [Class::Reserved, Class::Standard, Class::Background];
}

/// A group of the tree, and its weight among its siblings. Groups with the same number are one group, and have the same weight everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Unique in the whole tree.
    pub number: u32,
    /// Positive.
    pub weight: f64,
}

/// Files that have the same path and the same place in the tree: the unit that rates are given to.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Its class.
    pub class: Class,
    /// The groups that it is in, from the root down: its community, its activity.
    pub groups: Vec<Group>,
    /// Its weight, floor, cap and path. The weight counts within its last group.
    pub demand: Demand,
}

/// Passes after the first. The second is for aggregates with different bottlenecks, whose rates it changes by less than a part in a
/// hundred.
const PASSES: usize = 2;

/// Divides resources of these capacities (bytes per second) among aggregates, class by class; rates are in the order of the aggregates.
pub fn share(capacities: &[f64], aggregates: &[Aggregate]) -> Vec<Rate> {
    let mut left = capacities.to_vec();
    let mut rates = vec![Rate { rate: 0.0, binding: Binding::Cap }; aggregates.len()];
    for class in Class::ALL {
        let members: Vec<usize> = (0..aggregates.len()).filter(|at| aggregates[*at].class == class).collect();
        if members.is_empty() {
            continue;
        }
        let of_class: Vec<&Aggregate> = members.iter().map(|at| &aggregates[*at]).collect();
        for (at, rate) in members.iter().zip(share_class(&left, &of_class)) {
            rates[*at] = rate;
            for resource in &aggregates[*at].demand.path {
                left[*resource as usize] = (left[*resource as usize] - rate.rate).max(0.0);
            }
        }
    }
    rates
}

fn share_class(capacities: &[f64], aggregates: &[&Aggregate]) -> Vec<Rate> {
    let mut demands: Vec<Demand> = aggregates.iter().map(|aggregate| aggregate.demand.clone()).collect();
    let groups: Vec<&[Group]> = aggregates.iter().map(|aggregate| aggregate.groups.as_slice()).collect();
    let mut rates = allocate(capacities, &demands);
    // Where all aggregates are in one group, their weights decide alone.
    let first = groups.first().copied().unwrap_or_default();
    if groups.iter().all(|groups| same_groups(groups, first)) {
        return rates;
    }
    let by_resource = members_by_resource(capacities.len(), &demands);
    for _ in 0..PASSES {
        let entitled = entitlements(capacities, &by_resource, aggregates, &rates);
        let near = |(demand, entitled): (&Demand, &f64)| (demand.weight - entitled).abs() <= 1e-9 * entitled;
        if demands.iter().zip(&entitled).all(near) {
            break;
        }
        for (demand, entitled) in demands.iter_mut().zip(entitled) {
            demand.weight = entitled;
        }
        rates = allocate(capacities, &demands);
    }
    rates
}

fn same_groups(a: &[Group], b: &[Group]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.number == b.number)
}

fn members_by_resource(resources: usize, demands: &[Demand]) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); resources];
    for (at, demand) in demands.iter().enumerate() {
        demand.path.iter().for_each(|resource| members[*resource as usize].push(at));
    }
    members
}

/// The entitlement of each aggregate: the least that the trees of the resources that bind any aggregate give it.
fn entitlements(capacities: &[f64], by_resource: &[Vec<usize>], aggregates: &[&Aggregate], rates: &[Rate]) -> Vec<f64> {
    let mut entitled: Vec<f64> = aggregates.iter().map(|aggregate| aggregate.demand.cap).collect();
    for (resource, members) in by_resource.iter().enumerate() {
        let here = Binding::Resource(resource as u32);
        if !members.iter().any(|at| rates[*at].binding == here) {
            continue;
        }
        let leaf = |at: &usize| {
            let Demand { weight, cap, .. } = aggregates[*at].demand;
            // An aggregate that another resource binds uses no more here than it gets there.
            let demand = if rates[*at].binding == here { cap } else { rates[*at].rate };
            Leaf { groups: &aggregates[*at].groups, weight, demand }
        };
        let leaves: Vec<Leaf<'_>> = members.iter().map(leaf).collect();
        for (at, given) in members.iter().zip(divide(capacities[resource], &leaves)) {
            entitled[*at] = entitled[*at].min(given);
        }
    }
    // A weight is positive and finite: an aggregate without an entitlement, or with an infinite one, keeps its own weight.
    let weight = |(entitled, aggregate): (f64, &&Aggregate)| {
        if entitled > 0.0 && entitled.is_finite() { entitled } else { aggregate.demand.weight }
    };
    entitled.into_iter().zip(aggregates).map(weight).collect()
}

/// An aggregate at one resource.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// The groups that it is in, from the root down.
    pub groups: &'a [Group],
    /// Its weight within the last of them.
    pub weight: f64,
    /// The highest rate that it can use here.
    pub demand: f64,
}

/// Divides one resource by a tree: at every group weighted max-min among its members, whose demands are the sums of the demands below them.
pub fn divide(capacity: f64, leaves: &[Leaf<'_>]) -> Vec<f64> {
    let mut given = vec![0.0; leaves.len()];
    let mut order: Vec<usize> = (0..leaves.len()).collect();
    order.sort_by(|a, b| {
        let numbers = |at: &usize| leaves[*at].groups.iter().map(|group| group.number);
        numbers(a).cmp(numbers(b))
    });
    divide_level(capacity, 0, &order, leaves, &mut given);
    given
}

/// Divides among leaves that are in the same groups above this depth, in the order of their groups.
fn divide_level(capacity: f64, depth: usize, order: &[usize], leaves: &[Leaf<'_>], given: &mut [f64]) {
    let number = |at: &usize| leaves[*at].groups.get(depth).map(|group| group.number);
    // A leaf that is in no deeper group is a member beside the groups.
    let members: Vec<&[usize]> = order.chunk_by(|a, b| number(a).is_some() && number(a) == number(b)).collect();
    let parties: Vec<(f64, f64)> = members
        .iter()
        .map(|members| {
            let first = &leaves[members[0]];
            let weight = first.groups.get(depth).map_or(first.weight, |group| group.weight);
            (weight, members.iter().map(|at| leaves[*at].demand).sum())
        })
        .collect();
    for (members, part) in members.into_iter().zip(weighted_max_min(capacity, &parties)) {
        match members {
            [one] => given[*one] = part,
            several => divide_level(part, depth + 1, several, leaves, given),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: f64 = f64::INFINITY;

    fn group(number: u32, weight: f64) -> Group {
        Group { number, weight }
    }

    fn aggregate(groups: &[Group], cap: f64, path: &[u32]) -> Aggregate {
        let demand = Demand { weight: 1.0, floor: 0.0, cap, path: path.to_vec() };
        Aggregate { class: Class::Standard, groups: groups.to_vec(), demand }
    }

    fn rates(capacities: &[f64], aggregates: &[Aggregate]) -> Vec<f64> {
        share(capacities, aggregates).iter().map(|rate| rate.rate).collect()
    }

    fn assert_near(given: &[f64], wanted: &[f64]) {
        let near = |(given, wanted): (&f64, &f64)| (given - wanted).abs() < 1e-6 * (1.0 + wanted);
        assert!(given.len() == wanted.len() && given.iter().zip(wanted).all(near), "{given:?} and not {wanted:?}");
    }

    #[test]
    fn a_community_gets_its_share_however_many_aggregates_it_has() {
        let (a, b) = (group(1, 1.0), group(2, 1.0));
        let given = rates(
            &[90.0],
            &[
                aggregate(&[a], ALL, &[0]),
                aggregate(&[b], ALL, &[0]),
                aggregate(&[b], ALL, &[0]),
                aggregate(&[b], ALL, &[0]),
            ],
        );
        assert_near(&given, &[45.0, 15.0, 15.0, 15.0]);
    }

    #[test]
    fn the_rest_of_an_activity_goes_to_its_siblings_first() {
        let (a, b) = (group(1, 1.0), group(2, 1.0));
        let (production, analysis) = (group(11, 3.0), group(12, 1.0));
        let given = rates(
            &[80.0],
            &[
                aggregate(&[a, production], 10.0, &[0]),
                aggregate(&[a, analysis], ALL, &[0]),
                aggregate(&[b], ALL, &[0]),
            ],
        );
        assert_near(&given, &[10.0, 30.0, 40.0]);
    }

    #[test]
    fn the_rest_of_a_community_goes_to_the_others() {
        let given = rates(&[80.0], &[aggregate(&[group(1, 3.0)], 10.0, &[0]), aggregate(&[group(2, 1.0)], ALL, &[0])]);
        assert_near(&given, &[10.0, 70.0]);
    }

    #[test]
    fn a_community_loses_nothing_at_one_link_by_using_another() {
        let (a, b) = (group(1, 1.0), group(2, 1.0));
        let given =
            rates(&[60.0, 60.0], &[aggregate(&[a], ALL, &[0]), aggregate(&[a], ALL, &[1]), aggregate(&[b], ALL, &[0])]);
        assert_near(&given, &[30.0, 60.0, 30.0]);
    }

    #[test]
    fn classes_are_served_in_order() {
        let of = |class, cap| Aggregate { class, ..aggregate(&[group(1, 1.0)], cap, &[0]) };
        let all = [of(Class::Background, ALL), of(Class::Standard, 20.0), of(Class::Reserved, 70.0)];
        assert_near(&rates(&[100.0], &all), &[10.0, 20.0, 70.0]);
        assert_near(&rates(&[60.0], &all), &[0.0, 0.0, 60.0]);
    }

    prop_compose! {
        fn any_aggregate(resources: u32)(
            community in 0u32..4,
            activity in 0u32..3,
            capped in proptest::option::of(1.0..200.0f64),
            path in proptest::collection::btree_set(0..resources, 1..=resources as usize),
        ) -> Aggregate {
            let groups = [group(community, f64::from(community + 1)), group(10 + 3 * community + activity, f64::from(activity + 1))];
            aggregate(&groups, capped.unwrap_or(ALL), &path.into_iter().collect::<Vec<_>>())
        }
    }

    proptest! {
        /// No capacity is exceeded, and no aggregate could have more while the others keep their rates.
        #[test]
        fn shares_fit_the_capacities_and_leave_none_that_could_be_used(
            capacities in proptest::collection::vec(10.0..1000.0f64, 4),
            aggregates in proptest::collection::vec(any_aggregate(4), 1..24),
        ) {
            let given = share(&capacities, &aggregates);
            let mut left = capacities.clone();
            for (aggregate, rate) in aggregates.iter().zip(&given) {
                aggregate.demand.path.iter().for_each(|resource| left[*resource as usize] -= rate.rate);
            }
            prop_assert!(left.iter().zip(&capacities).all(|(left, capacity)| *left >= -1e-6 * capacity), "{left:?}");
            for (aggregate, rate) in aggregates.iter().zip(&given) {
                let at_cap = rate.rate >= aggregate.demand.cap * (1.0 - 1e-9);
                let is_bound = aggregate.demand.path.iter().any(|resource| left[*resource as usize] <= 1e-6 * capacities[*resource as usize]);
                prop_assert!(at_cap || is_bound, "{aggregate:?} has {rate:?} and could have more");
            }
        }

        /// Over one resource the shares are those of the tree.
        #[test]
        fn one_resource_is_divided_by_the_tree(aggregates in proptest::collection::vec(any_aggregate(1), 1..20)) {
            let leaves: Vec<Leaf<'_>> = aggregates
                .iter()
                .map(|aggregate| Leaf { groups: &aggregate.groups, weight: 1.0, demand: aggregate.demand.cap })
                .collect();
            let wanted = divide(500.0, &leaves);
            for (given, wanted) in share(&[500.0], &aggregates).iter().zip(&wanted) {
                prop_assert!((given.rate - wanted).abs() <= 1e-6 * (1.0 + wanted), "{} and not {wanted}", given.rate);
            }
        }
    }
}
