//! The way to a host: its hops, its other ways, its MTU.
