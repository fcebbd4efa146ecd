//! `plan overlay`: a virtual network over several countries.

use model::Exit;
use model::v1::plan::{PlanCountry, PlanOverlay, PlanPeering};
use plan::network::Network;
use plan::overlay::{CountryVrf, Overlay, overlay};

use super::LoadedScenario;
use crate::args::PlanOverlay as OverlayArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// Prints the plan. The exit code is that of an incomplete result if a site has no country, or a country cannot be reached from the first.
///
/// # Errors
/// No site of the scenario belongs to the group.
pub fn run(args: &OverlayArgs, loaded: &LoadedScenario, printer: &Printer) -> Result<Exit, Failure> {
    let network = loaded.network();
    let overlay = overlay(&loaded.scenario, &network, &args.group);
    if overlay.countries.is_empty() && overlay.without_country.is_empty() {
        return Err(Failure::usage(format!("{}: no site belongs to a group {:?}", loaded.name, args.group)));
    }
    let document = document(loaded, &network, &overlay);
    if printer.is_json() {
        printer.object(&document);
    } else {
        printer.line(overlay.show(&network).trim_end());
        for site in &document.sites_without_country {
            printer.line(&format!("{site} has no country: add one, like country = \"ZA\" in [site.{site}]"));
        }
        for country in &document.unconnected {
            printer.line(&format!(
                "{country} peers with no other VRF of the overlay: add a path to a site of another country"
            ));
        }
    }
    let is_complete = document.sites_without_country.is_empty() && document.unconnected.is_empty();
    Ok(if is_complete { Exit::Done } else { Exit::Partial })
}

fn document(loaded: &LoadedScenario, network: &Network, overlay: &Overlay) -> PlanOverlay {
    let names = |sites: &[usize]| sites.iter().map(|site| network.sites[*site].clone()).collect::<Vec<_>>();
    let country = |vrf: &CountryVrf| PlanCountry {
        country: vrf.country.clone(),
        number: vrf.number,
        backbones: vrf.backbones.iter().cloned().collect(),
        sites: names(&vrf.members),
        peers: vrf
            .peers
            .iter()
            .map(|(country, links)| PlanPeering {
                country: country.clone(),
                links: links.iter().map(|link| network.links[*link].name.clone()).collect(),
            })
            .collect(),
    };
    PlanOverlay {
        v: 1,
        event: "plan_overlay".to_owned(),
        scenario: loaded.name.clone(),
        group: overlay.name.clone(),
        countries: overlay.countries.iter().map(country).collect(),
        sites_without_country: names(&overlay.without_country),
        unconnected: overlay.islands().into_iter().map(str::to_owned).collect(),
    }
}
