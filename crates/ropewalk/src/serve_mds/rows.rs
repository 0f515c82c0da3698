//! Rows of the status, from what the cluster says of itself.

use crate::status::foreign::{self, ForeignServerRow};
use crate::status::{
    DataServerRow, FillingRow, GroupRow, NameClashRow, PlaceRow, STATE_DRAINING, STATE_EXPELLED,
    STATE_SERVING, ScrubRow,
};
use ::cluster::ServerState;

pub(super) fn clash_row(clash: &state::NameClash) -> NameClashRow {
    NameClashRow {
        owner: clash.owner_text(),
        addresses: clash.address_texts().to_vec(),
    }
}

/// The placement groups, each with its places that are to be looked at.
pub(super) fn groups(cluster: &::cluster::ClusterStatus) -> Vec<GroupRow> {
    let group = |(id, ds_ids): &(u32, Vec<u32>)| GroupRow {
        id: *id,
        ds_ids: ds_ids.clone(),
        places: (cluster.places.iter().filter(|p| p.group == *id))
            .map(place_row)
            .collect(),
    };
    cluster.groups.iter().map(group).collect()
}

pub(super) fn scrub_row(scrub: &control::ScrubState) -> ScrubRow {
    ScrubRow {
        running: scrub.is_running,
        order: scrub.order,
        objects: scrub.objects,
        objects_done: scrub.objects_done,
        read_bytes: scrub.bytes_read,
        scrubbed_at: scrub.scrubbed_at,
        blocks_found: scrub.blocks_found,
        blocks_mended: scrub.blocks_mended,
        damaged_blocks: scrub.damaged_blocks,
        damaged_files: scrub.damaged_files.0.clone(),
    }
}

pub(super) fn place_row(place: &::cluster::PlaceStatus) -> PlaceRow {
    PlaceRow {
        place: place.place,
        copies: place.copies,
        primary: place.primary,
        shares_domain: place.shares_domain,
        lacking_parts: place.lacking_parts,
        served: place.is_served,
        sync: place.sync.clone(),
        filling: place.filling.clone(),
        stale: place.stale.clone(),
        leaving: place.leaving.clone(),
    }
}

pub(super) fn filling_row(filling: &control::FillProgress) -> FillingRow {
    FillingRow {
        group: filling.group,
        place: filling.place,
        ds: filling.ds_id,
        parts: filling.parts,
        parts_done: filling.parts_done,
        bytes_sent: filling.bytes_sent,
    }
}

pub(super) fn row(server: &::cluster::ServerStatus) -> DataServerRow {
    let (capacity, c) = (server.capacity, server.counters);
    let state = match server.state {
        ServerState::Serving => STATE_SERVING,
        ServerState::Draining => STATE_DRAINING,
        ServerState::Joining => "catching up",
        ServerState::Away => "away",
        ServerState::Expelled => STATE_EXPELLED,
    };
    let readable = |(netid, uaddr): &(String, String)| {
        let parsed = rpc::UniversalAddress::parse(netid.as_bytes(), uaddr.as_bytes());
        parsed.map_or_else(|_| format!("{netid} {uaddr}"), |a| a.address.to_string())
    };
    DataServerRow {
        id: server.id,
        state: state.to_owned(),
        addresses: server.addresses.iter().map(readable).collect(),
        total_bytes: capacity.total_bytes,
        free_bytes: capacity.free_bytes,
        full: server.is_full,
        objects: capacity.objects_count,
        places: count(server.places),
        slow: server.slow.map(|slow| slow.why.to_string()),
        left_out: server.slow.is_some_and(|slow| slow.is_out),
        sync_us: server.sync_us,
        scrub: scrub_row(&server.scrub),
        client_read_bytes: c.client_read_bytes,
        client_written_bytes: c.client_written_bytes,
        proxy_read_bytes: c.proxy_read_bytes,
        proxy_written_bytes: c.proxy_written_bytes,
        handles_refused: c.handles_forged
            + c.handles_of_others
            + c.handles_fenced
            + c.handles_removed,
        errors: c.objects_lost + c.io_errors,
        refused: server.refused.clone(),
        closed_groups: server.closed_groups.clone(),
    }
}

pub(super) fn foreign_rows(fs: &::fs::Fs) -> Vec<ForeignServerRow> {
    let servers = fs.foreign().servers();
    servers.iter().map(|s| foreign_row(fs, s)).collect()
}

fn foreign_row(fs: &::fs::Fs, server: &::foreign::ServerStatus) -> ForeignServerRow {
    use ::foreign::ServerState;
    let state = match server.state {
        ServerState::Active => foreign::STATE_ACTIVE,
        ServerState::Draining => foreign::STATE_DRAINING,
        ServerState::Removed => foreign::STATE_REMOVED,
    };
    ForeignServerRow {
        id: format!("f{}", server.id),
        target: server.target.clone(),
        state: state.to_owned(),
        up: server.is_up,
        since_seconds: server.since.map(|since| since.as_secs()),
        total_bytes: server.total_bytes,
        free_bytes: server.free_bytes,
        groups: count(server.groups),
        files_left: ::fs::files_left_on(fs, server.id),
        client_read_bytes: server.client_bytes.read,
        client_written_bytes: server.client_bytes.written,
        failing: server.is_failing,
        last_error: server.last_error.clone(),
        last_error_seconds: server.last_error_ago.map(|ago| ago.as_secs()),
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
