//! STAMP (RFC 8762) and TWAMP-Light: round trips, delays, loss and variation by direction.
