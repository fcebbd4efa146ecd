//! The protocol of iperf3, both ends: its control messages, its results, its UDP header.
