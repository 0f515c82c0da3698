//! A closed queueing network: a number of requests, each of which uses stations in turn and then begins anew.
//!
//! Solved by exact mean value analysis. A station with `m` servers counts as one server, `m` times as fast, and a delay for the
//! rest of the service (Seidmann). That is exact for one request and at saturation.

/// What requests queue for.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Its name.
    pub name: &'static str,
    /// Servers that work at the same time; a share that others use is taken off before.
    pub servers: f64,
    /// Service that a request needs, in seconds.
    pub demand_s: f64,
}

/// Stations, and a delay that nobody queues for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueNetwork {
    /// The stations.
    pub stations: Vec<Station>,
    /// The delay of each request in seconds: thinking, waiting for a disk that serves all at once.
    pub delay_s: f64,
}

/// What a network does with so many requests at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Requests per second.
    pub throughput_per_s: f64,
    /// From the beginning of a request to its end, in seconds, the delay included.
    pub response_s: f64,
    /// Share of each station that is used.
    pub utilisation: Vec<f64>,
}

impl Station {
    /// The least time between two requests, in seconds.
    fn gap_s(&self) -> f64 {
        self.demand_s / self.servers
    }

    /// What a service takes beyond that gap: nobody waits behind it, since another server is free.
    fn delay_s(&self) -> f64 {
        (self.demand_s - self.gap_s()).max(0.0)
    }
}

impl QueueNetwork {
    /// The station that saturates first, with the throughput at which it does: nothing is faster, however many wait.
    #[must_use]
    pub fn bottleneck(&self) -> Option<(&Station, f64)> {
        let slowest = |a: &&Station, b: &&Station| a.gap_s().total_cmp(&b.gap_s());
        let station = self.stations.iter().max_by(slowest)?;
        Some((station, 1.0 / station.gap_s()))
    }

    /// The time of a request that is alone, in seconds.
    #[must_use]
    pub fn alone_s(&self) -> f64 {
        let service = self.stations.iter().map(|s| s.gap_s() + s.delay_s());
        service.sum::<f64>() + self.delay_s
    }

    /// What `requests` at a time do.
    #[must_use]
    pub fn solve(&self, requests: u32) -> Solution {
        let delay_s = self.stations.iter().map(Station::delay_s).sum::<f64>() + self.delay_s;
        let mut queued = vec![0.0; self.stations.len()];
        let (mut throughput_per_s, mut response_s) = (0.0, self.alone_s());
        for n in 1..=requests {
            let stay_s: Vec<f64> = self
                .stations
                .iter()
                .zip(&queued)
                .map(|(station, queued)| station.gap_s() * (1.0 + queued))
                .collect();
            response_s = stay_s.iter().sum::<f64>() + delay_s;
            throughput_per_s = f64::from(n) / response_s;
            queued = stay_s.iter().map(|s| s * throughput_per_s).collect();
        }
        Solution {
            throughput_per_s,
            response_s,
            utilisation: self
                .stations
                .iter()
                .map(|station| throughput_per_s * station.gap_s())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Networks whose solutions are known, and the laws that hold for all.
    use super::*;

    fn station(servers: f64, demand_s: f64) -> Station {
        Station {
            name: "a station",
            servers,
            demand_s,
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9 * b.abs().max(1e-9), "{a} is not {b}");
    }

    #[test]
    fn equal_stations_share_the_requests_equally() {
        // X(N) = N / (D (N + K - 1)) for K equal stations.
        let network = QueueNetwork {
            stations: vec![station(1.0, 0.01); 3],
            delay_s: 0.0,
        };
        for n in [1, 2, 10, 100] {
            let expected = f64::from(n) / (0.01 * (f64::from(n) + 2.0));
            close(network.solve(n).throughput_per_s, expected);
        }
    }

    #[test]
    fn two_requests_at_a_station_and_a_delay_by_hand() {
        // Alone: R = 1 + 1, X = 0.5, Q = 0.5. Both: R = 1.5 + 1, X = 2 / 2.5.
        let network = QueueNetwork {
            stations: vec![station(1.0, 1.0)],
            delay_s: 1.0,
        };
        close(network.alone_s(), 2.0);
        let both = network.solve(2);
        close(both.response_s, 2.5);
        close(both.throughput_per_s, 0.8);
        close(both.utilisation[0], 0.8);
    }

    #[test]
    fn no_more_than_the_bottleneck_and_no_less_time_than_alone() {
        let network = QueueNetwork {
            stations: vec![
                station(2.0, 0.004),
                station(1.0, 0.001),
                station(0.5, 0.0005),
            ],
            delay_s: 0.002,
        };
        let (slowest, limit_per_s) = network.bottleneck().unwrap();
        close(slowest.demand_s, 0.004);
        close(limit_per_s, 500.0);
        let mut before = 0.0;
        for n in 1..200 {
            let solved = network.solve(n);
            let most_per_s = limit_per_s * (1.0 + 1e-9);
            assert!(
                (before..=most_per_s).contains(&solved.throughput_per_s),
                "{n}: {solved:?}"
            );
            assert!(solved.response_s >= network.alone_s() - 1e-12);
            // Little's law over the whole network.
            close(solved.throughput_per_s * solved.response_s, f64::from(n));
            assert!(solved.utilisation.iter().all(|u| *u < 1.0 + 1e-9));
            before = solved.throughput_per_s * (1.0 - 1e-9);
        }
        assert!(before > 0.97 * limit_per_s);
        close(network.solve(1).response_s, network.alone_s());
        // The delay of 0.002, 0.004 + 0.001, and half a server takes twice as long.
        close(network.alone_s(), 0.008);
    }

    #[test]
    fn nobody_asks_for_nothing() {
        let network = QueueNetwork::default();
        assert_eq!(network.bottleneck(), None);
        assert_eq!(network.solve(0).throughput_per_s, 0.0);
    }
}
