//! The rows over RDMA, each beside the same over TCP in one comparison. The provider is software iWARP: a protocol, not hardware.

use super::{
    Bench, CREATES_COUNT, ClientForm, FILE_BYTES, FILE_BYTES_QUICK, Goal, MEMORY_DIR, Measured,
    READ_BYTES, READ_CONNECTIONS, Verdict, bare_creates, place,
};
use crate::nfs::create::Creates;
use crate::nfs::getattr::GetAttrs;
use crate::nfs::read::Reads;
use crate::runner::Metric;
use crate::{BenchError, Subject};
use std::path::Path;

impl Bench<'_> {
    pub(super) fn rdma_read(&self) -> Result<Measured, BenchError> {
        let dir = self.dir(Path::new(MEMORY_DIR));
        let size_bytes = if self.options.quick {
            FILE_BYTES_QUICK
        } else {
            FILE_BYTES
        };
        let tcp = self.cluster(dir.clone(), 1, false);
        let reads = |cluster, form| -> Box<dyn Subject> {
            Box::new(Reads {
                cluster,
                form,
                size_bytes,
                read_bytes: READ_BYTES,
            })
        };
        let subjects = vec![
            reads(tcp.clone(), ClientForm::Session),
            reads(tcp.over_rdma(true), ClientForm::Session),
            reads(tcp.over_rdma(false), ClientForm::Session),
            reads(tcp, ClientForm::Wire),
        ];
        let comparison = self.compare(READ_CONNECTIONS, subjects)?;
        let verdict = |index, base, what: &str, goal| Verdict {
            what: format!("READ 128 KiB, 16 connections, {what}"),
            metric: Metric::RequestsPerSecond,
            goal,
            ratio: comparison.ratio_to(index, base, Metric::RequestsPerSecond),
        };
        let verdicts = vec![
            verdict(1, 0, "iWARP with CRC to TCP", Some(Goal::AtLeast(0.6))),
            verdict(2, 0, "iWARP without CRC to TCP", Some(Goal::AtLeast(0.8))),
            verdict(
                1,
                3,
                "iWARP with CRC to TCP with a client of plain sockets",
                None,
            ),
            verdict(
                2,
                3,
                "iWARP without CRC to TCP with a client of plain sockets",
                None,
            ),
        ];
        let title = format!(
            "READ from the page cache, software iWARP and TCP; files on {}",
            place(&dir)
        );
        Ok(self.measured(title, comparison, verdicts))
    }

    pub(super) fn rdma_getattr(&self) -> Result<Measured, BenchError> {
        let dir = self.dir(Path::new(MEMORY_DIR));
        let tcp = self.cluster(dir.clone(), 1, self.options.memory);
        let asks = |cluster| -> Box<dyn Subject> {
            Box::new(GetAttrs {
                cluster,
                form: ClientForm::Session,
            })
        };
        let subjects = vec![
            asks(tcp.clone()),
            asks(tcp.over_rdma(true)),
            asks(tcp.over_rdma(false)),
        ];
        let comparison = self.compare(1, subjects)?;
        let verdict = |index, crc: &str, goal| Verdict {
            what: format!("GETATTR, 1 connection, iWARP {crc} CRC to TCP"),
            metric: Metric::LatencyP50Us,
            goal,
            ratio: comparison.ratio(index, Metric::LatencyP50Us),
        };
        let verdicts = vec![
            verdict(1, "with", Some(Goal::AtMost(1.3))),
            verdict(2, "without", None),
        ];
        let title = format!(
            "GETATTR, software iWARP and TCP; metadata {}",
            self.kept_in(&dir)
        );
        Ok(self.measured(title, comparison, verdicts))
    }

    pub(super) fn rdma_create(&self) -> Result<Measured, BenchError> {
        let dir = self.dir(&self.options.disk_dir);
        let tcp = self.cluster(dir.clone(), 1, false);
        let creates = |cluster| Box::new(Creates { cluster }) as Box<dyn Subject>;
        let subjects = vec![
            bare_creates(&dir),
            creates(tcp.clone()),
            creates(tcp.over_rdma(true)),
        ];
        let comparison = self.compare(CREATES_COUNT, subjects)?;
        let verdict = |base, to: &str, goal| Verdict {
            what: format!("Durable creates, 64 outstanding, iWARP to {to}"),
            metric: Metric::RequestsPerSecond,
            goal,
            ratio: comparison.ratio_to(2, base, Metric::RequestsPerSecond),
        };
        let verdicts = vec![
            verdict(0, "the bare store", Some(Goal::AtLeast(0.4))),
            verdict(1, "TCP", None),
        ];
        let title = format!(
            "Durable creates, software iWARP and TCP; stores on {}",
            place(&dir)
        );
        Ok(self.measured(title, comparison, verdicts))
    }
}
