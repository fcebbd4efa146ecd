//! UDP tests: paced datagrams, exact loss, order and spacing; the highest rate.
