//! Goal: a further RPC program is one more entry beside NFSv4, on the same connection and with the same refusals.
//! Method: a program of the test that says what it is told.

mod rig;

use nfs4::{PROGRAM, VERSION};
use rig::*;
use rpc::{AcceptError, flavor};
use rpc_service::{Call, Program, Seal};
use std::ops::RangeInclusive;
use std::sync::Arc;
use transport::{Address, Connector, Context, Message, NoService, TransportLimits};
use xdr::Encoder;

/// Says its arguments again.
struct Echo;

const ECHO: u32 = 400_001;

impl Program for Echo {
    fn number(&self) -> u32 {
        ECHO
    }

    fn versions(&self) -> RangeInclusive<u32> {
        2..=3
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        if call.header.procedure > 1 {
            return call.refuse(AcceptError::ProcUnavail);
        }
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        e.raw(call.args.rest());
        Some(e.into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_further_program_shares_the_connection_with_nfs() {
    let rig = Rig::new();
    let both = Arc::new(rig.nfsd.clone().with_programs(vec![Arc::new(Echo)]));
    let listener = rig.network.listen("both").unwrap();
    tokio::spawn(listener.serve(both, rig.context().clone(), rig.shutdown.signal()));
    let connector = rig
        .network
        .connector("client", Context::new(TransportLimits::default()));
    let address = Address::Memory("both".into());
    let conn = connector.connect(&address, NoService::shared()).await;
    let conn = conn.unwrap();
    let send = async |program, version, procedure, args: &[u8]| {
        let mut e = rpc_call(program, version, procedure, flavor::AUTH_SYS, &sys(0));
        e.raw(args);
        call(&conn, e.into_bytes()).await
    };
    assert_eq!(body(&send(ECHO, 2, 1, b"said").await), b"said");
    assert_eq!(body(&send(ECHO, 3, 0, b"").await), b"");
    let verdict_of =
        async |program, version, procedure| verdict(&send(program, version, procedure, b"").await);
    let mismatch = |low, high| AcceptError::ProgMismatch { low, high };
    assert_eq!(verdict_of(ECHO, 1, 0).await, mismatch(2, 3).into());
    assert_eq!(
        verdict_of(ECHO, 2, 9).await,
        AcceptError::ProcUnavail.into()
    );
    assert_eq!(verdict_of(PROGRAM, 3, 0).await, mismatch(4, 4).into());
    assert_eq!(verdict_of(1, 1, 1).await, AcceptError::ProgUnavail.into());
    // NFS goes on as before, its sessions included.
    let mounted = rig.mount_on(conn.clone(), "client", 0).await;
    assert_eq!(rig.nfsd.clients().lock().sessions_count(), 1);
    assert_eq!(VERSION, 4);
    drop(mounted);
}
