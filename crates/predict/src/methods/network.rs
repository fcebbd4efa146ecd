//! A small recurrent network: gated recurrent units (Cho and others, 2014) read the last two days, and a linear layer gives the next day as
//! the deviation of each hour from the same hour of the week before.

use std::cell::RefCell;
use std::f64::consts::TAU;

use ndarray::{Array2, Axis};
use rust_lstm::{Adam, GRUNetwork, LinearLayer};

use crate::forecaster::MedianForecast;
use crate::history::ScaledHistory;
use crate::{DAY, HORIZON, PredictError, WEEK};

/// Hours that it reads.
const READ: usize = 48;
/// What it reads of each hour: the value, the deviation from the week before, the hour of the day as sine and cosine, the weekend.
const INPUTS: usize = 5;
const UNITS: usize = 16;
/// Hours between the origins of two examples.
const STEP: usize = 5;
/// Examples of one step of the optimiser.
const BATCH: usize = 32;
/// Passes over all examples.
const PASSES: usize = 30;
const LEARNING_RATE: f64 = 0.01;
/// Differences of values are bounded, so that one burst does not decide the weights.
const DEVIATION_MAX: f64 = 2.0;

pub(super) struct RecurrentNetwork {
    /// The library stores activations in its layers, even for a forecast.
    layers: RefCell<Layers>,
}

struct Layers {
    recurrent: GRUNetwork,
    output: LinearLayer,
}

impl RecurrentNetwork {
    /// Fits the network to a history.
    pub fn fit(history: ScaledHistory, seed: u64) -> RecurrentNetwork {
        // The library draws from a generator of the thread.
        rust_lstm::seed(seed);
        let mut layers =
            Layers { recurrent: GRUNetwork::new(INPUTS, UNITS, 1), output: LinearLayer::new(UNITS, HORIZON) };
        let mut optimizer = Adam::new(LEARNING_RATE);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut origins: Vec<usize> = (WEEK + READ..=history.len() - HORIZON).step_by(STEP).collect();
        for _ in 0..PASSES {
            random.shuffle(&mut origins);
            for batch in origins.chunks(BATCH) {
                layers.learn(history, batch, &mut optimizer);
            }
        }
        RecurrentNetwork { layers: RefCell::new(layers) }
    }
}

impl MedianForecast for RecurrentNetwork {
    fn forecast(&self, history: ScaledHistory) -> Result<Vec<f64>, PredictError> {
        let origin = history.len();
        let mut layers = self.layers.borrow_mut();
        let inputs = inputs(history, &[origin]);
        let (outputs, _) = layers.recurrent.forward_sequence_with_cache(&inputs);
        let Some((last, _)) = outputs.last() else { return Ok(Vec::new()) };
        let deviations = layers.output.forward(last);
        Ok((0..HORIZON).map(|ahead| history.values[origin + ahead - WEEK] + deviations[[ahead, 0]]).collect())
    }
}

impl Layers {
    /// One step of the optimiser on the examples that begin at some origins.
    fn learn(&mut self, history: ScaledHistory, origins: &[usize], optimizer: &mut Adam) {
        let (outputs, caches) = self.recurrent.forward_sequence_with_cache(&inputs(history, origins));
        let Some((last, _)) = outputs.last() else { return };
        let forecast = self.output.forward(last);
        let targets = Array2::from_shape_fn((HORIZON, origins.len()), |(ahead, column)| {
            deviation(history, origins[column] + ahead)
        });
        // The gradient of the mean squared error of the batch.
        let gradient = (forecast - targets) * (2.0 / (HORIZON * origins.len()) as f64);
        let (output_gradients, last_gradient) = self.output.backward(&gradient);
        let mut gradients = vec![Array2::zeros((UNITS, origins.len())); READ];
        if let Some(end) = gradients.last_mut() {
            *end = last_gradient;
        }
        let (recurrent_gradients, _) = self.recurrent.backward_sequence(&gradients, &caches);
        self.output.update_parameters(&output_gradients, optimizer, "output");
        self.recurrent.update_parameters(&recurrent_gradients, optimizer);
    }
}

/// The deviation of an hour from the same hour of the week before, bounded.
fn deviation(history: ScaledHistory, at: usize) -> f64 {
    (history.values[at] - history.values[at - WEEK]).clamp(-DEVIATION_MAX, DEVIATION_MAX)
}

/// What the network reads before some origins: for each hour a matrix with a column for each origin.
fn inputs(history: ScaledHistory, origins: &[usize]) -> Vec<Array2<f64>> {
    (0..READ)
        .map(|hour| {
            let mut matrix = Array2::zeros((INPUTS, origins.len()));
            for (mut column, origin) in matrix.axis_iter_mut(Axis(1)).zip(origins) {
                let at = origin - READ + hour;
                let angle = TAU * history.hour_of_day(at) as f64 / DAY as f64;
                column[0] = history.values[at].min(1.0 + DEVIATION_MAX) - 1.0;
                column[1] = deviation(history, at);
                column[2] = angle.sin();
                column[3] = angle.cos();
                column[4] = f64::from(u8::from(history.is_weekend(at)));
            }
            matrix
        })
        .collect()
}
