//! A number with everything that a reader needs to check it: unit, formula, inputs and source.
//!
//! Does not know: how a figure is shown. Calculators return figures; pages, tables and documents write them.

/// A named quantity that a formula uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The name in the formula: lower case, digits and `_`.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit of the value; empty for a count or a ratio.
    pub unit: String,
}

/// A computed number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What the number says, a few words.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit of the value; empty for a count or a ratio.
    pub unit: String,
    /// The formula over the names of the inputs, with `+ - * / ^` and the functions `ceil`, `floor`, `min` and `max`.
    pub formula: String,
    /// The inputs, in the order of the formula.
    pub inputs: Vec<Input>,
    /// Where the inputs or the formula come from: a publication, a page, a line of a scenario.
    pub source: String,
    /// The interval that holds the value in nine of ten draws, if the inputs are uncertain.
    pub range: Option<(f64, f64)>,
}

impl Figure {
    /// A figure without inputs; [`Figure::with`] adds them.
    pub fn new(name: impl Into<String>, value: f64, unit: impl Into<String>) -> Figure {
        Figure {
            name: name.into(),
            value,
            unit: unit.into(),
            formula: String::new(),
            inputs: Vec::new(),
            source: String::new(),
            range: None,
        }
    }

    /// Sets the formula.
    #[must_use]
    pub fn formula(mut self, formula: impl Into<String>) -> Figure {
        self.formula = formula.into();
        self
    }

    /// Adds an input.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: f64, unit: impl Into<String>) -> Figure {
        self.inputs.push(Input { name: name.into(), value, unit: unit.into() });
        self
    }

    /// Sets the source.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Figure {
        self.source = source.into();
        self
    }
}
