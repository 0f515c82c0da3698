//! The contract of providers, on the loopback network, with frames of both sizes.

use std::future::Future;
use std::net::SocketAddr;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

mod largest_frames {
    //! The default.
    use super::{loopback, run};
    use ropewalk_fabric_iwarp::{Framing, Iwarp};

    fabric::contract_tests!(Iwarp::new(Framing::Largest), loopback(), run);
}

mod frames_of_a_segment {
    //! What a frame by TCP segment changes.
    use super::{loopback, run};
    use ropewalk_fabric_iwarp::{Framing, Iwarp};

    fabric::contract_tests!(Iwarp::new(Framing::Segment), loopback(), run);
}
