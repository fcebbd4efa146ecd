//! Figures on a page.

use model::figure::Figure;
use report::html::{self, Table};

use super::figures;

/// Figures, each folded over its formula, its inputs and its source.
pub fn figure_list(figures: &[Figure]) -> String {
    figures.iter().map(figure).collect()
}

fn figure(figure: &Figure) -> String {
    let mut table = Table::new("numbers", "Inputs", &["input", "value", "unit"]);
    for input in &figure.inputs {
        table.row(&[input.name.clone(), input.value.to_string(), input.unit.clone()]);
    }
    format!(
        "<details><summary><b>{}</b>: {}</summary><p><code>{}</code></p><p class=\"soft\">{}</p>{}</details>\n",
        html::brief(&figure.name),
        html::brief(&figures::show(figure)),
        html::brief(&figure.formula),
        html::brief(&figure.source),
        table.end()
    )
}
