//! An attacker who knows the protocols: every test tries what must not work, and checks what remains afterwards.
//!
//! The tests do not know how the node keeps its promises: they assert the statements of docs/security.md.

mod budgets;
mod damaged_state;
mod deep_trees;
mod dialling;
mod digest_floods;
mod first_messages;
mod floods;
mod full_state;
mod held_connections;
mod identity;
mod link_swaps;
mod links;
mod loops;
mod measures;
mod neighbours;
mod own_addresses;
mod query_secrets;
mod requests;
mod responders;
mod revoked;
mod rights;
mod rights_table;
mod session;
mod smuggling;
mod terminals;
mod traversals;
mod unfinished_names;
mod verbs;
mod wild_frames;
